// SPDX-License-Identifier: Apache-2.0

package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestLayout: Go and the program have the same idea of a port's state.
func TestLayout(t *testing.T) {
	require.Equal(t, unsafe.Sizeof(trimMeter{}), unsafe.Sizeof(trim.Meter{}))
	require.Equal(t, unsafe.Offsetof(trimMeter{}.Idle), unsafe.Offsetof(trim.Meter{}.Idle))
	require.Equal(t, unsafe.Offsetof(trimMeter{}.MostBacklog), unsafe.Offsetof(trim.Meter{}.MostBacklog))
	require.Less(t, len(_TrimBytes), 400_000)
}

// loadForTest loads the program, or skips where the kernel lets nobody.
func loadForTest(t testing.TB, spec *ebpf.CollectionSpec, m *trim.Meter, keep uint32) *Trimmer {
	t.Helper()
	_ = rlimit.RemoveMemlock()
	x, err := load(spec, m, keep, true)
	if errors.Is(err, unix.EPERM) { // EACCES, os.ErrPermission as well, is the verifier's
		t.Skip("no right to load eBPF programs: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// random makes a frame: mostly RoCEv2 packets with a tag, of any length, some of them with a few bits wrong, or of
// anything.
func random(rnd *rand.Rand, src *rand.ChaCha8) []byte {
	v6 := rnd.IntN(3) == 0
	ip := 20
	if v6 {
		ip = 40
	}
	opcodes := []byte{0xc0, 0xc1, 0xc2, 0xc3, 0x2a, 0x2b, 0x2b, 0x11, 0x64}
	b := make([]byte, 14+ip+8+12+rnd.IntN(1100))
	_, _ = src.Read(b)
	rest := len(b) - rnd.IntN(2)*rnd.IntN(min(8, len(b)-14-ip-8)) // Ethernet may pad
	if v6 {
		binary.BigEndian.PutUint16(b[12:], 0x86dd)
		b[14] = 6<<4 | b[14]&15
		binary.BigEndian.PutUint16(b[18:], uint16(rest-14-ip))
		b[20] = 17
	} else {
		binary.BigEndian.PutUint16(b[12:], 0x0800)
		b[14], b[23] = 0x45, 17
		binary.BigEndian.PutUint16(b[16:], uint16(rest-14))
		binary.BigEndian.PutUint16(b[20:], 0x4000)
	}
	u := b[14+ip:]
	binary.BigEndian.PutUint16(u[2:], 4791)
	binary.BigEndian.PutUint16(u[4:], uint16(rest-14-ip))
	u[8] = opcodes[rnd.IntN(len(opcodes))]
	switch rnd.IntN(8) {
	case 0:
		b[rnd.IntN(min(len(b), 64))] ^= 1 << rnd.IntN(8)
	case 1:
		b = b[:max(14, rnd.IntN(len(b)))]
	}
	return b
}

// committed is the object that is linked.
func committed(t testing.TB) *ebpf.CollectionSpec {
	spec, err := loadTrim()
	require.NoError(t, err)
	return spec
}

// A pair is a program of an object and the Meter that it is a twin of.
type pair struct {
	x    *Trimmer
	want trim.Meter
	keep int
	out  [4096]byte
}

// decide has both decide about a frame, which the Meter may change, and reports whether their verdicts and bytes are equal.
func (p *pair) decide(t testing.TB, now uint64, b []byte) (v switchfn.Verdict, same bool) {
	if err := p.x.objects.ClockNs.Set(now); err != nil {
		t.Fatal(err)
	}
	o := ebpf.RunOptions{Data: b, DataOut: p.out[:], Repeat: 1}
	ret, err := p.x.objects.Trim.Run(&o)
	if err != nil {
		t.Fatalf("a frame of %d bytes: %v", len(b), err)
	}
	kept, v := p.want.Frame(now, b, p.keep)
	const xdpDrop, xdpPass = 1, 2
	if v == switchfn.Drop {
		return v, ret == xdpDrop
	}
	return v, ret == xdpPass && bytes.Equal(kept, o.DataOut)
}

// state reports whether their states are equal.
func (p *pair) state() bool {
	got, err := p.x.Meter()
	return err == nil && got == p.want
}

// equal runs an object's program and Meter.Frame on n packets, and says at which they differ first; −1: none.
func equal(t testing.TB, spec *ebpf.CollectionSpec, seed uint64, n int, keep uint32, start trim.Meter, change func(m *trim.Meter)) int {
	p := &pair{x: loadForTest(t, spec, &start, keep), want: start, keep: int(keep)}
	rnd, src := rand.New(rand.NewPCG(seed, uint64(keep))), rand.NewChaCha8([32]byte{byte(seed)})
	now := uint64(1000)
	seen := map[switchfn.Verdict]int{}
	for i := range n {
		now += uint64(rnd.IntN(20_000))
		b := random(rnd, src)
		if change != nil {
			change(&p.want)
		}
		v, same := p.decide(t, now, b)
		p.want.Overhead, p.want.Limit = start.Overhead, start.Limit // a change shows in what it does
		seen[v]++
		if !same || (i%64 == 0 || i == n-1) && !p.state() {
			return i
		}
	}
	for _, v := range []switchfn.Verdict{switchfn.Pass, switchfn.Drop, switchfn.Trim, switchfn.Control} {
		require.Greater(t, seen[v], n/50, "verdict %d", v)
	}
	return -1
}

// TestConformanceOfSettings: they are equal with every setting that Config has room for, at random: rates at which a byte takes a picosecond
// or most of a millisecond, with rests below a nanosecond, lengths that IPv6's headers don't fit in; on frames up to what a page of memory has,
// such whose checksum is 0, and with a clock that goes back a little, as when a packet waits for the lock of another processor.
func TestConformanceOfSettings(t *testing.T) {
	const least = uint32(trim.HeaderSize) + 1
	settings, n := uint64(60), 1000
	if race.Enabled {
		settings, n = 20, 200
	}
	seen := map[switchfn.Verdict]int{}
	for seed := range settings {
		rnd, src := rand.New(rand.NewPCG(seed, 5)), rand.NewChaCha8([32]byte{byte(seed), 5})
		start := trim.Meter{PSPerByte: 1 + rnd.Uint32N([]uint32{2, 1000, 100_000, 800_000_000}[rnd.IntN(4)])}
		start.Overhead = []uint32{0, 24, rnd.Uint32N(1<<16 + 1)}[rnd.IntN(3)]
		frame := (600 + uint64(start.Overhead)) * uint64(start.PSPerByte) / 1000 // ns, of one of middle length
		start.Limit = 1 + rnd.Uint64N(20*frame+2)
		start.Every = []uint64{0, 1 + rnd.Uint64N(20)}[rnd.IntN(2)]
		keep := []uint32{0, least + rnd.Uint32N(20), least + rnd.Uint32N(maxKeep+1-least)}[rnd.IntN(3)]
		p := &pair{x: loadForTest(t, committed(t), &start, keep), want: start, keep: int(keep)}
		now := uint64(1000)
		for i := range n {
			now += rnd.Uint64N(2*frame + 2)
			if rnd.IntN(10) == 0 {
				now -= min(now, rnd.Uint64N(frame+2))
			}
			b := random(rnd, src)
			switch rnd.IntN(8) {
			case 0:
				b = longer(b, rnd)
			case 1:
				sumsToZero(b, p.keep)
			}
			v, same := p.decide(t, now, b)
			seen[v]++
			require.True(t, same, "seed %d, packet %d, a meter %+v", seed, i, start)
			require.True(t, p.state(), "seed %d, packet %d, a meter %+v", seed, i, start)
		}
	}
	for _, v := range []switchfn.Verdict{switchfn.Pass, switchfn.Drop, switchfn.Trim, switchfn.Control} {
		require.Greater(t, seen[v], n, "verdict %d", v)
	}
}

// longer adds up to 2 kB to a frame, to the packet in it if it is one.
func longer(b []byte, rnd *rand.Rand) []byte {
	l, ok := trim.Parse(b)
	n := rnd.IntN(2000)
	b = append(b, make([]byte, n)...)
	if ok {
		binary.BigEndian.PutUint16(b[l.UDP+4:], uint16(l.End-l.UDP+n))
		at, length := 16, l.End-14
		if l.V6 {
			at, length = 18, l.End-l.UDP
		}
		binary.BigEndian.PutUint16(b[at:], uint16(length+n))
	}
	return b
}

// sumsToZero gives a packet over IPv6 the source port with which the checksum of what is left of it is 0, which has to be written as 0xffff.
func sumsToZero(b []byte, keep int) {
	l, ok := trim.Parse(b)
	if !ok || !l.V6 || l.Length(keep) == 0 {
		return
	}
	cut := l.Cut(bytes.Clone(b), l.Length(keep))
	sum := uint32(binary.BigEndian.Uint16(b[l.UDP:])) + uint32(binary.BigEndian.Uint16(cut[l.UDP+6:]))
	binary.BigEndian.PutUint16(b[l.UDP:], uint16(sum&0xffff+sum>>16))
}

// TestConformance: program and Go are equal in verdicts, bytes and state on 120 000 random packets; and the test would
// notice if they weren't.
func TestConformance(t *testing.T) {
	n := 30_000
	if race.Enabled {
		n = 3000
	}
	start := trim.Meter{PSPerByte: 24_000, Overhead: 24, Limit: 60_000}
	for seed, c := range []struct {
		keep  uint32
		every uint64
	}{{0, 0}, {0, 7}, {256, 0}, {301, 11}} {
		m := start
		m.Every = c.every
		require.Equal(t, -1, equal(t, committed(t), uint64(seed), n, c.keep, m, nil), "first packet that differs, seed %d, keep %d", seed, c.keep)
	}
	overhead := equal(t, committed(t), 9, 2000, 0, start, func(m *trim.Meter) { m.Overhead = 25 })
	require.NotEqual(t, -1, overhead, "a byte more of overhead goes unnoticed")
	limit := equal(t, committed(t), 9, 2000, 0, start, func(m *trim.Meter) { m.Limit = 61_000 })
	require.NotEqual(t, -1, limit, "a longer queue goes unnoticed")
	t.Logf("%d packets, four settings: verdicts, bytes and state equal; a byte more of overhead is noticed at packet %d, a longer queue at %d", 4*n, overhead, limit)
}

// TestRights: the capabilities that the package names are enough, and each that is missing is asked for.
func TestRights(t *testing.T) {
	m := trim.Meter{PSPerByte: 1, Limit: 1}
	loadForTest(t, committed(t), &m, 0)
	const needed = 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON | 1<<unix.CAP_NET_ADMIN
	for _, tc := range []struct {
		lacks int
		want  error
	}{{-1, nil}, {unix.CAP_BPF, unix.EPERM}, {unix.CAP_PERFMON, unix.EACCES}, {unix.CAP_NET_ADMIN, unix.EPERM}} {
		caps := uint64(needed)
		if tc.lacks >= 0 {
			caps &^= 1 << tc.lacks
		}
		spec := committed(t)
		err := withCapabilities(caps, func() error {
			x, err := load(spec, &m, 0, true)
			if err != nil {
				return err
			}
			return x.Close()
		})
		if tc.want == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, tc.want)
		require.ErrorContains(t, err, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")
		require.Equal(t, tc.want == unix.EPERM, strings.Contains(err.Error(), "ulimit -l"), "%v", err)
	}
}

// A program that somebody else has detached is off its interface, which is there as before: the error says both.
func TestDetached(t *testing.T) {
	m := trim.Meter{PSPerByte: 1, Limit: 1}
	loadForTest(t, committed(t), &m, 0)
	var after error
	require.NoError(t, inNamespace(func() error {
		const lo = 1
		x, err := Attach(lo, Config{Rate: units.Gbit, Queue: units.KiB})
		if err != nil {
			return err
		}
		if err := errors.Join(x.Attached(), x.link.Detach()); err != nil {
			return errors.Join(err, x.Close())
		}
		after = x.Attached()
		return x.Close()
	}))
	require.ErrorIs(t, after, ErrGone)
	require.ErrorContains(t, after, "or the program was detached")
}

// inNamespace calls f on a thread in a network namespace of its own, which ends with it.
func inNamespace(f func() error) error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// onThread calls f on a thread that ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// withCapabilities calls f on a thread that has no others and ends with it.
func withCapabilities(caps uint64, f func() error) error {
	return onThread(func() error {
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		half := func(v uint64) unix.CapUserData { return unix.CapUserData{Effective: uint32(v), Permitted: uint32(v)} }
		data := [2]unix.CapUserData{half(caps), half(caps >> 32)}
		if err := unix.Capset(&h, &data[0]); err != nil {
			return err
		}
		return f()
	})
}

// What drivers answer to a frame that is longer than a page is said in words, and so is what kernels answer that don't know links of XDP programs.
func TestAttachError(t *testing.T) {
	const (
		none     = 1 << 30
		now, old = "6.1.0-9-amd64", "5.8.0-63-generic"
	)
	require.ErrorContains(t, attachError(none, now, unix.ERANGE), "is too large for an XDP program")
	require.NotContains(t, attachError(none, now, unix.EINVAL).Error(), "too large")
	require.ErrorContains(t, attachError(none, now, unix.EINVAL), "its driver refuses XDP programs as it is set up (LRO")
	require.ErrorContains(t, attachError(none, now, unix.EOPNOTSUPP), "--generic")
	require.ErrorContains(t, attachError(1, now, unix.EINVAL), "lo: its MTU of 65536")
	require.ErrorContains(t, attachError(1, now, unix.EOPNOTSUPP), "as it is set up (an MTU of 65536, LRO")
	require.ErrorContains(t, attachError(none, now, unix.EEXIST), "another XDP program")
	require.ErrorContains(t, attachError(none, now, unix.EPERM), "CAP_PERFMON")
	require.ErrorContains(t, attachError(none, old, unix.EINVAL), "Linux 5.8.0-63-generic has no links of XDP programs: run Linux 5.9 or later")
	require.ErrorContains(t, attachError(none, "5.4.0-42-generic", fmt.Errorf("bpf_link %w (requires >= v5.7)", ebpf.ErrNotSupported)), "run Linux 5.9 or later")
	require.ErrorContains(t, attachError(none, old, unix.EBUSY), "another XDP program")
}

// An interface whose MTU is that which is advised for longer frames is advised a smaller one.
func TestAttachErrorOfTheAdvisedMTU(t *testing.T) {
	var err error
	failed := inNamespace(func() error {
		lo, failed := netlink.LinkByName("lo")
		if failed != nil {
			return failed
		}
		if failed := netlink.LinkSetMTU(lo, 3000); failed != nil {
			return failed
		}
		err = attachError(lo.Attrs().Index, "6.1", unix.EINVAL)
		return nil
	})
	if errors.Is(failed, unix.EPERM) {
		t.Skip("no right to make a network namespace: ", failed)
	}
	require.NoError(t, failed)
	require.ErrorContains(t, err, "its MTU of 3000")
	require.ErrorContains(t, err, "ip link set dev lo mtu 1500")
}

// Where the kernel is too old, or has no eBPF at all, it says so.
func TestLoadError(t *testing.T) {
	const now, old = "6.1.0-9-amd64", "4.19.0-21-amd64"
	loop := fmt.Errorf("load program: %w: back-edge from insn 170 to 160", unix.EINVAL)
	require.ErrorContains(t, loadError(old, loop), "Linux 4.19.0-21-amd64 refuses it: run Linux 5.9 or later (load program: ")
	require.EqualError(t, loadError(now, loop), "load the program: "+loop.Error())
	require.ErrorContains(t, loadError(now, unix.EACCES), rights)
	require.ErrorContains(t, loadError(old, unix.EPERM), "ulimit -l")
	require.ErrorContains(t, loadError(now, unix.ENOSYS), "CONFIG_BPF_SYSCALL")
	for r, is := range map[string]bool{"5.8.18": true, "4.18.0-553.el8_10.x86_64": true, "5.9.0": false, "5.10.0-28": false, "6.1-rc3": false, "10.0": false, "": false, "x": false} {
		require.Equal(t, is, isOld(r), r)
	}
	require.Regexp(t, `^\d+\.\d+`, release())
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{}, {Rate: units.Gbit}, {Rate: units.Gbit, Queue: 1, Keep: 600}, {Rate: units.Gbit, Queue: 1, Keep: 60}, {Rate: 1, Queue: 1}, {Rate: units.Gbit, Queue: 1, Overhead: -1},
	} {
		require.Error(t, c.Validate())
	}
	require.NoError(t, (&Config{Rate: units.Gbit, Queue: 1, Keep: 61}).Validate())
	m, err := (&Config{Rate: 8 * units.Gbit, Queue: 1000, Overhead: 24}).meter()
	require.NoError(t, err)
	require.Equal(t, trim.Meter{PSPerByte: 1000, Overhead: 24, Limit: 1000}, m)
}

// BenchmarkTrim is what a packet costs in the kernel. The bound is 150 ns.
func BenchmarkTrim(b *testing.B) {
	x := loadForTest(b, committed(b), &trim.Meter{PSPerByte: 1, Limit: 1 << 60}, 0)
	frame := random(rand.New(rand.NewPCG(3, 3)), rand.NewChaCha8([32]byte{3}))
	ret, took, err := x.objects.Trim.Benchmark(frame, b.N, b.ResetTimer)
	require.NoError(b, err)
	require.EqualValues(b, 2, ret)
	b.ReportMetric(float64(took.Nanoseconds()), "kernel-ns/op")
	b.ReportMetric(150, "bound-ns/op")
}
