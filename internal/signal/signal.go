// SPDX-License-Identifier: Apache-2.0

// Package signal is what goroutines do with channels that carry no values: one that is closed says that something has happened, and one with room for
// a token that somebody should look.
package signal

// Closed reports whether ch is closed, of a channel that nothing is sent to.
func Closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Nudge puts a token into ch, unless one is there already.
func Nudge(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
