// SPDX-License-Identifier: Apache-2.0

// Package wiretest is a cell of the wire matrix: two devices of any kinds write into each other's memory without the SDK, by UC
// writes with immediate of one packet each, and each checks every byte. The ends may be in different processes, which exchange two
// lines.
package wiretest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Channels and Writes are the traffic of a cell of the matrix: so many writes on each channel.
const (
	Channels   = 3
	Writes     = 40
	Total      = Channels * Writes
	regionSize = Total * 4096
	waitLimit  = 30 * time.Second
)

// End is one end of a cell: a queue pair a channel on any device, and memory that the peer writes.
type End struct {
	d        backend.Device
	mtu      units.Bytes
	cq       backend.CQ
	qps      [Channels]backend.QP
	src, dst backend.Region
	rkey     uint32
	va       uint64
	peerKey  uint32
	peerVA   uint64
}

// NewEnd makes an end on a device, with everything but the connection.
func NewEnd(d backend.Device, mtu units.Bytes) (*End, error) {
	e := &End{d: d, mtu: mtu}
	table, err := d.NewTable(backend.TableConfig{Slots: 1, Generations: 1, MaxMessage: 512 * units.KiB})
	if err != nil {
		return nil, err
	}
	if e.dst, err = d.Register(make([]byte, regionSize), backend.AccessRemoteWrite); err != nil {
		return nil, err
	}
	if e.src, err = d.Register(content(), 0); err != nil {
		return nil, err
	}
	if e.rkey, e.va, err = table.Expose(0, e.dst, backend.Range{Length: regionSize}); err != nil {
		return nil, err
	}
	if e.cq, err = d.NewCQ(backend.CQConfig{Entries: 4 * Total, Workers: 1}); err != nil {
		return nil, err
	}
	for c := range e.qps {
		e.qps[c], err = d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: table, Cookie: uint32(c), MTU: mtu,
			Channel: c, SendDepth: 2 * Writes, RecvDepth: 2 * Writes})
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// content is the same at both ends, and nowhere zero.
func content() []byte {
	b := make([]byte, regionSize)
	for i := range b {
		b[i] = byte(i*7+i>>12) | 1
	}
	return b
}

// length is the length of write k: full packets, odd ones, and one without a byte.
func length(k int, mtu units.Bytes) int {
	return [...]int{int(mtu), int(mtu) - 1, 13, 1, 0, int(mtu), 2, 256}[k%8]
}

// Describe is a line with all that the peer needs.
func (e *End) Describe() string {
	var b []byte
	for _, q := range e.qps {
		b = q.Info().Append(b)
	}
	return fmt.Sprintf("%d %d %s", e.rkey, e.va, hex.EncodeToString(b))
}

// Connect takes the other end's description.
func (e *End) Connect(line string) error {
	var text string
	if _, err := fmt.Sscan(line, &e.peerKey, &e.peerVA, &text); err != nil {
		return fmt.Errorf("the peer says %q: %w", line, err)
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	for _, q := range e.qps {
		info, err := backend.ParseQPInfo(b)
		if err != nil {
			return err
		}
		// The kernel gives the discovery of a neighbour one second, which is short on a link that has
		// just come up.
		err = q.Connect(info)
		for end := time.Now().Add(waitLimit); errors.Is(err, syscall.ETIMEDOUT) && time.Now().Before(end); {
			err = q.Connect(info)
		}
		if err != nil {
			return err
		}
		b = b[backend.QPInfoSize:]
	}
	return nil
}

// Send writes everything and waits until it has left.
func (e *End) Send() error {
	for c, q := range e.qps {
		w := make([]backend.Write, Writes)
		for i := range w {
			k := c*Writes + i
			w[i] = backend.Write{VA: e.peerVA + uint64(k)*uint64(e.mtu), RKey: e.peerKey, LKey: e.src.LKey(),
				Offset: units.Bytes(k) * e.mtu, Length: uint32(length(k, e.mtu)), Imm: uint32(k), WRID: uint64(k), Signaled: i == len(w)-1}
		}
		for end := time.Now().Add(waitLimit); len(w) > 0; {
			n, err := q.PostWrites(e.d.Now(), w)
			if err != nil {
				return err
			}
			if w = w[n:]; time.Now().After(end) {
				return errors.New("the send queue stays full")
			}
		}
		if err := e.await(1, func(x *backend.Completion) error {
			if x.Kind != backend.KindSent || x.Status != backend.StatusOK {
				return fmt.Errorf("send: %+v", *x)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Receive takes what Send sends, each write once, and compares the memory.
func (e *End) Receive() error {
	var seen [Total]bool
	err := e.await(Total, func(x *backend.Completion) error {
		k := int(x.Imm)
		if x.Kind != backend.KindWrite || x.Status != backend.StatusOK || k >= Total || seen[k] || int(x.Cookie) != k/Writes ||
			int(x.Len) != length(k, e.mtu) {
			return fmt.Errorf("receive: unexpected completion %+v", *x)
		}
		seen[k] = true
		return nil
	})
	if err != nil {
		return err
	}
	all, want := content(), make([]byte, regionSize)
	for k := range Total {
		copy(want[k*int(e.mtu):], all[k*int(e.mtu):][:length(k, e.mtu)])
	}
	if !bytes.Equal(want, e.dst.Bytes()) {
		return errors.New("the memory is not what the peer has written")
	}
	return nil
}

// await polls n completions.
func (e *End) await(n int, take func(*backend.Completion) error) error {
	var batch [64]backend.Completion
	for end := time.Now().Add(waitLimit); n > 0; {
		k, err := e.cq.Poll(e.d.Now(), batch[:])
		if err != nil {
			return err
		}
		for i := range batch[:k] {
			if err := take(&batch[i]); err != nil {
				return err
			}
		}
		if n -= k; n > 0 && k == 0 {
			if time.Now().After(end) {
				return fmt.Errorf("%d completions are missing", n)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	return nil
}

// Serve is the side of a cell that receives everything and then sends everything. The other end's lines come from in, this
// one's go to out: its description, "ready" and "received". The other end's are its description, and "go". before is called
// before the first packet is sent.
func Serve(d backend.Device, mtu units.Bytes, in *bufio.Reader, out io.Writer, before func() error) error {
	e, err := NewEnd(d, mtu)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, e.Describe())
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if err := e.Connect(strings.TrimSpace(line)); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	if err := e.Receive(); err != nil {
		return err
	}
	fmt.Fprintln(out, "received")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if err := before(); err != nil {
		return err
	}
	return e.Send()
}
