// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// wireChannels and wireWrites are the traffic of a cell of the matrix: so many writes on each channel.
const (
	wireChannels = 3
	wireWrites   = 40
	wireTotal    = wireChannels * wireWrites
	wireRegion   = wireTotal * 4096
	wirePatience = 30 * time.Second
	// wireZero is a peer that sends UDP checksum 0.
	wireZero = "wire0"
)

// wireEnd is one end of a cell: a queue pair a channel on any device, and memory that the peer writes.
type wireEnd struct {
	d        backend.Device
	mtu      units.Bytes
	cq       backend.CQ
	qps      [wireChannels]backend.QP
	src, dst backend.Region
	rkey     uint32
	va       uint64
	peerKey  uint32
	peerVA   uint64
}

func newWireEnd(d backend.Device, mtu units.Bytes) (*wireEnd, error) {
	e := &wireEnd{d: d, mtu: mtu}
	table, err := d.NewTable(backend.TableConfig{Slots: 1, Generations: 1, MaxMessage: 512 * units.KiB})
	if err != nil {
		return nil, err
	}
	if e.dst, err = d.Register(make([]byte, wireRegion), backend.AccessRemoteWrite); err != nil {
		return nil, err
	}
	if e.src, err = d.Register(wireContent(), 0); err != nil {
		return nil, err
	}
	if e.rkey, e.va, err = table.Expose(0, e.dst, backend.Range{Length: wireRegion}); err != nil {
		return nil, err
	}
	if e.cq, err = d.NewCQ(backend.CQConfig{Entries: 4 * wireTotal, Workers: 1}); err != nil {
		return nil, err
	}
	for c := range e.qps {
		e.qps[c], err = d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: table, Cookie: uint32(c), MTU: mtu,
			Channel: c, SendDepth: 2 * wireWrites, RecvDepth: 2 * wireWrites})
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// wireContent is the same at both ends, and nowhere zero.
func wireContent() []byte {
	b := make([]byte, wireRegion)
	for i := range b {
		b[i] = byte(i*7+i>>12) | 1
	}
	return b
}

// wireLength is the length of write k: full packets, odd ones, and one without a byte.
func wireLength(k int, mtu units.Bytes) int {
	return [...]int{int(mtu), int(mtu) - 1, 13, 1, 0, int(mtu), 2, 256}[k%8]
}

// describe is a line with all that the peer needs.
func (e *wireEnd) describe() string {
	var b []byte
	for _, q := range e.qps {
		b = q.Info().Append(b)
	}
	return fmt.Sprintf("%d %d %s", e.rkey, e.va, hex.EncodeToString(b))
}

func (e *wireEnd) connect(line string) error {
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
		for end := time.Now().Add(wirePatience); errors.Is(err, unix.ETIMEDOUT) && time.Now().Before(end); {
			err = q.Connect(info)
		}
		if err != nil {
			return err
		}
		b = b[backend.QPInfoSize:]
	}
	return nil
}

// send writes everything and waits until it has left.
func (e *wireEnd) send() error {
	for c, q := range e.qps {
		w := make([]backend.Write, wireWrites)
		for i := range w {
			k := c*wireWrites + i
			w[i] = backend.Write{VA: e.peerVA + uint64(k)*uint64(e.mtu), RKey: e.peerKey, LKey: e.src.LKey(),
				Offset: units.Bytes(k) * e.mtu, Length: uint32(wireLength(k, e.mtu)), Imm: uint32(k), WRID: uint64(k), Signaled: i == len(w)-1}
		}
		for end := time.Now().Add(wirePatience); len(w) > 0; {
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

// receive takes what send sends, each write once, and compares the memory.
func (e *wireEnd) receive() error {
	var seen [wireTotal]bool
	err := e.await(wireTotal, func(x *backend.Completion) error {
		k := int(x.Imm)
		if x.Kind != backend.KindWrite || x.Status != backend.StatusOK || k >= wireTotal || seen[k] || int(x.Cookie) != k/wireWrites ||
			int(x.Len) != wireLength(k, e.mtu) {
			return fmt.Errorf("receive: unexpected completion %+v", *x)
		}
		seen[k] = true
		return nil
	})
	if err != nil {
		return err
	}
	content, want := wireContent(), make([]byte, wireRegion)
	for k := range wireTotal {
		copy(want[k*int(e.mtu):], content[k*int(e.mtu):][:wireLength(k, e.mtu)])
	}
	if !bytes.Equal(want, e.dst.Bytes()) {
		return errors.New("the memory is not what the peer has written")
	}
	return nil
}

// await polls n completions.
func (e *wireEnd) await(n int, take func(*backend.Completion) error) error {
	var batch [64]backend.Completion
	for end := time.Now().Add(wirePatience); n > 0; {
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

// serveWire is the peer's side of a cell: it receives everything, and then sends everything.
func serveWire(d backend.Device, mtu units.Bytes, in *bufio.Reader, zero bool) error {
	e, err := newWireEnd(d, mtu)
	if err != nil {
		return err
	}
	fmt.Println(e.describe())
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if err := e.connect(strings.TrimSpace(line)); err != nil {
		return err
	}
	fmt.Println("ready")
	if err := e.receive(); err != nil {
		return err
	}
	fmt.Println("received")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if zero {
		if err := dropChecksums(); err != nil {
			return err
		}
	}
	return e.send()
}

// dropChecksums has all UDP sockets of this process send checksum 0.
func dropChecksums() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	changed := 0
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			return err
		}
		if proto, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || proto != unix.IPPROTO_UDP {
			continue // ENOTSOCK, or the descriptor of /proc/self/fd, which is closed
		}
		level, option := unix.SOL_SOCKET, unix.SO_NO_CHECK
		if domain, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); domain == unix.AF_INET6 {
			level, option = unix.SOL_UDP, unix.UDP_NO_CHECK6_TX
		}
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return err
		}
		changed++
	}
	if changed == 0 {
		return errors.New("this process has no UDP socket")
	}
	return nil
}
