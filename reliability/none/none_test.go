// SPDX-License-Identifier: Apache-2.0

package none

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestConformance(t *testing.T) {
	schemetest.Suite{New: New, Partial: true}.Run(t)
}

// Everything is sent once; exactly what the network dropped is missing.
func TestSendsOnce(t *testing.T) {
	for seed := range uint64(100) {
		c := schemetest.Case{Seed: seed, Units: 500, Link: schemetest.Link{Loss: 20_000, ControlLoss: 20_000}}
		r, err := c.Run(New)
		require.NoError(t, err)
		lost := 0
		for _, f := range r.Faults {
			if !f.Control {
				lost++
			}
		}
		require.Equal(t, lost, r.Missing, "seed %d", seed)
		require.Equal(t, 500, r.Injected)
		require.Zero(t, r.Sender.Retransmitted)
	}
}

// Without loss the transfer ends when the last unit arrives, with loss a quiet
// round trip later.
func TestCompletionTime(t *testing.T) {
	c := schemetest.Case{Seed: 1, Units: 500}
	r, err := c.Run(New)
	require.NoError(t, err)
	require.InEpsilon(t, int64(c.Ideal()), int64(r.Completion[0]), 0.001)

	c.Replay, c.Faults = true, []schemetest.Fault{{Kind: schemetest.Drop, Index: 499}}
	r, err = c.Run(New)
	require.NoError(t, err)
	require.Equal(t, 1, r.Missing)
	require.InEpsilon(t, int64(c.Ideal()+c.RTT()), int64(r.Completion[0]), 0.02)
}

// A sender that pauses is not taken for one that is done.
func TestPauseIsNotAllSent(t *testing.T) {
	c := schemetest.Case{Seed: 1, Units: 100, Buffers: []schemetest.Grant{{At: 0, Units: 50}, {At: units.Instant(5 * units.Second), Units: 100}}}
	r, err := c.Run(New)
	require.NoError(t, err)
	require.Zero(t, r.Missing)
}

// A window that was lost as a whole doesn't stop the transfer.
func TestLostWindow(t *testing.T) {
	c := schemetest.Case{Seed: 1, Units: 100, Window: 10, Link: schemetest.Link{
		Blackouts: []schemetest.Blackout{{From: 0, To: units.Instant(5 * units.Millisecond)}},
	}}
	r, err := c.Run(New)
	require.NoError(t, err)
	require.NotZero(t, r.Missing)
	require.Less(t, r.Missing, 30)
}

func TestBadFrames(t *testing.T) {
	env := &scheme.Env{Channels: 1, MaxFrame: 100, DataLimit: 10}
	sch := New()
	require.Equal(t, "none", sch.Name())
	require.Zero(t, sch.ParityUnits(10))
	s, err := sch.NewSender(scheme.Transfer{Units: 10}, env)
	require.NoError(t, err)
	for _, frame := range [][]byte{{}, {frameProgress}, {frameProgress, 1}, {frameProgress, 0x80}, {frameProgress, 0, 0}, {frameAllSent}, {9, 0}} {
		require.Error(t, s.OnControl(0, frame), "%v: nothing has been sent", frame)
	}
	r, err := sch.NewReceiver(scheme.Transfer{Units: 10, Params: s.Params()}, env)
	require.NoError(t, err)
	for _, frame := range [][]byte{{}, {frameProgress, 0}, {frameAllSent, 0}} {
		require.Error(t, r.OnControl(0, frame))
	}
	_, err = sch.NewReceiver(scheme.Transfer{Units: 10}, env)
	require.ErrorContains(t, err, "version")
	_, err = sch.NewSender(scheme.Transfer{Units: 10}, &scheme.Env{})
	require.ErrorContains(t, err, "channels")
}

func FuzzProgress(f *testing.F) {
	f.Add([]byte{frameProgress, 5}, uint16(10))
	f.Add([]byte{frameProgress, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint16(10))
	f.Fuzz(func(t *testing.T, frame []byte, sent uint16) {
		if top, err := parseProgress(frame, int(sent)); err == nil && (top < 0 || top > int(sent)) {
			t.Fatalf("%d of %d", top, sent)
		}
	})
}
