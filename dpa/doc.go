// SPDX-License-Identifier: Apache-2.0

// Package dpa is the packet engine of the SDR receiver: it turns completions
// into bits of a message's packet bitmap, and packets into chunks (paper,
// section 3.4; there it runs on the Data Path Accelerator of a BlueField-3, from
// which the package has its name).
//
// A Worker processes the completions that one goroutine has polled. For each it
// finds the channel by the completion's cookie, the message by the slot in the
// immediate, checks generation, kind and length, and sets the packet's bit. It
// gathers the bits of up to 64 bitmap words, since paths and messages arrive
// interleaved, and publishes each with one atomic store when the batch ends or
// its bucket is needed; then come the channels' marks. The worker knows nothing
// of queue pairs, buffers or control; package sdr owns those, opens and closes
// Messages, and runs the fence with the worker's Epoch.
//
// # Concurrency
//
// A Worker belongs to one goroutine. Slots and Message are shared: their fields
// are atomics, or constant while the message is open.
package dpa
