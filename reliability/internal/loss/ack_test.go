// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// randomBoard has units in place in runs of about the given length.
func randomBoard(rng *rand.Rand, n, run, channels int) *board {
	b := &board{total: n, present: make([]uint64, n/64+1), marks: make([]scheme.Mark, channels)}
	has := false
	for u := range n {
		if rng.IntN(run) == 0 {
			has = !has
		}
		if has && u < n-1 {
			b.arrive(scheme.Sent{Unit: scheme.Unit(u), Channel: rng.IntN(channels)})
		}
	}
	return b
}

// What a frame says is true, and frames together say everything: within a few
// frames the rotating section has passed over the whole bitmap.
func TestFramesCoverTheBitmap(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(5000)
		env := &scheme.Env{Channels: 1 + rng.IntN(20), MaxFrame: MinFrame + rng.IntN(1000), AckInterval: 1}
		b := randomBoard(rng, n, 1+rng.IntN(20), env.Channels)
		r := new(Reporter)
		r.Begin(scheme.Transfer{Units: n}, env)
		reported := make([]bool, n)
		var a ack
		frames := 0
		for now := units.Instant(0); frames < 200 && slices.Contains(reported, false); now += 2 * units.Instant(units.Second) {
			due, _, _ := r.Due(now, b)
			if !due {
				break // nothing has arrived at all
			}
			frame, _ := r.AppendAck(now, nil, env.MaxFrame, b)
			frames++
			require.LessOrEqual(t, len(frame), env.MaxFrame)
			require.NoError(t, a.parse(frame, n, n, env.Channels), "seed %d", seed)
			checkFrame(t, &a, b, reported)
		}
		if b.NextPresent(0, n) == n {
			continue
		}
		if u := slices.Index(reported, false); u >= 0 {
			t.Fatalf("seed %d: nothing is ever said of unit %d of %d", seed, u, n)
		}
	}
}

// checkFrame checks that a frame says of each unit what is true or nothing.
func checkFrame(t *testing.T, a *ack, b *board, reported []bool) {
	t.Helper()
	said := make([]bool, len(reported))
	for u := range a.cum {
		said[u], reported[u] = true, true
	}
	for _, s := range a.present {
		for u := s.from; u < s.to; u++ {
			said[u] = true
			if !a.covers(u) {
				t.Fatalf("unit %d is in place but not covered", u)
			}
		}
	}
	for u := range reported {
		if a.covers(u) || u < a.cum {
			reported[u] = true
			if b.Has(scheme.Unit(u)) != said[u] {
				t.Fatalf("unit %d: the frame says %t", u, said[u])
			}
		}
	}
	for _, m := range a.marks {
		require.Equal(t, b.marks[m.channel].Unit, m.unit)
		require.Equal(t, b.marks[m.channel].Count, m.count)
	}
}

// One frame has room for all that is missing after mild loss.
func TestFrameIsSmallUnderMildLoss(t *testing.T) {
	const n = 20000 // 1.25 GiB at 64 KiB: the bandwidth-delay product of the paper's link
	b := &board{total: n + 1, present: make([]uint64, n/64+1), marks: make([]scheme.Mark, 4)}
	for u := range n {
		if u%1000 != 0 {
			b.arrive(scheme.Sent{Unit: scheme.Unit(u), Channel: u / 4 % 4})
		}
	}
	r := new(Reporter)
	r.Begin(scheme.Transfer{Units: n + 1}, &scheme.Env{Channels: 4, MaxFrame: 1024, AckInterval: 1})
	due, _, _ := r.Due(0, b)
	require.True(t, due)
	frame, _ := r.AppendAck(0, nil, 1024, b)
	var a ack
	require.NoError(t, a.parse(frame, n+1, n+1, 4))
	require.True(t, a.covers(n))
	require.Less(t, len(frame), 120)
}

// In silence frames are repeated, for a while steadily, then ever more slowly, and stop at one a second.
func TestFramesAreRepeatedInSilence(t *testing.T) {
	h := newHand(t, Timeout, 100, 1)
	h.poll(10, 100)
	require.Nil(t, h.anyFrame(), "none before anything has arrived")
	h.arrive(3)
	var at []units.Instant
	for end := h.now.Add(10 * units.Second); h.now < end; {
		next := h.frameAt()
		if len(h.out.Frame) > 0 {
			at = append(at, h.now)
		}
		require.Greater(t, next, h.now)
		h.now = next
	}
	require.Less(t, len(at), steadyRepeats+30)
	for i := 1; i <= steadyRepeats; i++ {
		require.Equal(t, h.env.AckInterval, at[i].Sub(at[i-1]))
	}
	require.Equal(t, 2*h.env.AckInterval, at[steadyRepeats+1].Sub(at[steadyRepeats]))
	require.Equal(t, units.Second, at[len(at)-1].Sub(at[len(at)-2]))
}

// While data arrives there is one frame for each interval, however often the
// core is called.
func TestFramesArePaced(t *testing.T) {
	h := newHand(t, Timeout, 2000, 1)
	h.poll(2000, 2000)
	frames := 0
	for i := range 1000 {
		h.arrive(i + 1)
		if h.anyFrame() != nil {
			frames++
		}
		h.after(h.env.AckInterval / 20)
	}
	require.InDelta(t, 50, frames, 2)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{frameACK, 1, 0, 0, 0, 0, 2, 3, 0}, uint16(10), uint16(100))
	f.Add([]byte{frameACK, 200, 1, 5, 1, 1, 18, 5, 3, 0, 80, 0, 0, 1, 0, 1, 1, 0}, uint16(50), uint16(100))
	f.Add([]byte{frameACK}, uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, frame []byte, sent, total uint16) {
		n := int(total) + 1
		var a ack
		if a.parse(frame, min(int(sent), n), n, 3) != nil {
			return
		}
		top := a.cum
		for _, p := range a.present {
			if p.from < top || p.to <= p.from {
				t.Fatalf("runs overlap: %v after %d", p, top)
			}
			top = p.to
		}
		if top > int(sent) || a.cum < 0 {
			t.Fatalf("%d units acknowledged, %d sent", top, sent)
		}
		for _, c := range a.covered {
			if c.from < a.cum || c.to < c.from || c.to > n {
				t.Fatalf("covers %v of %d", c, n)
			}
		}
		for _, m := range a.marks {
			if m.channel < 0 || m.channel >= 3 || m.unit.IsParity() || m.unit.IsProbe() && m.unit.Index() >= scheme.Probes {
				t.Fatalf("mark %+v", m)
			}
		}
	})
}

// FuzzTracker feeds frames, cut from the input, to a sender in mid-transfer. Its
// count of outstanding units must stay what the states say.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{9, frameACK, 1, 0, 0, 0, 0, 2, 3, 0, 5, frameACK, 2, 10, 0, 0}, true)
	f.Add([]byte{7, frameACK, 1, 0, 1, 0, 10, 1, 8, frameACK, 5, 2, 1, 1, 2, 7, 0}, false)
	f.Fuzz(func(t *testing.T, data []byte, proof bool) {
		rule := Timeout
		if proof {
			rule = PathProof
		}
		h := newHand(t, rule, 200, 3)
		for len(data) > 0 {
			h.poll(int(data[0]), 50)
			n := min(1+int(data[0])%64, len(data))
			_ = h.s.OnAck(h.after(units.Millisecond).now, data[1:n])
			data = data[n:]
			checkOutstanding(t, h.s)
		}
	})
}

// checkOutstanding counts by hand.
func checkOutstanding(t *testing.T, s *Tracker) {
	n := 0
	for u := s.window.base; u < s.window.next; u++ {
		if !s.window.isAcked(u) && s.window.at(u).fate != lost {
			n++
		}
	}
	if n != s.Outstanding() {
		t.Fatalf("%d outstanding, but the states say %d", s.Outstanding(), n)
	}
}
