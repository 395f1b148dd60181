// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A hasty scheme's halves want to be polled at instant 0, whatever they have to do. polls counts how often they are.
type hasty struct {
	scheme.Scheme
	polls *atomic.Int64
}

type hastySender struct {
	scheme.Sender
	polls *atomic.Int64
}

type hastyReceiver struct {
	scheme.Receiver
	polls *atomic.Int64
}

func (h hasty) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := h.Scheme.NewSender(t, env)
	return hastySender{s, h.polls}, err
}

func (h hasty) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	r, err := h.Scheme.NewReceiver(t, env)
	return hastyReceiver{r, h.polls}, err
}

func (h hastySender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	h.polls.Add(1)
	_, err := h.Sender.Poll(now, out)
	return 0, err
}

func (h hastyReceiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	h.polls.Add(1)
	_, done, err := h.Receiver.Poll(now, v, out)
	return 0, done, err
}

// A hastyController's limits always should have changed already.
type hastyController struct {
	congestion.Controller
	asked *atomic.Int64
}

func (h hastyController) Limits(units.Instant) (units.Rate, units.Bytes) { return 0, 8 * 1024 }
func (h hastyController) Next() units.Instant                            { h.asked.Add(1); return 0 }

// TestHaste: a scheme, or a congestion control, that wants to be called at a time that is over is called once in a while, and what it holds up
// goes on. 100 ms of round trip are 100 pauses for each half in real time, and 100 000 in virtual time, for up to four round trips; what else
// calls them is some datagrams.
func TestHaste(t *testing.T) {
	for name, conn := range map[string]func(calls *atomic.Int64) (func() scheme.Scheme, reliability.Config){
		"scheme": func(calls *atomic.Int64) (func() scheme.Scheme, reliability.Config) {
			return func() scheme.Scheme { return hasty{newSR(t, sr.RTO)(), calls} }, reliability.Config{}
		},
		"congestion control": func(calls *atomic.Int64) (func() scheme.Scheme, reliability.Config) {
			return newSR(t, sr.RTO), reliability.Config{Congestion: congestion.Spec{New: func(congestion.Path) congestion.Controller {
				return hastyController{congestion.Fixed{}, calls}
			}}}
		},
	} {
		t.Run(name+" in virtual time", func(t *testing.T) {
			var calls atomic.Int64
			s, c := conn(&calls)
			p := newPair(t, setup{net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * ms}}, qp: sdr.QPConfig{MTU: 4096}, conn: c, scheme: s})
			before := calls.Load()
			p.timed(16 * units.KiB)
			require.Less(t, calls.Load()-before, int64(1_000_000))
		})
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			s, c := conn(&calls)
			e := overSockets(t, linkemu.Config{Seed: 1, RTT: 100 * units.Millisecond}, c, s)
			begun, before := time.Now(), calls.Load()
			e.move(t, e.alloc(t, 0, 16*units.KiB), e.alloc(t, 1, 16*units.KiB), 16*units.KiB)
			pauses := int64(time.Since(begun) / time.Millisecond)
			require.Less(t, calls.Load()-before, 4*pauses+1000)
		})
	}
}
