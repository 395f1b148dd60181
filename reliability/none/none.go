// SPDX-License-Identifier: Apache-2.0

// Package none is the unreliable baseline, "none": every unit is sent once and
// what is lost stays lost, as in perftest's UC write benchmarks.
//
// The receiver reports how far units have got, only so that the sender can keep
// its window and not overrun the receiver. It is done when everything has
// arrived or, once the sender has said that it has sent everything, when nothing
// has arrived for a round trip; units may then be missing, which the View shows.
//
// Of a transfer of more messages than the receiver keeps posted, Conn completes those that
// packets half a window further on have passed, so that it doesn't stop behind a lost unit.
//
// That a device has read what was sent moves nothing here: cores aren't told, and neither half is asked again because of it. It says
// only that the packets have left, and a window that opened with that would be the device's and not the
// receiver's. The sender acts when the receiver reports, when a message is granted, when the pacer lets it, and at times of its
// own: minInterval after it has handed out its last units, and after four quiet times without any report. While the device has no
// room, Conn keeps what was handed out, and asks again once it has been sent.
//
// The package does no I/O, starts no goroutine and reads no clock.
package none

import (
	"errors"
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// version is the format of the frames, announced in START.
	version = 1
	// maxFrame is the most that a frame takes.
	maxFrame = 1 + 5
	// unknownRTT is assumed while nothing has been measured.
	unknownRTT = units.Second
	// minQuiet is how long the end of a transfer waits at least: less than
	// that a host may be silent because of its scheduler.
	minQuiet = 10 * units.Millisecond
	// minInterval spaces frames.
	minInterval = 20 * units.Microsecond
)

// Frames: a kind, and for progress the number of units below which all have
// arrived, are in flight or are lost.
const (
	frameProgress = 1 // of the receiver
	frameAllSent  = 2 // of the sender: all units have been sent
)

var errFrame = errors.New("none: malformed frame")

// New returns the scheme. It has no state.
func New() scheme.Scheme { return unreliable{} }

type unreliable struct{}

func (unreliable) Name() string { return "none" }

// Partial implements scheme.Partial: what is lost stays missing.
func (unreliable) Partial() {}

func (unreliable) ParityUnits(int) int { return 0 }

func (unreliable) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	if err := check(env); err != nil {
		return nil, err
	}
	return &sender{t: t, env: env}, nil
}

func (unreliable) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	if len(t.Params) != 1 || t.Params[0] != version {
		return nil, errors.New("none: the peer speaks another version; install the same on both ends")
	}
	if err := check(env); err != nil {
		return nil, err
	}
	return &receiver{t: t, env: env}, nil
}

func check(env *scheme.Env) error {
	if env.Channels < 1 || env.MaxFrame < maxFrame {
		return fmt.Errorf("none: %d channels and frames of %d bytes: at least 1 and %d are needed", env.Channels, env.MaxFrame, maxFrame)
	}
	return nil
}

// rtt is the round trip to reckon with.
func rtt(env *scheme.Env) units.Duration {
	if env.RTT <= 0 {
		return unknownRTT
	}
	return env.RTT + 4*env.RTTVar
}

// quiet is how long nothing must have happened before what is missing counts as
// lost.
func quiet(env *scheme.Env) units.Duration { return max(rtt(env), minQuiet) }

func parseProgress(frame []byte, sent int) (int, error) {
	r := varint.NewReader(frame)
	kind, top := r.Byte(), r.Uint(math.MaxUint64)
	if r.Failed() || kind != frameProgress || len(r.Rest()) > 0 {
		return 0, errFrame
	}
	if top > uint64(sent) {
		return 0, fmt.Errorf("none: the peer has unit %d, but only %d have been sent", top-1, sent)
	}
	return int(top), nil
}
