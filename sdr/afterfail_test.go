// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A listener is a driver that notes what it is told once its queue pair has failed.
type listener struct {
	failed bool
	late   []sdr.Event
}

func (l *listener) Progress(p *sdr.Port) units.Instant {
	if l.failed {
		l.late = append(l.late, p.Events...)
	}
	return units.Never
}

func (l *listener) Failed(error) {}

// TestOnlyOutcomesAfterFail: of what a peer said before it left, the driver of a queue pair that has failed is told the outcomes only,
// also while a caller waits: about anything else it would find that the port is closed, and give up transfers whose outcome comes behind it.
func TestOnlyOutcomesAfterFail(t *testing.T) {
	for _, waits := range []bool{false, true} {
		l := new(listener)
		cfg := small
		cfg.Driver = l
		p := newPair(t, link(), cfg)
		grant := wire.Frame{Type: wire.TypeCTS, ID: 1, Role: byte(sdr.RoleData), Length: 4096, Total: 4096}
		before := p.qp[0].Held().Events
		p.qp[0].ReceiveFrames(1000, grant.Append(nil))
		require.Equal(t, before+1, p.qp[0].Held().Events, "the grant")
		l.failed = true
		p.qp[0].Fail(sdr.ErrPeerClosed)
		if waits {
			p.qp[0].AwaitedBy(make(chan struct{}))
		}
		p.run(50 * ms)
		require.NoError(t, p.ctx[0].Close())
		for _, e := range l.late {
			require.Equal(t, sdr.EventCompleted, e.Kind, "%+v", e)
		}
	}
}
