// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// senderEnv makes the test binary a sender that speaks and does the same as "ucpeer DEVICE send
// MESSAGES SIZE BATCH".
const senderEnv = "SDR_VERBS_SENDER"

type sender struct {
	messages, size, batch int

	mr *verbs.MR
	cq *verbs.CQ
	qp *verbs.QP
}

func runSender(args string) error {
	var s sender
	var dev string
	if _, err := fmt.Sscan(args, &dev, &s.messages, &s.size, &s.batch); err != nil {
		return err
	}
	ctx, err := verbs.Open(dev)
	if err != nil {
		return err
	}
	defer ctx.Close()
	gid, err := ctx.QueryGID(1, 0)
	if err != nil {
		return err
	}
	if err := s.create(ctx); err != nil {
		return err
	}
	fmt.Println(s.qp.Num(), s.mr.RKey(), s.mr.IOVA(), gid.GID)
	var qpn, rkey uint32
	var addr uint64
	var text string
	if _, err := fmt.Scan(&qpn, &rkey, &addr, &text); err != nil {
		return err
	}
	peer, err := parseGID(text)
	if err != nil {
		return err
	}
	err = s.qp.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: peer}, PathMTU: verbs.MTU4096, RemoteQPN: qpn,
		LocalPSN: peerPSN, RemotePSN: peerPSN})
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.send(addr, rkey); err != nil {
		return err
	}
	fmt.Println(time.Since(start).Nanoseconds())
	return nil
}

func (s *sender) create(ctx *verbs.Context) error {
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	buf, err := verbs.AllocBuffer(s.size * s.batch)
	if err != nil {
		return err
	}
	if s.mr, err = pd.RegisterMR(buf, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if s.cq, err = ctx.CreateCQ(512, nil); err != nil {
		return err
	}
	s.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 256, MaxSendSGE: 1}})
	return err
}

// send is the loop that is measured.
func (s *sender) send(addr uint64, rkey uint32) error {
	wrs, wcs := make([]verbs.SendWR, s.batch), make([]verbs.WC, 256)
	mem, batch, size := s.mr.SGE(0, s.size), uint32(s.batch), uint64(s.size)
	for sent := 0; sent < s.messages; {
		n := min(s.batch, s.messages-sent)
		for i := range wrs[:n] {
			off := uint64(uint32(sent+i)%batch) * size
			wr := &wrs[i]
			wr.Opcode, wr.Flags, wr.Imm = verbs.OpRDMAWriteWithImm, verbs.SendSignaled, uint32(sent+i)
			wr.Local.Addr, wr.Local.Length, wr.Local.LKey = mem.Addr+off, mem.Length, mem.LKey
			wr.RemoteAddr, wr.RKey = addr+off, rkey
		}
		k, err := s.qp.PostSend(wrs[:n])
		if err != nil {
			return err
		}
		for done := 0; done < k; {
			got, err := s.cq.Poll(wcs)
			if err != nil {
				return err
			}
			for i := range wcs[:got] {
				if wcs[i].Status != verbs.WCSuccess {
					return errors.New(wcs[i].Status.String())
				}
			}
			if done += got; got == 0 {
				_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // to the kernel's thread that sends, where there is one
			}
		}
		sent += k
	}
	return nil
}
