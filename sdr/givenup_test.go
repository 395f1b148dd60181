// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A latecomer is a driver that opens a granted message only once its receiver has completed it.
type latecomer struct {
	mr      *sdr.MR
	granted map[uint64]bool
	opened  chan error // how opening the message went
}

func (l *latecomer) Progress(p *sdr.Port) units.Instant {
	for i := range p.Events {
		switch e := &p.Events[i]; {
		case e.Kind == sdr.EventGrant:
			l.granted[e.Seq] = true
		case e.Kind == sdr.EventCompleted && l.granted[e.Seq]:
			delete(l.granted, e.Seq)
			_, err := p.OpenGranted(e.Seq, l.mr, 0, 4096)
			p.EndGranted(e.Seq)
			l.opened <- err
		}
	}
	return units.Never
}

func (l *latecomer) Failed(error) {}

// A receive that its owner gave up before the driver of the sender opened it can't be
// opened any more: the driver need not remember that it was completed.
func TestGivenUpGrantCannotBeOpened(t *testing.T) {
	s := newSockets(t, 1)
	l := &latecomer{mr: s.mr(t, 1, 4096), granted: map[uint64]bool{}, opened: make(chan error, 1)}
	var q [2]*sdr.QP
	for i := range 2 {
		var err error
		q[i], err = s.ctx[i].NewQP(sdr.QPConfig{Driver: [2]sdr.Driver{nil, l}[i]})
		require.NoError(t, err)
	}
	for i := range 2 {
		require.NoError(t, q[i].StartConnect(q[1-i].Info()))
	}
	eventually(t, "connected", func() bool {
		a, _ := q[0].Connected()
		b, _ := q[1].Connected()
		return a && b
	})
	r, err := q[0].PostRecv(s.mr(t, 0, 4096), 0, 4096)
	require.NoError(t, err)
	require.NoError(t, r.Complete())
	err = <-l.opened
	require.ErrorIs(t, err, sdr.ErrCompleted)
	require.ErrorContains(t, err, "given it up")
}
