// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// QPState is a state of a QP (IBTA volume 1, 10.3.1; enum ibv_qp_state).
type QPState uint8

// States, in the order in which a QP is brought up.
const (
	Reset    QPState = 0
	Init     QPState = 1
	RTR      QPState = 2 // ready to receive
	RTS      QPState = 3 // ready to send
	SQD      QPState = 4 // send queue drained
	SQE      QPState = 5 // send queue error
	ErrState QPState = 6
)

func (s QPState) String() string {
	return name(s, []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, "QPState")
}

// QPAttrMask says which fields of a QPAttr Modify sets (enum ibv_qp_attr_mask).
type QPAttrMask uint32

// Mask bits, with libibverbs' values.
const (
	MaskState              QPAttrMask = 1 << 0
	MaskCurState           QPAttrMask = 1 << 1
	MaskEnSQDAsyncNotify   QPAttrMask = 1 << 2
	MaskAccess             QPAttrMask = 1 << 3
	MaskPKeyIndex          QPAttrMask = 1 << 4
	MaskPort               QPAttrMask = 1 << 5
	MaskQKey               QPAttrMask = 1 << 6
	MaskAV                 QPAttrMask = 1 << 7
	MaskPathMTU            QPAttrMask = 1 << 8
	MaskTimeout            QPAttrMask = 1 << 9
	MaskRetryCount         QPAttrMask = 1 << 10
	MaskRNRRetry           QPAttrMask = 1 << 11
	MaskRQPSN              QPAttrMask = 1 << 12
	MaskMaxQPReadAtomic    QPAttrMask = 1 << 13
	MaskAltPath            QPAttrMask = 1 << 14
	MaskMinRNRTimer        QPAttrMask = 1 << 15
	MaskSQPSN              QPAttrMask = 1 << 16
	MaskMaxDestReadAtomic  QPAttrMask = 1 << 17
	MaskPathMigrationState QPAttrMask = 1 << 18
	MaskCap                QPAttrMask = 1 << 19
	MaskDestQPN            QPAttrMask = 1 << 20
)

var maskNames = []string{"STATE", "CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU",
	"TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER", "SQ_PSN", "MAX_DEST_RD_ATOMIC",
	"PATH_MIG_STATE", "CAP", "DEST_QPN"}

func (m QPAttrMask) String() string { return flagNames(uint64(m), maskNames) }

// QPAttr are the attributes of a QP (struct ibv_qp_attr).
type QPAttr struct {
	State, CurState  QPState
	PathMTU          MTU
	PathMigState     PathMigState
	QKey             uint32
	RQPSN, SQPSN     uint32 // 24 bits
	DestQPN          uint32
	Access           Access
	Cap              QPCap // Query only, as CreateQP gave them
	AH, AltAH        AHAttr
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	EnSQDAsyncNotify bool
	SQDraining       bool // Query only
	MaxReadAtomic    uint8
	MaxDestReadAtom  uint8
	MinRNRTimer      uint8 // 0..31, IBTA volume 1, table 46
	Port, AltPort    uint8
	Timeout          uint8 // 4.096 µs · 2^Timeout
	RetryCount       uint8 // 0..7; rxe takes 7 for endless retries
	RNRRetry         uint8 // 0..7, 7 means for ever
	AltTimeout       uint8
	SignalAll        bool // Query only
}

// State is the state that the last Modify or Query saw. A QP can fall into ERR on its own, which
// events and completions tell.
func (q *QP) State() QPState { return QPState(q.state.Load()) }

// Modify sets the attributes named in mask. The kernel checks that they fit the transition.
func (q *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	in := uapi.ModifyQp{
		Dest: attr.AH.dest(), AltDest: attr.AltAH.dest(), QpHandle: q.handle, AttrMask: uint32(mask), Qkey: attr.QKey,
		RqPsn: attr.RQPSN, SqPsn: attr.SQPSN, DestQpNum: attr.DestQPN, QpAccessFlags: uint32(attr.Access),
		PkeyIndex: attr.PKeyIndex, AltPkeyIndex: attr.AltPKeyIndex, QpState: uint8(attr.State), CurQpState: uint8(attr.CurState),
		PathMtu: uint8(attr.PathMTU), PathMigState: uint8(attr.PathMigState), EnSqdAsyncNotify: bit(attr.EnSQDAsyncNotify),
		MaxRdAtomic: attr.MaxReadAtomic, MaxDestRdAtomic: attr.MaxDestReadAtom, MinRnrTimer: attr.MinRNRTimer,
		PortNum: attr.Port, Timeout: attr.Timeout, RetryCnt: attr.RetryCount, RnrRetry: attr.RNRRetry,
		AltPortNum: attr.AltPort, AltTimeout: attr.AltTimeout,
	}
	// A transition to RESET empties the queues: it must not meet a post half way.
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	if q.gone {
		return ErrClosed
	}
	for _, path := range []struct {
		mask QPAttrMask
		ah   *AHAttr
	}{{MaskAV, &attr.AH}, {MaskAltPath, &attr.AltAH}} {
		if f := path.ah.problem(q.ctx); mask&path.mask != 0 && f != "" {
			return &Error{Op: "modify", Object: fmt.Sprintf("%v, %v", q, mask), Err: unix.EINVAL, Fix: f}
		}
	}
	// Kernels compare the path MTU with the largest of the port, not with the active one, and then
	// drop every packet that does not fit.
	if f := q.mtuProblem(attr, mask); f != "" {
		return &Error{Op: "modify", Object: fmt.Sprintf("%v, %v", q, mask), Err: unix.EINVAL, Fix: f}
	}
	if err := q.ctx.do(q.part.modify(&in)); err != nil {
		return q.modifyError(attr, mask, err)
	}
	if mask&MaskState != 0 {
		q.state.Store(uint32(attr.State))
		if attr.State == Reset {
			q.part.reset()
		}
	}
	return nil
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// modifyError says which attributes a transition lacks or must not have, or what is wrong with the path. recvMu is held.
func (q *QP) modifyError(attr *QPAttr, mask QPAttrMask, err error) error {
	e := &Error{Op: "modify", Object: fmt.Sprintf("%v, %v", q, mask), Err: err, Fix: fix(err)}
	if mask&MaskState != 0 {
		_, _ = q.query(MaskState) // it may have fallen into ERR
		e.Object = fmt.Sprintf("%v, %v to %v", q, q.State(), attr.State)
	}
	if f := transitionFix(q.typ, q.State(), attr.State, mask); mask&MaskState != 0 && f != "" {
		e.Fix = f
		return e
	}
	switch f := q.pathProblem(attr, mask); {
	case f != "":
		e.Fix = f
	case mask&MaskAV != 0:
		e.Fix = pathFix(err)
	}
	return e
}

// pathProblem compares the attributes of a path with the port.
func (q *QP) pathProblem(attr *QPAttr, mask QPAttrMask) string {
	port := attr.AH.Port
	if mask&MaskPort != 0 {
		port = int(attr.Port)
	}
	if mask&(MaskAV|MaskPort) == 0 {
		return ""
	}
	p, err := q.ctx.QueryPort(port)
	switch {
	case errors.Is(err, ErrRemoved):
		return fix(err)
	case err != nil:
		return q.ctx.noPort(port)
	case p.State != PortActive:
		return fmt.Sprintf("port %d is %v: bring its network interface up", port, p.State)
	}
	if mask&MaskAV == 0 {
		return ""
	}
	if q.ctx.lacksGID(port, attr.AH.SGIDIndex) {
		return noGID(port, attr.AH.SGIDIndex)
	}
	if attr.AH.DGID.IsZero() && p.LinkLayer == LinkEthernet {
		return "the remote GID is not set: take the one of the peer's port that its GIDTable lists"
	}
	return ""
}

func (q *QP) mtuProblem(attr *QPAttr, mask QPAttrMask) string {
	if mask&(MaskPathMTU|MaskAV) != MaskPathMTU|MaskAV {
		return ""
	}
	if attr.PathMTU == 0 {
		return "the path MTU is not set: take at most the ActiveMTU that QueryPort tells, the same at both ends"
	}
	p, err := q.ctx.QueryPort(attr.AH.Port)
	if err != nil || attr.PathMTU <= p.ActiveMTU {
		return "" // a wrong port is the kernel's to refuse
	}
	return fmt.Sprintf("path MTU %v is more than the port's %v: raise the MTU of the network interface to at least %d",
		attr.PathMTU, p.ActiveMTU, attr.PathMTU.Bytes()+mtuOverhead)
}

// mtuOverhead is what rxe reserves of an interface's MTU for headers (RXE_MAX_HDR_LENGTH).
const mtuOverhead = 80

// pathFix is for errnos of the kernel's address resolution.
func pathFix(err error) string {
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.ENODATA):
		return "no route or no neighbour for the remote GID: ping it; both GIDs must be of the same address family"
	case errors.Is(err, unix.EINVAL):
		return "check the remote GID, the local GID index and the hop limit"
	}
	return fix(err)
}

func stateError(q *QP, verb string, s QPState) error {
	need := "RTS"
	if strings.Contains(verb, "receive") {
		need = "INIT"
	}
	return &Error{Op: verb, Object: q.String(), Err: unix.EINVAL, Fix: fmt.Sprintf("the QP is in state %v: bring it to %s first", s, need)}
}

// Query asks for the attributes of the QP; the kernel fills in those of the mask, or more.
func (q *QP) Query(mask QPAttrMask) (QPAttr, error) {
	q.recvMu.Lock() // the kernel gives the handle of a closed QP to another one, and Modify changes the state
	defer q.recvMu.Unlock()
	if q.gone {
		return QPAttr{}, ErrClosed
	}
	return q.query(mask)
}

// query is Query; recvMu is held.
func (q *QP) query(mask QPAttrMask) (QPAttr, error) {
	in := uapi.QueryQp{QpHandle: q.handle, AttrMask: uint32(mask)}
	var r uapi.QueryQpResp
	if err := write(q.ctx, uapi.IB_USER_VERBS_CMD_QUERY_QP, &in, &r); err != nil {
		return QPAttr{}, wrap("query", q.String(), err)
	}
	if mask&MaskState != 0 {
		q.state.Store(uint32(r.QpState))
	}
	return QPAttr{
		State: QPState(r.QpState), CurState: QPState(r.CurQpState), PathMTU: MTU(r.PathMtu), PathMigState: PathMigState(r.PathMigState),
		QKey: r.Qkey, RQPSN: r.RqPsn, SQPSN: r.SqPsn, DestQPN: r.DestQpNum, Access: Access(r.QpAccessFlags),
		Cap: q.cap,
		AH:  ahAttr(&r.Dest), AltAH: ahAttr(&r.AltDest), PKeyIndex: r.PkeyIndex, AltPKeyIndex: r.AltPkeyIndex,
		SQDraining: r.SqDraining != 0, MaxReadAtomic: r.MaxRdAtomic, MaxDestReadAtom: r.MaxDestRdAtomic, MinRNRTimer: r.MinRnrTimer,
		Port: r.PortNum, AltPort: r.AltPortNum, Timeout: r.Timeout, RetryCount: r.RetryCnt, RNRRetry: r.RnrRetry,
		AltTimeout: r.AltTimeout, SignalAll: r.SqSigAll != 0,
	}, nil
}
