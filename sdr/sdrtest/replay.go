// SPDX-License-Identifier: Apache-2.0

package sdrtest

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A recorder is a device that remembers the writes that are posted on it, to send them once more later:
// to the receiver that is the same as a packet that was held back.
type recorder struct {
	backend.Device
	on  bool
	log []recorded
}

type recorded struct {
	qp backend.QP
	w  backend.Write
}

// NewQP makes a queue pair whose posts are recorded.
func (r *recorder) NewQP(c backend.QPConfig) (backend.QP, error) {
	q, err := r.Device.NewQP(c)
	if err != nil {
		return nil, err
	}
	return recordedQP{q, r}, nil
}

type recordedQP struct {
	backend.QP
	r *recorder
}

func (q recordedQP) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	n, err := q.QP.PostWrites(now, w)
	if q.r.on {
		for _, x := range w[:n] {
			x.Signaled = false
			q.r.log = append(q.r.log, recorded{q.QP, x})
		}
	}
	return n, err
}

// replay posts everything that was recorded once more, as far as there is room.
func (r *recorder) replay(now units.Instant) error {
	for _, x := range r.log {
		if _, err := x.qp.PostWrites(now, []backend.Write{x.w}); err != nil {
			return err
		}
	}
	return nil
}
