// SPDX-License-Identifier: Apache-2.0

// Package bitmap holds the lock-free packet and chunk bitmaps of a message
// that is being received.
//
// A [Map] is a row of bits in 64-bit words. A [Pair] is the union of two maps
// over the same packets: first transmissions are recorded in the first-pass
// map, everything else in the repair map. A [Tracker] couples a pair with the
// chunk bitmap that applications watch, and keeps them consistent: a chunk's
// bit is set once all its packets are in, and it is counted once.
//
// Two maps exist because of what an atomic costs. Each word of the first-pass
// map has one writer at any time, the worker that owns the word's home channel,
// which gathers bits in a register and publishes them with a single atomic
// store per word ([Map.Publish], [Tracker.First]). Everything else may be
// written by anyone, with an atomic OR ([Map.Or], [Tracker.Repair]).
// A second writer of a first-pass word would overwrite bits that have already
// been acknowledged, and the transfer would never end; nothing here can detect
// that, except the race detector in a test.
//
// Readers never lock. Bits only ever go from 0 to 1, so what a scan reports
// missing was missing at some moment during the scan, and what it reports set
// stays set. (The exception is [Tracker.Shrink], which clears chunk bits beyond
// the new end just before it lowers the length.) All operations are sequentially consistent (package sync/atomic):
// whoever sees a bit also sees the bytes that were placed before it was set.
//
// Limits: the memory is the caller's ([Map.Bind], [Tracker.Bind]), so that
// messages can draw it from a pool; binding clears it and must not run
// concurrently with anything else. Nothing here allocates. Arguments come from
// the caller's own tables, not from the wire: an index outside the memory is a
// bug and panics, unless a method says otherwise.
package bitmap
