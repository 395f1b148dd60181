// SPDX-License-Identifier: Apache-2.0

package bottleneck

import (
	"math"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// Cubic is a TCP sender with the window of RFC 9438: slow start from ten packets, the cubic function
// of time with C 0.4 and β 0.7, the region friendly to Reno, fast convergence, one cut a round trip,
// and no pacing. Segments are the link's packets.
type Cubic struct {
	Packet units.Bytes

	window, threshold float64 // in packets
	most, reno        float64
	began             units.Instant // of this epoch; 0: none
	k                 float64       // seconds until the window is what it was
	srtt              units.Duration
	recover           units.Instant // cuts only for what is lost after it
}

const (
	cubicC    = 0.4
	cubicBeta = 0.7
)

// OnSent does nothing.
func (c *Cubic) OnSent(units.Instant, units.Bytes, units.Bytes) {}

// OnCNP does nothing: TCP hears of marks by its acknowledgements, and this sender has no ECN.
func (c *Cubic) OnCNP(units.Instant) {}

// Next is never.
func (c *Cubic) Next() units.Instant { return units.Never }

// Limits is the window.
func (c *Cubic) Limits(units.Instant) (units.Rate, units.Bytes) {
	if c.window == 0 {
		c.window, c.threshold = 10, math.Inf(1)
	}
	return 0, units.Bytes(c.window) * c.Packet
}

// OnAck lets the window grow.
func (c *Cubic) OnAck(now units.Instant, a *congestion.Ack) {
	if c.srtt == 0 {
		c.srtt = a.RTT
	}
	c.srtt += (a.RTT - c.srtt) / 8
	n := float64(a.Acked) / float64(c.Packet)
	if c.window < c.threshold {
		c.window += n
		return
	}
	if c.began == 0 {
		c.began, c.reno = now, c.window
		c.k = 0
		if c.most > c.window {
			c.k = math.Cbrt((c.most - c.window) / cubicC)
		} else {
			c.most = c.window
		}
	}
	t := float64(now.Sub(c.began))/1e9 + float64(c.srtt)/1e9
	d := t - c.k
	target := cubicC*d*d*d + c.most
	target = min(max(target, c.window), 1.5*c.window)
	c.reno += 3 * (1 - cubicBeta) / (1 + cubicBeta) * n / c.window
	c.window = max(c.window+(target-c.window)*n/c.window, c.reno)
}

// OnLoss cuts the window.
func (c *Cubic) OnLoss(now units.Instant, l congestion.Loss) {
	if l.Kind == congestion.LossTimeout {
		c.threshold = max(c.window*cubicBeta, 2)
		c.window, c.began = 1, 0
		return
	}
	if now < c.recover {
		return
	}
	c.recover = now.Add(c.srtt)
	if c.window < c.most {
		c.most = c.window * (1 + cubicBeta) / 2
	} else {
		c.most = c.window
	}
	c.window = max(c.window*cubicBeta, 2)
	c.threshold, c.began = c.window, 0
}
