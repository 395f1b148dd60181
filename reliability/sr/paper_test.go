// SPDX-License-Identifier: Apache-2.0

package sr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// The paper's link: 400 Gbit/s, 25 ms, 64 KiB units (section 5).
const (
	paperRTT  = 25 * units.Millisecond
	paperRate = 400 * units.Gbit
)

func paperCase(n int) schemetest.Case {
	return schemetest.Case{Seed: 1, Units: n, Rate: paperRate, Link: schemetest.Link{Delay: paperRTT / 2}}
}

func unitTime(n int) units.Duration { return paperRate.Time(64 * units.KiB * units.Bytes(n)) }

// dropping makes the network drop the given transmissions and nothing else.
func dropping(c schemetest.Case, index ...int) schemetest.Case {
	c.Replay = true
	for _, i := range index {
		c.Faults = append(c.Faults, schemetest.Fault{Kind: schemetest.Drop, Index: i})
	}
	return c
}

func run(t *testing.T, mode sr.Mode, c schemetest.Case) (units.Duration, schemetest.Result) {
	t.Helper()
	r, err := c.Run(makeScheme(mode))
	require.NoError(t, err)
	require.Zero(t, r.Missing)
	return r.Completion[0], r
}

// Section 4.2: without drops a Write takes M/BW + RTT.
func TestLosslessCompletion(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, n := range []int{1, 16, 2048, 16384} {
			c := paperCase(n)
			took, r := run(t, mode, c)
			require.InEpsilon(t, int64(c.Ideal()), int64(took), 0.01, "%d units", n)
			require.Zero(t, r.Sender.Retransmitted)
		}
	}
}

// Section 4.1.1: "When the RTO expires, the sender retransmits the chunk", and
// section 4.2.2: each drop of a chunk costs O = RTO + T_INJ.
func TestEachDropCostsRTO(t *testing.T) {
	const n, dropped = 16, 7
	for drops := range 3 {
		// The repeats of the only lost unit are what is sent after the first 16.
		index := []int{dropped, n, n + 1}[:drops+1]
		took, r := run(t, sr.RTO, dropping(paperCase(n), index...))
		rto := 3 * paperRTT
		want := unitTime(dropped) + units.Duration(drops+1)*(rto+unitTime(1)) + paperRTT
		require.InEpsilon(t, int64(want), int64(took), 0.001)
		require.EqualValues(t, drops+1, r.Sender.Retransmitted)
		require.EqualValues(t, drops+1, r.Sender.Timeouts)
		require.Zero(t, r.Sender.Spurious)
	}
}

// Section 4.1.1: RTO = RTT + α·RTT.
func TestAlpha(t *testing.T) {
	for _, alpha := range []float64{0.5, 1, 2, 5} {
		s := schemeOf(sr.Config{Alpha: alpha})
		r, err := dropping(paperCase(16), 15).Run(s)
		require.NoError(t, err)
		want := unitTime(16) + paperRTT + units.Duration(alpha*float64(paperRTT)) + paperRTT
		require.InEpsilon(t, int64(want), int64(r.Completion[0]), 0.001)
	}
}

// Section 5.2.2: "retransmissions are hidden within the injection pipeline" of a
// large message.
func TestEarlyDropIsHidden(t *testing.T) {
	const n = 131072 // 8 GiB take 172 ms
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		c := dropping(paperCase(n), 100)
		took, r := run(t, mode, c)
		require.InEpsilon(t, int64(c.Ideal()+unitTime(1)), int64(took), 0.001)
		require.EqualValues(t, 1, r.Sender.Retransmitted)
	}
}

// Section 5.2.1: "the sender can initiate retransmission in 1 RTT". The frame
// that shows it is at most one interval late, and the probe behind the last packet
// of a channel makes the tail no worse.
func TestDropCostsOneRoundTripWithNACK(t *testing.T) {
	const n = 16
	for dropped := range n {
		took, r := run(t, sr.NACK, dropping(paperCase(n), dropped))
		most := unitTime(n+1) + paperRTT + paperRTT/32 + paperRTT
		require.LessOrEqual(t, took, most+most/1000, "unit %d", dropped)
		require.EqualValues(t, 1, r.Sender.Retransmitted)
		require.Zero(t, r.Sender.Timeouts, "the path itself must confirm the loss")
	}
}

// Whatever is lost once more costs one more round trip.
func TestRepeatsAreConfirmedToo(t *testing.T) {
	const n = 16
	// 16 units, 4 channels with 2 probes each, then the repeat.
	took, r := run(t, sr.NACK, dropping(paperCase(n), 7, n+8))
	most := unitTime(n+2) + 2*(paperRTT+paperRTT/32) + paperRTT
	require.LessOrEqual(t, took, most)
	require.EqualValues(t, 2, r.Sender.Retransmitted)
	require.Zero(t, r.Sender.Timeouts)
}

// A burst that takes a channel's last packets and both probes is what the
// channel's timer is for.
func TestTimerBacksUpProbes(t *testing.T) {
	c := paperCase(16)
	c.Channels = 1
	_, r := run(t, sr.NACK, dropping(c, 14, 15, 16, 17))
	require.EqualValues(t, 2, r.Sender.Retransmitted)
	require.NotZero(t, r.Sender.Timeouts)
	require.Less(t, r.Completion[0], 3*paperRTT)
}

// Any single acknowledgement may be lost.
func TestAnyAcknowledgementMayBeLost(t *testing.T) {
	const n = 300
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		c := dropping(paperCase(n), 3, 50, 51, 52, 120, 250)
		c.MaxFrame = 128
		base, whole := run(t, mode, c)
		for i := range int(whole.Receiver.Frames) {
			one := c
			one.Faults = append([]schemetest.Fault{{Kind: schemetest.Drop, Control: true, Back: true, Index: i}}, c.Faults...)
			took, r := run(t, mode, one)
			require.EqualValues(t, 6, r.Sender.Retransmitted, "frame %d", i)
			require.LessOrEqual(t, took, base+paperRTT/16, "frame %d", i)
		}
	}
}
