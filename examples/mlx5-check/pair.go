// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// The messages that the receiving end exposes.
const (
	slots       = 64
	generations = 4
	messageSize = 256 * units.KiB
	memorySize  = slots * messageSize
	depth       = 512
	// unheard is how long a packet may take before it counts as lost: it goes through one adapter.
	unheard = time.Second
	// late is how long a packet that mostly leads to no completion may take to one. What took longer would be taken for the completion of
	// the next packet, and this program may have to wait for a processor.
	late = 200 * time.Millisecond
)

// end is a device with a UC queue pair and memory.
type end struct {
	dev    *uc.Device
	table  backend.Table
	cq     backend.CQ
	qp     backend.QP
	mem    []byte
	region backend.Region
}

// pair is an end that writes and one that is written to.
type pair struct {
	from, to *end
	mtu      units.Bytes
	buf      [64]backend.Completion
}

func newPair(c config, keyPerMessage bool) (*pair, error) {
	p := &pair{}
	var err error
	if p.from, err = newEnd(c.from, c, keyPerMessage); err != nil {
		return nil, err
	}
	if p.to, err = newEnd(c.to, c, keyPerMessage); err != nil {
		p.close()
		return nil, err
	}
	p.mtu = min(p.from.dev.Caps().PathMTU, p.to.dev.Caps().PathMTU)
	if err := p.connect(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func newEnd(name string, c config, keyPerMessage bool) (*end, error) {
	cfg := uc.Config{Device: name, KeyPerMessage: keyPerMessage, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if c.gid >= 0 {
		cfg.GIDIndex = &c.gid
	}
	d, err := uc.Open(cfg)
	if err != nil {
		return nil, err
	}
	e := &end{dev: d}
	if e.mem, err = verbs.AllocBuffer(int(memorySize)); err == nil {
		e.region, err = d.Register(e.mem, backend.AccessRemoteWrite)
	}
	if err == nil {
		e.table, err = d.NewTable(tableConfig)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return e, nil
}

var tableConfig = backend.TableConfig{Slots: slots, Generations: generations, MaxMessage: messageSize}

// connect makes new queue pairs on both ends and connects them.
func (p *pair) connect() error {
	for _, e := range []*end{p.from, p.to} {
		if e.qp != nil {
			if err := errors.Join(e.qp.Close(), e.cq.Close()); err != nil {
				return err
			}
		}
		var err error
		if e.cq, err = e.dev.NewCQ(backend.CQConfig{Entries: 4 * depth, Workers: 1}); err != nil {
			return err
		}
		e.qp, err = e.dev.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, MTU: p.mtu, SendDepth: depth, RecvDepth: 2 * depth})
		if err != nil {
			return err
		}
	}
	return errors.Join(p.from.qp.Connect(p.to.qp.Info()), p.to.qp.Connect(p.from.qp.Info()))
}

func (p *pair) close() {
	for _, e := range []*end{p.from, p.to} {
		if e != nil {
			_ = e.dev.Close()
			_ = verbs.FreeBuffer(e.mem)
		}
	}
}

// capabilities prints what the backend makes of the devices.
func capabilities(w io.Writer, p *pair) {
	fmt.Fprintln(w, "\nbackend")
	c := p.to.dev.Caps()
	line(w, "one key for all messages", "%v", c.RootKey)
	line(w, "path MTU", "%d", int64(p.mtu))
	line(w, "GID index", "%d and %d, IPv6 %v", p.from.dev.GIDIndex(), p.to.dev.GIDIndex(), p.from.dev.Addr().Is6())
}

// write is one write of n bytes at an offset of a message.
func (p *pair) write(rkey uint32, va uint64, off units.Bytes, n int, imm uint32) backend.Write {
	return backend.Write{VA: va + uint64(off), RKey: rkey, LKey: p.from.region.LKey(), Offset: off, Length: uint32(n), Imm: imm, WRID: uint64(imm), Signaled: imm%16 == 15}
}

// post posts writes, and polls the sender for room.
func (p *pair) post(ws []backend.Write) error {
	for last := time.Now(); len(ws) > 0; {
		n, err := p.from.qp.PostWrites(p.from.dev.Now(), ws)
		if err != nil {
			return err
		}
		if ws = ws[n:]; n > 0 {
			last = time.Now()
		} else if time.Since(last) > unheard {
			return errors.New("the send queue stays full: its requests don't complete")
		}
		if _, err := p.from.cq.Poll(p.from.dev.Now(), p.buf[:]); err != nil {
			return err
		}
	}
	return nil
}

// arrive polls the receiver until n writes have completed or nothing comes any more, and returns how many did. Each is shown to take.
func (p *pair) arrive(n int, quiet time.Duration, take func(*backend.Completion) error) (got int, err error) {
	for last := time.Now(); got < n && time.Since(last) < quiet; {
		if _, err := p.from.cq.Poll(p.from.dev.Now(), p.buf[:]); err != nil {
			return got, err
		}
		k, err := p.to.cq.Poll(p.to.dev.Now(), p.buf[:])
		if err != nil {
			return got, err
		}
		for i := range p.buf[:k] {
			if p.buf[i].Kind != backend.KindWrite {
				continue
			}
			got++
			if take == nil {
				continue
			}
			if err := take(&p.buf[i]); err != nil {
				return got, err
			}
		}
		if k > 0 {
			last = time.Now()
		}
	}
	return got, nil
}

// expose exposes message n whole.
func (p *pair) expose(n uint64) (rkey uint32, va uint64, mem []byte, err error) {
	off := units.Bytes(n%slots) * messageSize
	rkey, va, err = p.to.table.Expose(n, p.to.region, backend.Range{Offset: off, Length: messageSize})
	return rkey, va, p.to.mem[off:][:messageSize], err
}

// message exposes the next message while f runs.
func (p *pair) message(f func(rkey uint32, va uint64, mem []byte) error) error {
	n := next()
	rkey, va, mem, err := p.expose(n)
	if err != nil {
		return err
	}
	err = f(rkey, va, mem)
	p.to.table.StartRevoke(n)
	return errors.Join(err, p.revoked(n))
}

// revoked waits until message n can't be written any more.
func (p *pair) revoked(n uint64) error {
	for start := time.Now(); !p.to.table.Revoked(n); {
		if time.Since(start) > unheard {
			return fmt.Errorf("message %d isn't taken back", n)
		}
	}
	return nil
}
