// SPDX-License-Identifier: Apache-2.0

package verbstest

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// A Provider is two devices that reach each other, and in what providers may differ.
type Provider struct {
	// A and B are the names of devices.
	A, B string
	// Received is what the completion of a receive on a connected QP says besides.
	Received Received
	// LocalKey is the status of a send through a dead local key, ShortReceive that of one for which the receive is too small. Where
	// kernels differ there are several.
	LocalKey, ShortReceive []verbs.WCStatus
	// VendorErr: a failure has the vendor's code.
	VendorErr bool
	// PlacesWait: requests that aren't signalled keep their places until a later one completes.
	PlacesWait bool
	// CloseTakesCompletions: a QP that is closed takes its completions along that weren't polled.
	CloseTakesCompletions bool
	// CQEntries is what a CQ made for 3 completions holds.
	CQEntries int
}

// Received is what a device may say of a receive on a connected QP: the number of the sender's, and flags.
type Received struct {
	SrcQP bool
	Flags verbs.WCFlags
}

// pair makes two ends and connects them.
func (p Provider) pair(t testing.TB, c Config) (a, b *End) {
	t.Helper()
	return Pair(t, p.A, p.B, c)
}

// received is the completion of a receive on b that a's message has used up.
func (p Provider) received(a, b *End, wc verbs.WC) verbs.WC {
	wc.QPN = b.QP.Num()
	wc.Flags |= p.Received.Flags
	if p.Received.SrcQP {
		wc.SrcQP = a.QP.Num()
	}
	return wc
}

// Run runs every case as a subtest.
func (p Provider) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Provider)
	}{
		{"UC write with immediate", testWriteWithImmediate},
		{"send, inline and pieces", testSend},
		{"RC write, read, atomics", testRC},
		{"datagrams", testDatagrams},
		{"shared receives", testSharedReceives},
		{"shared by two QPs", testSharedByTwo},
		{"chosen remote address", testChosenAddress},
		{"signal all", testSignalAll},
		{"failures", testFailures},
		{"receiver not ready", testNotReady},
		{"right to write", testRight},
		{"error state", testErrorState},
		{"events", testEvents},
		{"CQ overflow", testCQOverflow},
		{"reset", testReset},
		{"close", testClose},
		{"closed", testClosed},
		{"full queues", testFullQueues},
		{"wrong request in a batch", testWrongRequest},
		{"mistakes with inline data", testInlineMistakes},
		{"mistakes of a connect", testConnectMistakes},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, p) })
	}
}
