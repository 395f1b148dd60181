// SPDX-License-Identifier: Apache-2.0

// Package bottleneck is a network of one queue in virtual time: senders with controllers of package
// congestion, each with a round trip of its own, share one link with a drop-tail or marking queue
// behind which packets may get lost at random. The link's rate may change, and it may carry nothing for a while.
//
// It stands in for a real bottleneck where hundreds of runs are wanted, each the same every time:
// the table of docs/results/congestion.md and the unit tests of the controllers. A sender's losses
// are noticed when a later packet's feedback arrives, or by a timeout; feedback comes for each
// packet, or collected, as a receiver of package reliability reports.
package bottleneck
