// SPDX-License-Identifier: Apache-2.0

package none

import (
	"encoding/binary"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// lookAhead is how many units beyond the newest known one are looked at.
const lookAhead = 1 << 14

// A receiver reports progress and decides when to wait no longer.
type receiver struct {
	t   scheme.Transfer
	env *scheme.Env

	top      int    // one more than the newest unit that was noticed
	arrivals uint64 // changes when a packet arrives
	reported int
	reportAt units.Instant
	// allSent: the sender has sent all. changed is when it said so or the last
	// packet arrived.
	allSent bool
	changed units.Instant
	missing int
	stats   scheme.Stats
}

func (r *receiver) OnControl(now units.Instant, frame []byte) error {
	if len(frame) != 1 || frame[0] != frameAllSent {
		return errFrame
	}
	if !r.allSent {
		r.allSent, r.changed = true, now
	}
	return nil
}

func (r *receiver) OnJob(units.Instant, uint32) {}

func (r *receiver) Stats() scheme.Stats { return r.stats }

// Poll reports progress. It is done when all is in place, or when all was sent
// and nothing has arrived for a while.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	r.updateArrivals(now, v)
	if r.missing = v.NextMissing(r.missing); r.missing >= r.t.Units {
		return units.Never, true, nil
	}
	next := units.Never
	if r.allSent {
		next = r.changed.Add(quiet(r.env))
		if now >= next {
			return units.Never, true, nil
		}
	}
	if r.top > r.reported {
		due := r.reportAt.Add(max(r.env.AckInterval, minInterval))
		if r.reported == 0 {
			due = now
		}
		if now >= due && cap(out.Frame) >= maxFrame {
			out.Frame = binary.AppendUvarint(append(out.Frame[:0], frameProgress), uint64(r.top))
			r.reported, r.reportAt = r.top, now
			r.stats.Frames++
			r.stats.FrameBytes += uint64(len(out.Frame))
		} else {
			next = min(next, max(due, now.Add(minInterval)))
		}
	}
	return next, false, nil
}

// updateArrivals looks for what has arrived.
func (r *receiver) updateArrivals(now units.Instant, v scheme.View) {
	var arrivals uint64
	for c := range r.env.Channels {
		if m := v.Mark(c); m.Valid {
			arrivals += m.Count + 1
			if m.Unit.IsData() {
				r.top = max(r.top, min(m.Unit.Index()+1, r.t.Units))
			}
		}
	}
	if arrivals != r.arrivals {
		r.arrivals, r.changed = arrivals, now
	}
	to := min(r.top+lookAhead, r.t.Units)
	for next := v.NextPresent(r.top, to); next < to; next = v.NextPresent(r.top, to) {
		r.top = min(v.NextMissing(next), to)
	}
}
