// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"slices"
	"testing"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Maker makes the devices of one case. It may fail t, and registers what has to be cleaned up besides
// the devices with t.Cleanup; the suite closes the devices.
type Maker func(t testing.TB, ask Faults) *Pair

// A Pair is two devices that reach each other.
type Pair struct {
	A, B backend.Device
	// Faults are what the network really does to packets in both directions.
	Faults Faults
	// Overruns says that nothing holds a sender up when the receiver comes late to take what has arrived
	// or to replace its receives, so that now and then a packet is lost. Cases in which what is under
	// way always fits what the receiver has posted don't put up with it; the others do.
	Overruns bool
	// Marks says that the network marks packets: writes may complete with backend.FlagECN, and their
	// senders be notified. Without it neither may happen.
	Marks bool
	// Settle is how long a packet may be in flight on a real clock, with delays and reordering; 0 for
	// devices that are next to each other.
	Settle units.Duration
	// Idle, when set, reports whether the devices have done all that they were asked to and nothing is in flight between
	// them. Devices that are other threads of the machine need it: while these don't get a processor, silence says nothing.
	// Without it nothing is taken to be in flight once nothing has come for a little more than Settle.
	Idle func() bool
	// Timeout is how long a case waits on a real clock for what must come; 0: 10 s.
	Timeout time.Duration
	// Advance moves a virtual clock to an instant, and Next says when the network has something to do,
	// units.Never for nothing. Both are needed when Caps.Virtual is set, and not used otherwise.
	Advance func(to units.Instant)
	Next    func() units.Instant
}

// Faults are probabilities, from 0 to 1, of what may happen to a packet.
type Faults struct {
	Loss, Duplicate, Reorder, Corrupt float64
}

// overrun is the loss that a case without pacing must reckon with when Pair.Overruns is set.
const overrun = 1e-6

// Lose reports whether a packet may fail to arrive.
func (f Faults) Lose() bool { return f.Loss > 0 || f.Corrupt > 0 }

// repeats reports whether a packet may arrive twice: the network's doing, or ours after a loss.
func (f Faults) repeats() bool { return f.Duplicate > 0 || f.Lose() }

// inOrder reports whether packets of one queue pair arrive in the order in which they were posted. A packet
// that we repeat comes late.
func (f Faults) inOrder() bool { return f == Faults{} }

// A Case is one part of a contract.
type Case struct {
	Name string
	Run  func(t testing.TB, mk Maker)
}

var cases = []Case{
	{"caps", testCaps},
	{"objects", testObjects},
	{"MTU", testMTU},
	{"info", testInfo},
	{"not connected", testNotConnected},
	{"delivery", testDelivery},
	{"both directions", testBothDirections},
	{"order", testOrder},
	{"queue pairs", testQueuePairs},
	{"too large", testTooLarge},
	{"bad source", testBadSource},
	{"full queue", testFullQueue},
	{"bad rkey", testBadKey},
	{"out of bounds", testOutOfBounds},
	{"NULL entry", testNullEntry},
	{"late sequence", testLateSequence},
	{"zero length", testZeroLength},
	{"unposted receive", testUnpostedReceive},
	{"expose", testExpose},
	{"revoke", testRevoke},
	{"revoke under fire", testRevokeUnderFire},
	{"region busy", testRegionBusy},
	{"table close", testTableClose},
	{"many messages", testManyMessages},
	{"sent in order", testSentInOrder},
	{"sent frees memory", testSentFreesMemory},
	{"datagrams", testDatagrams},
	{"datagrams refused", testDatagramsRefused},
	{"poll", testPoll},
	{"wait", testWait},
	{"loss", testLoss},
	{"duplication", testDuplication},
	{"reordering", testReordering},
	{"corruption", testCorruption},
	{"close queue pair", testCloseQP},
	{"close device", testCloseDevice},
	{"close under fire", testCloseUnderFire},
}

// Run runs every case as a subtest on devices of its own, and then more: what a layer above promises on every device.
func Run(t *testing.T, mk Maker, more ...Case) {
	for _, c := range slices.Concat(cases, more) {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, mk) })
	}
}

// RunSome is Run of the cases with these names: for devices that share most of their code with others, on which all were run.
func RunSome(t *testing.T, mk Maker, names []string, more ...Case) {
	some := slices.DeleteFunc(slices.Concat(cases, more), func(c Case) bool { return !slices.Contains(names, c.Name) })
	if len(some) != len(names) {
		t.Fatalf("of the cases %q there are %d", names, len(some))
	}
	for _, c := range some {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, mk) })
	}
}

// Pair calls the Maker and checks what it gives, for a case that may send more than the receiver takes.
func (mk Maker) Pair(t testing.TB, ask Faults) *Pair {
	t.Helper()
	p := mk.PacedPair(t, ask)
	if p.Overruns {
		p.Faults.Loss = max(p.Faults.Loss, overrun)
	}
	return p
}

// PacedPair is Pair for a case that never does.
func (mk Maker) PacedPair(t testing.TB, ask Faults) *Pair {
	t.Helper()
	p := mk(t, ask)
	if p == nil || p.A == nil || p.B == nil {
		t.Fatal("the Maker gave no pair of devices")
	}
	if p.Marks && (!p.A.Caps().ECN || !p.B.Caps().ECN) {
		t.Fatal("the network marks, and a device says that it tells of no marks (Caps.ECN)")
	}
	if p.A.Caps().Virtual && (p.Advance == nil || p.Next == nil) {
		t.Fatal("the devices' clock is virtual: the Maker must set Pair.Advance and Pair.Next")
	}
	if p.Timeout == 0 {
		p.Timeout = 10 * time.Second
	}
	t.Cleanup(func() {
		for _, d := range []backend.Device{p.A, p.B} {
			if err := d.Close(); err != nil {
				t.Errorf("close %s: %v", d.Caps().Backend, err)
			}
		}
	})
	return p
}

// Rounds is how often a case repeats something: fewer times with -short or under the race detector.
func Rounds(full int) int {
	if testing.Short() || race.Enabled {
		return max(1, full/16)
	}
	return full
}

// SkipVirtual skips what needs several goroutines or a clock that runs.
func SkipVirtual(t testing.TB, d backend.Device) {
	t.Helper()
	if c := d.Caps(); c.Virtual {
		t.Skipf("%s has a virtual clock (Caps.Virtual): one goroutine uses it, and nothing blocks", c.Backend)
	}
}
