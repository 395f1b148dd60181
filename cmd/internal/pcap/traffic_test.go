// SPDX-License-Identifier: Apache-2.0

//go:build wire

package pcap

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/units"
)

// capture writes what f sends to a file and returns its path.
func capture(t *testing.T, f func(w *Writer)) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	require.NoError(t, err)
	f(w)
	require.NoError(t, w.Flush())
	path := filepath.Join(t.TempDir(), "capture.pcap")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

const (
	memory = 64 * units.KiB
	mtu    = 4096
)

// an end is a device with one queue pair of each type.
type end struct {
	t      *testing.T
	dev    *userroce.Device
	cq     backend.CQ
	table  backend.Table
	mr     backend.Region
	uc, ud backend.QP
}

func newEnd(t *testing.T, c userroce.Config) *end {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	dev, err := userroce.Open(c)
	require.NoError(t, err, "the tests of this build tag need UDP port 4791 of the loopback interface")
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	e := &end{t: t, dev: dev}
	e.cq, err = dev.NewCQ(backend.CQConfig{Entries: 1024, Workers: 1})
	require.NoError(t, err)
	e.table, err = dev.NewTable(backend.TableConfig{Slots: 16, Generations: 4, MaxMessage: memory})
	require.NoError(t, err)
	mem := make([]byte, memory)
	for i := range mem {
		mem[i] = byte(i*7 + i>>8)
	}
	e.mr, err = dev.Register(mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	e.uc = e.newQP(backend.UC, e.table)
	e.ud = e.newQP(backend.UD, nil)
	return e
}

func (e *end) newQP(kind backend.QPType, table backend.Table) backend.QP {
	qp, err := e.dev.NewQP(backend.QPConfig{
		Type: kind, SendCQ: e.cq, RecvCQ: e.cq, Table: table, MTU: mtu, SendDepth: 256, RecvDepth: 256,
	})
	require.NoError(e.t, err)
	return qp
}

// poll takes n completions, so that what was sent has arrived.
func (e *end) poll(n int) {
	e.t.Helper()
	var batch [64]backend.Completion
	for idle := 0; n > 0; {
		k, err := e.cq.Poll(e.dev.Now(), batch[:])
		require.NoError(e.t, err)
		if n -= k; n > 0 && k == 0 {
			require.NoError(e.t, e.cq.Wait(10*units.Millisecond))
			idle++
			require.Less(e.t, idle, 500, "%d packets have not arrived", n)
		}
	}
}

// connected makes two ends; what a sends is captured.
func connected(t *testing.T, addr netip.Addr, w *Writer) (a, b *end) {
	t.Helper()
	b = newEnd(t, userroce.Config{Addr: addr})
	a = newEnd(t, userroce.Config{Addr: addr, Port: userroce.AnyPort, Wire: w})
	require.NoError(t, a.uc.Connect(b.uc.Info()))
	require.NoError(t, b.uc.Connect(a.uc.Info()))
	return a, b
}

// writes posts one write of each length and returns them as posted.
func (e *end) writes(to *end, lengths []uint32) []backend.Write {
	rkey, va, err := to.table.Expose(0, to.mr, backend.Range{Length: memory})
	require.NoError(e.t, err)
	var all []backend.Write
	for i, n := range lengths {
		all = append(all, backend.Write{
			VA: va + uint64(i*mtu), RKey: rkey, LKey: e.mr.LKey(), Offset: units.Bytes(i * 13), Length: n, Imm: 0xa0b0c000 + uint32(i),
		})
	}
	n, err := e.uc.PostWrites(e.dev.Now(), all)
	require.NoError(e.t, err)
	require.Equal(e.t, len(all), n)
	to.poll(len(all))
	return all
}

// datagrams posts one datagram of each length.
func (e *end) datagrams(to *end, lengths []uint32) {
	ah, err := e.dev.OpenAddress(to.ud.Info())
	require.NoError(e.t, err)
	for _, n := range lengths {
		sent, err := e.ud.PostDatagrams(e.dev.Now(), []backend.Datagram{{To: ah, Data: e.mr.Bytes()[:n]}})
		require.NoError(e.t, err)
		require.Equal(e.t, 1, sent)
	}
	to.poll(len(lengths))
}

// families runs f for IPv4 and IPv6.
func families(t *testing.T, f func(t *testing.T, addr netip.Addr)) {
	t.Run("IPv4", func(t *testing.T) { f(t, netip.MustParseAddr("127.47.91.1")) })
	t.Run("IPv6", func(t *testing.T) { f(t, netip.IPv6Loopback()) })
}
