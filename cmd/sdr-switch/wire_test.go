// SPDX-License-Identifier: Apache-2.0

//go:build wire

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/units"
)

// dissect has tshark say of each RoCEv2 packet of a capture what fields it has, and checks what all must have in common.
func dissect(t *testing.T, path string) (all []map[string]string) {
	t.Helper()
	fields := []string{
		"frame.len", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.reth.dmalen", "ip.src", "ip.dsfield", "udp.length",
		"ip.checksum.status", "_ws.malformed", "_ws.expert.message",
	}
	args := []string{"-n", "-r", path, "-Y", "udp.port == 4791", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command("tshark", args...).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		d := map[string]string{}
		v := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		require.Len(t, v, len(fields), line)
		for i, f := range fields {
			d[f] = v[i]
		}
		require.Equal(t, "1", d["ip.checksum.status"], "IP checksum: %v", d)
		require.Empty(t, d["_ws.malformed"], "%v", d)
		require.Empty(t, d["_ws.expert.message"], "%v", d)
		all = append(all, d)
	}
	return all
}

// TestTsharkTrimmed: tshark at the receiver of a transfer through a switch that cuts each tenth packet sees frames of 74 bytes with
// the tag 11, a RETH that tells of what was cut off, and right lengths and checksums; and as many of 78 bytes that go back.
func TestTsharkTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capture.pcap")
	perf := perfProgram(t)
	l, err := newLab(1500)
	require.NoError(t, err)
	defer l.close()
	e := &experiment{every: 10, queue: 64 * units.KiB, mtu: 1024, size: 100 * units.KiB, iters: 1, scheme: "sr-nack", perf: perf}
	sw, err := e.open(l, soft)
	require.NoError(t, err)
	stop := record(t, l.hosts[1], l.hosts[0], path)
	r, err := e.perfThrough(context.Background(), l, soft, "fixed", io.Discard)
	stop()
	counters, _, stopped := sw.stop()
	require.NoError(t, err)
	require.NoError(t, stopped)
	require.True(t, *r.Verified)
	cut, back := 0, 0
	for _, d := range dissect(t, path) {
		if d["ip.dsfield"] != "0x0c" || d["infiniband.reth.dmalen"] == "0" {
			continue // data, control, or a probe
		}
		require.Equal(t, "43", d["infiniband.bth.opcode"], "UC RDMA WRITE Only with Immediate: %v", d)
		require.Equal(t, "1024", d["infiniband.reth.dmalen"], "%v", d)
		switch d["ip.src"] {
		case l.hosts[0].addr.String():
			require.Equal(t, "74", d["frame.len"], "%v", d)
			require.Equal(t, "40", d["udp.length"], "%v", d)
			cut++
		default:
			require.Equal(t, "78", d["frame.len"], "%v", d)
			back++
		}
	}
	require.NotZero(t, cut)
	require.EqualValues(t, counters.Trimmed, cut)
	require.Equal(t, cut, back)
	t.Logf("%d frames of 74 bytes with the tag 11, of %d cut; %d of 78 bytes went back", cut, counters.Trimmed, back)
}

// record captures what h receives and sends, until the function that it returns is called, which sends to once more.
func record(t *testing.T, h, to *host, path string) (stop func()) {
	t.Helper()
	c := h.command(context.Background(), "dumpcap", "-q", "-i", h.link, "-w", path)
	errs, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, h.start(c))
	begun := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "File:") {
				begun <- true
			}
		}
		close(begun)
	}()
	select {
	case ok := <-begun:
		require.True(t, ok, "dumpcap has ended")
	case <-time.After(30 * time.Second):
		require.Fail(t, "dumpcap does not begin")
	}
	return func() {
		// What dumpcap has not read from the kernel when it is told to end is lost, and it reads a quarter of a second late: wait for
		// a last packet to be in the file.
		last := []byte("the last packet of the capture")
		require.NoError(t, h.ns.do(func() error {
			c, err := net.Dial("udp", net.JoinHostPort(to.addr.String(), "9"))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(last)
			return err
		}))
		require.Eventually(t, func() bool {
			f, err := os.ReadFile(path)
			return err == nil && bytes.Contains(f, last)
		}, 30*time.Second, 20*time.Millisecond, "dumpcap does not write what it captures")
		require.NoError(t, c.Process.Signal(syscall.SIGINT))
		require.NoError(t, c.Wait())
	}
}

// TestTsharkDCP: a packet of the wire "dcp" that was cut is a frame of 60 bytes, the least that Ethernet has, with the tag 11 and
// right lengths and checksums.
func TestTsharkDCP(t *testing.T) {
	const payload = 1024
	b := make([]byte, 14+roce.IPv4HeaderSize+roce.UDPHeaderSize+dcp.HeaderSize+roce.RETHSize+payload+roce.ICRCSize)
	copy(b, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, trim.Data.TOS(2)})
	b[22], b[23] = 64, 17
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	copy(b[26:], []byte{192, 0, 2, 1, 192, 0, 2, 2})
	binary.BigEndian.PutUint16(b[34:], 0xc000)
	binary.BigEndian.PutUint16(b[36:], roce.UDPPort)
	binary.BigEndian.PutUint16(b[38:], uint16(len(b)-34))
	h := dcp.Header{MSN: 3, PSN: 77, Round: 1, Opcode: trim.OpWrite, DestQP: 5}
	h.Put(b[42:], roce.DefaultPKey)
	cut, v := trim.Frame(b, 0, 1, 1)
	require.Equal(t, switchfn.Trim, v)
	var read dcp.Header
	require.NoError(t, read.Parse(cut[42:]))
	require.Equal(t, h, read)

	path := filepath.Join(t.TempDir(), "dcp.pcap")
	le := binary.LittleEndian
	const ethernet = 1
	f := le.AppendUint32(nil, 0xa1b2c3d4)
	f = le.AppendUint16(le.AppendUint16(f, 2), 4)
	f = le.AppendUint32(le.AppendUint32(le.AppendUint64(f, 0), 65535), ethernet)
	f = le.AppendUint32(le.AppendUint64(f, 0), uint32(len(cut)))
	f = append(le.AppendUint32(f, uint32(len(cut))), cut...)
	require.NoError(t, os.WriteFile(path, f, 0o644))
	all := dissect(t, path)
	require.Len(t, all, 1)
	require.Equal(t, "60", all[0]["frame.len"])
	require.Equal(t, "26", all[0]["udp.length"])
	require.Equal(t, "0x0e", all[0]["ip.dsfield"])
	require.Equal(t, "192", all[0]["infiniband.bth.opcode"])
	require.Equal(t, "0x000005", all[0]["infiniband.bth.destqp"])
	t.Logf("a packet of %d bytes becomes a frame of %s, IP checksum and lengths right", len(b), all[0]["frame.len"])
}
