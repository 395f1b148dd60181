// SPDX-License-Identifier: Apache-2.0

package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
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

// equal runs an object's program and Meter.Frame on n packets, and says at which they differ first; −1: none.
func equal(t testing.TB, spec *ebpf.CollectionSpec, seed uint64, n int, keep uint32, start trim.Meter, change func(m *trim.Meter)) int {
	x := loadForTest(t, spec, &start, keep)
	want := start
	rnd, src := rand.New(rand.NewPCG(seed, uint64(keep))), rand.NewChaCha8([32]byte{byte(seed)})
	now := uint64(1000)
	out := make([]byte, 2048)
	seen := map[switchfn.Verdict]int{}
	for i := range n {
		now += uint64(rnd.IntN(20_000))
		b := random(rnd, src)
		if err := x.objects.ClockNs.Set(now); err != nil {
			t.Fatal(err)
		}
		o := ebpf.RunOptions{Data: b, DataOut: out[:cap(out)], Repeat: 1}
		ret, err := x.objects.Trim.Run(&o)
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		if change != nil {
			change(&want)
		}
		kept, v := want.Frame(now, b, int(keep))
		want.Overhead, want.Limit = start.Overhead, start.Limit // a change shows in what it does
		seen[v]++
		const xdpDrop, xdpPass = 1, 2
		if v == switchfn.Drop && ret != xdpDrop || v != switchfn.Drop && (ret != xdpPass || !bytes.Equal(kept, o.DataOut)) {
			return i
		}
		if i%64 == 0 || i == n-1 {
			if got, err := x.Meter(); err != nil || got != want {
				return i
			}
		}
	}
	for _, v := range []switchfn.Verdict{switchfn.Pass, switchfn.Drop, switchfn.Trim, switchfn.Control} {
		require.Greater(t, seen[v], n/50, "verdict %d", v)
	}
	return -1
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
	}
}

// withCapabilities calls f on a thread that has no others and ends with it.
func withCapabilities(caps uint64, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		half := func(v uint64) unix.CapUserData { return unix.CapUserData{Effective: uint32(v), Permitted: uint32(v)} }
		data := [2]unix.CapUserData{half(caps), half(caps >> 32)}
		if err := unix.Capset(&h, &data[0]); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// What drivers answer to a frame that is longer than a page is said in words.
func TestAttachError(t *testing.T) {
	const none = 1 << 30
	require.ErrorContains(t, attachError(none, unix.ERANGE), "is too large for an XDP program")
	require.NotContains(t, attachError(none, unix.EINVAL).Error(), "too large")
	require.ErrorContains(t, attachError(1, unix.EINVAL), "lo: its MTU of 65536")
	require.ErrorContains(t, attachError(none, unix.EEXIST), "another XDP program")
	require.ErrorContains(t, attachError(none, unix.EPERM), "CAP_PERFMON")
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
