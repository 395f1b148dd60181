// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ConnectConfig is what a connected QP (RC or UC) needs to know of itself and of its peer.
type ConnectConfig struct {
	// Port is the local port, from 1; 0 is taken as 1.
	Port int
	// PKeyIndex of the partition; 0 is the default one.
	PKeyIndex uint16
	// Access is what the peer may do.
	Access Access
	// Path to the peer. Its Port is that above; 0 is taken as that.
	Path AHAttr
	// PathMTU, at most the port's active MTU (PortAttr.ActiveMTU), and the same at both ends. It has no default.
	PathMTU MTU
	// RemoteQPN is the peer's QP number.
	RemoteQPN uint32
	// LocalPSN is the first packet sequence number sent, RemotePSN the first one expected: 24 bits.
	LocalPSN, RemotePSN uint32
	// RC holds what reliable connections need; nil gives them the values of rdma-core's examples: an RNR timer of 0.64 ms, a timeout
	// of 67 ms, seven retries of it (which rxe takes for endless ones) and endless ones of RNR, and one read or atomic in flight each way.
	RC *RCConfig
}

// RCConfig are the attributes of reliable connections.
type RCConfig struct {
	// MinRNRTimer, Timeout, RetryCount and RNRRetry are encoded as in QPAttr.
	MinRNRTimer, Timeout, RetryCount, RNRRetry uint8
	// MaxReadAtomic are the reads and atomics in flight from here, MaxDestReadAtomic those towards here.
	MaxReadAtomic, MaxDestReadAtomic uint8
}

// defaultRC is what ConnectConfig.RC says of nil.
var defaultRC = RCConfig{MinRNRTimer: 12, Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxReadAtomic: 1, MaxDestReadAtomic: 1}

// Connect takes an RC or UC QP from RESET through INIT and RTR to RTS, or from INIT on, with the access rights and the partition that it was
// given on the way there. A peer that sends at once needs receives that are posted before: take the QP to INIT with Modify, post them, then
// call Connect. Otherwise they can be posted after it.
func (q *QP) Connect(c ConnectConfig) error {
	if c.Port == 0 {
		c.Port = 1
	}
	switch s := q.State(); {
	case q.isGone():
		return ErrClosed
	case q.typ == UD:
		return q.bringUpError("connect", "a UD QP has no peer of its own: Activate takes it to RTS")
	case s != Reset && s != Init:
		return q.bringUpError("connect", fmt.Sprintf("the QP is in state %v: Connect takes one in RESET or INIT; Modify to RESET makes it fresh", s))
	case tooWide(c.Port):
		return q.bringUpError("connect", q.ctx.noPort(c.Port))
	}
	if c.Path.Port == 0 {
		c.Path.Port = c.Port
	}
	rc := c.RC
	if rc == nil {
		rc = &defaultRC
	}
	if q.State() == Reset {
		init := QPAttr{State: Init, PKeyIndex: c.PKeyIndex, Port: uint8(c.Port), Access: c.Access}
		if err := q.Modify(&init, MaskState|MaskPKeyIndex|MaskPort|MaskAccess); err != nil {
			return err
		}
	}
	rtr := QPAttr{State: RTR, AH: c.Path, PathMTU: c.PathMTU, DestQPN: c.RemoteQPN, RQPSN: c.RemotePSN,
		MaxDestReadAtom: rc.MaxDestReadAtomic, MinRNRTimer: rc.MinRNRTimer}
	mask := MaskState | MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN
	if q.typ == RC {
		mask |= MaskMaxDestReadAtomic | MaskMinRNRTimer
	}
	if err := q.Modify(&rtr, mask); err != nil {
		return err
	}
	rts := QPAttr{State: RTS, SQPSN: c.LocalPSN, Timeout: rc.Timeout, RetryCount: rc.RetryCount, RNRRetry: rc.RNRRetry,
		MaxReadAtomic: rc.MaxReadAtomic}
	mask = MaskState | MaskSQPSN
	if q.typ == RC {
		mask |= MaskTimeout | MaskRetryCount | MaskRNRRetry | MaskMaxQPReadAtomic
	}
	return q.Modify(&rts, mask)
}

// Activate takes a fresh UD QP to RTS. Peers must send with the same Q_Key.
func (q *QP) Activate(port int, qkey, psn uint32) error {
	switch {
	case q.typ != UD:
		return q.bringUpError("activate", "it needs a peer: Connect takes an RC or UC QP to RTS")
	case tooWide(port):
		return q.bringUpError("activate", q.ctx.noPort(port))
	}
	steps := []struct {
		attr QPAttr
		mask QPAttrMask
	}{
		{QPAttr{State: Init, Port: uint8(port), QKey: qkey}, MaskState | MaskPKeyIndex | MaskPort | MaskQKey},
		{QPAttr{State: RTR}, MaskState},
		{QPAttr{State: RTS, SQPSN: psn}, MaskState | MaskSQPSN},
	}
	for i := range steps {
		if err := q.Modify(&steps[i].attr, steps[i].mask); err != nil {
			return err
		}
	}
	return nil
}

func (q *QP) bringUpError(verb, fix string) error {
	return &Error{Op: verb, Object: q.String(), Err: unix.EINVAL, Fix: fix}
}
