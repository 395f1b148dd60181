// SPDX-License-Identifier: Apache-2.0

// Package adaptive is hybrid repeat and coding that needs no settings: it measures
// the loss of its connection and chooses, for each transfer, what is cheapest.
//
// Parity is worth its bandwidth only where a repeat can't hide behind data that has
// still to be sent. So a transfer is cut in time:
//
//   - The body is what is sent more than a round trip before the end. It is repaired
//     by path-confirmed repeat, as of sr in NACK mode, without any parity.
//   - The tail is the rest. Its units are dealt out to groups in turn, so that a
//     burst of losses spreads over them, and a few rows of an MDS code follow each
//     group (tail.go).
//   - Body units that were repeated within the last round trip are a late group:
//     they get rows, too, and a frame names them to the receiver (late.go).
//
// A group that has lost more than its rows recover gets new rows, as many as it
// lacks and some for their own losses (more.go). A group that rows don't settle is
// given up: what it lost is repeated by name, as if it were body. Thereby parity
// never decides whether a transfer ends, only when.
//
// How many rows follows from the drop rate and the length of bursts, remembered
// from transfer to transfer (model.go, binomial.go). Only random loss is learnt from
// (docs/congestion.md): a full queue would get fuller by parity, and is the congestion
// control's affair, which alone owns the rate. Where other transfers wait for that rate,
// a tail of a few units has the rows that save more than these lose by them, often none.
//
// # How it is put together
//
// Both halves build on reliability/internal/loss, as those of sr do, and speak its
// acknowledgements behind a section of their own (frame.go). A parity unit is a probe there: a packet that
// carries no data, but shows how far its channel has got. What is lost and a group will
// recover is left to the group.
//
// Decisions use integers, or float64 sums and products rounded one by one, and the
// square root: no operation that platforms fuse or compute differently. The package
// does no I/O, starts no goroutine and reads no clock.
package adaptive
