// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// BenchmarkStream sends 4 KiB packets at 400 Gbit/s over 5 ms with loss and
// reordering, 31 000 of them in flight at a time: one packet is two events, its departure and its arrival. The goal
// is 2 million events a second.
func BenchmarkStream(b *testing.B) {
	for name, sizeOnly := range map[string]bool{"sizes": true, "content": false} {
		b.Run(name, func(b *testing.B) {
			before := cpuTime(b)
			stream(b, b.N, sizeOnly, 2500*units.Microsecond)
			b.ReportMetric(2*float64(b.N)/(cpuTime(b)-before).Seconds()/1e6, "Mevents/cpu-s")
		})
	}
}

func stream(b testing.TB, packets int, sizeOnly bool, delay units.Duration) {
	n, err := New(Config{
		Rate: 400 * units.Gbit,
		Link: Link{Delay: delay, Loss: Loss{Drop: 1e-3}, Reorder: 1e-2, ReorderDelay: delay / 8},
	})
	require.NoError(b, err)
	p := &pair{t: b, net: n, a: newSide(b, n.A(), 256, 0), b: newSide(b, n.B(), 256, 0)}
	connect(b, p.a, p.b)
	if sizeOnly {
		for _, e := range []*side{p.a, p.b} {
			e.mem, err = e.dev.RegisterSize(testMax, backend.AccessRemoteWrite)
			require.NoError(b, err)
		}
	}
	rkey, va := p.b.expose(b, 0)
	batch := make([]backend.Write, 64)
	for i := range batch {
		batch[i] = backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: testMTU, Signaled: i == len(batch)-1}
	}
	dst := make([]backend.Completion, 256)
	poll := func(e *side) {
		for {
			if k, err := e.cq.Poll(n.Now(), dst); err != nil || k < len(dst) {
				require.NoError(b, err)
				return
			}
		}
	}
	for posted := 0; posted < packets || n.Next() != units.Never; {
		if posted < packets {
			k, err := p.a.uc.PostWrites(n.Now(), batch[posted%64:])
			require.NoError(b, err)
			posted += k
		}
		// Wake every 2 µs, as a protocol that paces would.
		n.Advance(max(n.Next(), n.Now().Add(2000)))
		poll(p.a)
		poll(p.b)
	}
}

// cpuTime is what counts on a machine that others use too.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
