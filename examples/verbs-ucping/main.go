// SPDX-License-Identifier: Apache-2.0

// Command verbs-ucping measures round trips of UC RDMA writes with immediate between two RDMA
// devices of this machine whose interfaces are connected (by a cable, or a veth pair under
// Soft-RoCE). It shows the whole life of a connection in package verbs. On a machine without such
// devices, it runs on fake ones, whose times mean nothing:
//
//	go build -o /tmp/ ./examples/verbs-ucping
//	go run ./test/fakeverbs/run -devices rxe0,rxe1 -- /tmp/verbs-ucping
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sdr-rdma/go-sdr/verbs"
)

func main() {
	from := flag.String("d", "rxe0", "`device` that starts")
	to := flag.String("e", "rxe1", "`device` that answers")
	gid := flag.Int("x", 0, "GID `index` on both")
	size := flag.Int("s", 64, "message size in `bytes`, up to the path MTU")
	count := flag.Int("n", 1000, "`number` of round trips")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Measures UC write round trips between two devices of this machine.\n\n  verbs-ucping [-d rxe0] [-e rxe1]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || *count < 1 {
		fmt.Fprintln(os.Stderr, "verbs-ucping: it takes no arguments but flags, and -n of at least 1; -h lists them")
		os.Exit(2)
	}
	if err := run(*from, *to, *gid, *size, *count); err != nil {
		fmt.Fprintln(os.Stderr, "verbs-ucping:", err)
		os.Exit(1)
	}
}

func run(from, to string, gid, size, count int) error {
	a, err := newEnd(from, gid, size)
	if err != nil {
		return err
	}
	defer a.ctx.Close()
	b, err := newEnd(to, gid, size)
	if err != nil {
		return err
	}
	defer b.ctx.Close()
	if size < 1 || size > min(a.mtu, b.mtu).Bytes() {
		return fmt.Errorf("-s %d: it must be 1 to %v bytes, the path MTU", size, min(a.mtu, b.mtu))
	}
	if err := a.connect(b, gid); err != nil {
		return err
	}
	if err := b.connect(a, gid); err != nil {
		return err
	}
	start := time.Now()
	for i := range count {
		for _, hop := range [][2]*end{{a, b}, {b, a}} {
			if err := hop[0].write(hop[1], uint32(i)); err != nil {
				return fmt.Errorf("round trip %d: %w", i, err)
			}
		}
	}
	d := time.Since(start)
	_, err = fmt.Printf("%d round trips of %d bytes between %s and %s: %v each\n", count, size, from, to, d/time.Duration(count))
	return err
}

// end is one end of the connection.
type end struct {
	ctx *verbs.Context
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
	gid verbs.GID
	mtu verbs.MTU
}

// newEnd opens a device and makes what a connection needs. Closing the context frees it all.
func newEnd(device string, gid, size int) (*end, error) {
	ctx, err := verbs.Open(device)
	if err != nil {
		return nil, err
	}
	e := &end{ctx: ctx}
	if err := e.create(gid, size); err != nil {
		ctx.Close()
		return nil, err
	}
	return e, nil
}

func (e *end) create(gid, size int) error {
	pd, err := e.ctx.AllocPD()
	if err != nil {
		return err
	}
	buf, err := verbs.AllocBuffer(max(size, 1))
	if err != nil {
		return err
	}
	if e.mr, err = pd.RegisterMR(buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	if e.cq, err = e.ctx.CreateCQ(16, nil); err != nil {
		return err
	}
	e.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	if err != nil {
		return err
	}
	g, err := e.ctx.QueryGID(1, gid)
	if err != nil {
		return err
	}
	p, err := e.ctx.QueryPort(1)
	e.gid, e.mtu = g.GID, p.ActiveMTU
	return err
}

func (e *end) connect(peer *end, gid int) error {
	return e.qp.Connect(verbs.ConnectConfig{
		Access: verbs.AccessRemoteWrite, Path: verbs.AHAttr{DGID: peer.gid, SGIDIndex: gid}, PathMTU: min(e.mtu, peer.mtu),
		RemoteQPN: peer.qp.Num(),
	})
}

// lost is how long a message may take, on a machine that is busy, too. UC does not repeat what the network
// loses.
const lost = 10 * time.Second

// write sends one message and waits until the peer has it.
func (e *end) write(peer *end, imm uint32) error {
	if _, err := peer.qp.PostRecv([]verbs.RecvWR{{}}); err != nil {
		return err
	}
	if _, err := e.qp.PostSend([]verbs.SendWR{{
		Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: imm, Local: e.mr.SGE(0, len(e.mr.Bytes())),
		RemoteAddr: peer.mr.IOVA(), RKey: peer.mr.RKey(),
	}}); err != nil {
		return err
	}
	if _, err := e.wait(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	wc, err := peer.wait()
	if err == nil && wc.Imm != imm {
		err = fmt.Errorf("immediate %d came instead of %d", wc.Imm, imm)
	}
	return err
}

func (e *end) wait() (verbs.WC, error) {
	var wcs [1]verbs.WC
	for start := time.Now(); time.Since(start) < lost; {
		n, err := e.cq.Poll(wcs[:])
		if err != nil {
			return wcs[0], err
		}
		if n == 1 && wcs[0].Status != verbs.WCSuccess {
			return wcs[0], fmt.Errorf("completion on %v: %v", e.qp, wcs[0].Status)
		}
		if n == 1 {
			return wcs[0], nil
		}
	}
	return wcs[0], fmt.Errorf("no completion on %v within %v: is %s connected to the other device?", e.qp, lost, e.ctx.Info().Name)
}
