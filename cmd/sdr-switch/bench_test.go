// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/dataplane/softswitch"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
)

// BenchmarkSoftSwitch is what the switch in software carries: packets of 1 KiB from one namespace to another, sent as fast as
// a packet socket takes them, to nobody there, so that the ends cost little. It takes two processors that have nothing else to
// do, and the right to make namespaces. The bound is 200 000 packets/s.
func BenchmarkSoftSwitch(b *testing.B) {
	l, err := newLab(1500)
	require.NoError(b, err)
	defer l.close()
	var sw *softswitch.Switch
	require.NoError(b, l.sw.do(func() (err error) {
		c := softswitch.Config{Trim: &fabric.Trim{Weight: 1}}
		sw, err = softswitch.Open(l.ports, [2]softswitch.Config{c, c})
		return err
	}))
	type end struct {
		err error
		cpu time.Duration
	}
	ran := make(chan end, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := threadTime()
		err := sw.Run()
		ran <- end{err, threadTime() - before}
	}()
	var stop atomic.Bool
	sent := make(chan error, 1)
	go func() { sent <- l.hosts[0].flood(&stop) }()
	received := func() (n uint64) {
		require.NoError(b, l.hosts[1].ns.do(func() error {
			link, err := netlink.LinkByName(l.hosts[1].link)
			if err == nil {
				n = link.Attrs().Statistics.RxPackets
			}
			return err
		}))
		return n
	}
	for received() < 1000 {
		time.Sleep(time.Millisecond)
	}
	b.ResetTimer()
	first := received()
	for received()-first < uint64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	carried := received() - first
	stop.Store(true)
	require.NoError(b, <-sent)
	sw.Stop()
	e := <-ran
	require.NoError(b, e.err)
	b.ReportMetric(float64(carried)/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(200_000, "bound-packets/s")
	b.ReportMetric(float64(e.cpu.Nanoseconds())/float64(sw.Counters(1).Sent), "switch-cpu-ns/packet")
	require.NoError(b, sw.Close())
}

// threadTime is what this thread has used of a processor.
func threadTime() time.Duration {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// flood sends UC writes of 1 KiB to a station that isn't there until stop.
func (h *host) flood(stop *atomic.Bool) error {
	return h.ns.do(func() error {
		link, err := netlink.LinkByName(h.link)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd) //nolint:errcheck // nothing is lost
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}); err != nil {
			return err
		}
		f := writeFrame(1024)
		for !stop.Load() {
			if _, err := unix.Write(fd, f); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
				return err
			}
		}
		return nil
	})
}

// writeFrame is an Ethernet frame with a UC write of so many bytes that may be cut.
func writeFrame(payload int) []byte {
	const ip, udp, transport = 14, 34, 42
	b := make([]byte, transport+roce.PacketSize(roce.UCWriteImmHeaders, payload))
	copy(b, []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, trim.Data.TOS(2)})
	b[ip+2], b[ip+3], b[ip+8], b[ip+9] = byte((len(b)-ip)>>8), byte(len(b)-ip), 64, unix.IPPROTO_UDP
	copy(b[ip+12:], []byte{192, 0, 2, 1, 192, 0, 2, 2})
	b[udp], b[udp+2], b[udp+3] = 0xc0, roce.UDPPort>>8, roce.UDPPort&0xff
	b[udp+4], b[udp+5] = byte((len(b)-udp)>>8), byte(len(b)-udp)
	w := roce.UCWriteImm{Length: uint32(payload), DestQP: 5, PKey: roce.DefaultPKey}
	w.Encode(b[transport:])
	return b
}
