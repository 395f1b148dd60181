// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sender repeats what the tracker finds lost.
type sender struct {
	*loss.Tracker
	scheme *selectiveRepeat
}

func (s *sender) Params() []byte { return s.scheme.params }

// Recycle implements scheme.Recycler.
func (s *sender) Recycle() { s.scheme.senders.Put(s) }

func (s *sender) OnJob(units.Instant, uint32) {}

// OnControl handles an acknowledgement.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	if err := s.OnAck(now, frame); err != nil {
		return fmt.Errorf("sr: %w", err)
	}
	return nil
}

// Poll sends repeats, then new units, then probes.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	next := s.Expire(now)
	before := len(out.Sends)
	room := min(out.Budget, cap(out.Sends)-before)
	for ; room > 0; room-- {
		l, ok := s.NextLost()
		if !ok {
			break
		}
		s.Repeat(l.Unit)
		out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(l.Unit), Channel: l.Channel, Repeat: true})
	}
	room -= s.SendNew(now, out, room)
	next = min(next, s.Probe(now, out, room))
	if len(out.Sends) > before {
		// The timers of what was handed out don't run yet, but none is shorter.
		next = min(next, now.Add(s.scheme.config.MinTimeout))
	}
	return next, nil
}

// A receiver reports the bitmap.
type receiver struct {
	*loss.Reporter
	scheme *selectiveRepeat
	env    *scheme.Env
}

// Recycle implements scheme.Recycler.
func (r *receiver) Recycle() { r.scheme.receivers.Put(r) }

var errNoFrames = errors.New("sr: the sender's half sends no frames")

func (r *receiver) OnControl(units.Instant, []byte) error { return errNoFrames }

func (r *receiver) OnJob(units.Instant, uint32) {}

// Poll makes an acknowledgement when one is due.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	due, next, done := r.Due(now, v)
	if room := min(r.env.MaxFrame, cap(out.Frame)); due && len(out.Frame) == 0 && room >= loss.MinFrame {
		out.Frame, next = r.AppendAck(now, out.Frame[:0], room, v)
	}
	return next, done, nil
}
