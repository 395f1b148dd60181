// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// ErrRange is wrapped by every error about a parameter; the message gives the allowed range.
var ErrRange = errors.New("out of range")

// Limits of a [Transfer].
const (
	MinRate = units.Kbit
	MaxRate = 1000 * units.Tbit
	MinRTT  = 100 * units.Nanosecond
	MaxRTT  = 1000 * units.Second
	MaxSize = 1 << 10 * units.TiB
	MaxUnit = units.GiB
	// MaxUnits bounds the units of a message, so that times keep their precision.
	MaxUnits = 1 << 40
	// MaxInjection bounds Size/Rate to a year, so that what repeats add still fits a [units.Duration].
	MaxInjection = 365 * 24 * 3600 * units.Second
)

// A Transfer is one reliable write over one link. It is a plain value.
type Transfer struct {
	Rate units.Rate     // of user data, MinRate to MaxRate
	RTT  units.Duration // MinRTT to MaxRTT
	Size units.Bytes    // of the message, 1 to MaxSize and what the rate carries in MaxInjection
	Unit units.Bytes    // what a scheme repeats or codes, 1 to MaxUnit; the last one may be shorter
	Drop UnitDrop       // of a unit, first transmission, repeat and parity alike

	// Control is the drop probability of a control frame. 0 is the paper's model. Otherwise START
	// and the final acknowledgement are sent as docs/wire.md says: three spaced copies, then once
	// per RTT.
	Control PacketDrop

	// Burst is the mean length of bursts of losses in packets, in time: bursts go on between packets
	// (see [PacketDrop.UnitInBursts]). 0 and 1 make losses independent; at most MaxBurst.
	Burst float64
	// Packets is how many packets a unit has; 0 means 1. It matters to bursts only.
	Packets int64
}

// Validate reports the first parameter that is out of range.
func (t Transfer) Validate() error {
	switch {
	case t.Rate < MinRate || t.Rate > MaxRate:
		return operr.New("predict", "completion time", "%w: rate %v, allowed %v to %v", ErrRange, t.Rate, MinRate, MaxRate)
	case t.RTT < MinRTT || t.RTT > MaxRTT:
		return operr.New("predict", "completion time", "%w: RTT %s, allowed %s to %s", ErrRange, units.FormatDuration(t.RTT), units.FormatDuration(MinRTT), units.FormatDuration(MaxRTT))
	case t.Size < 1 || t.Size > MaxSize:
		return operr.New("predict", "completion time", "%w: size %v, allowed 1 B to %v", ErrRange, t.Size, MaxSize)
	case t.Unit < 1 || t.Unit > MaxUnit:
		return operr.New("predict", "completion time", "%w: unit %v, allowed 1 B to %v", ErrRange, t.Unit, MaxUnit)
	case t.Units() > MaxUnits:
		return operr.New("predict", "completion time", "%w: %d units of %v, allowed %d: use larger units", ErrRange, t.Units(), t.Unit, int64(MaxUnits))
	case t.Rate.Time(t.Size) > MaxInjection:
		return operr.New("predict", "completion time", "%w: %v take more than a year at %v, allowed are %v: use a higher rate or a smaller size", ErrRange, t.Size, t.Rate, t.Rate.Bytes(MaxInjection))
	}
	if err := t.checkBursts(); err != nil {
		return err
	}
	if err := checkDrop("unit", float64(t.Drop)); err != nil {
		return err
	}
	return checkDrop("control frame", float64(t.Control))
}

// Units returns how many units the message has: the paper's M.
func (t Transfer) Units() int64 { return int64((t.Size + t.Unit - 1) / t.Unit) }

// Ideal returns the completion time without loss, Size/Rate + RTT.
func (t Transfer) Ideal() units.Duration { return t.Rate.Time(t.Size) + t.RTT }

// inject is the time to put one unit on the channel in nanoseconds: the paper's T_INJ.
func (t Transfer) inject() float64 {
	return float64(min(t.Unit, t.Size)) * 8e9 / float64(t.Rate)
}

// short is how much less than inject the last unit takes, in nanoseconds.
func (t Transfer) short() float64 {
	return float64(t.Units())*t.inject() - float64(t.Size)*8e9/float64(t.Rate)
}

func (t Transfer) rtt() float64 { return float64(t.RTT) }
