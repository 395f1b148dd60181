// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxDatagram is the longest datagram of both devices.
func (w *world) maxDatagram() units.Bytes {
	return min(w.mtu, w.caps.MaxDatagram, w.b.dev.Caps().MaxDatagram)
}

// post sends one datagram, waiting for room.
func (e *side) datagram(data []byte) {
	e.w.Helper()
	d := []backend.Datagram{{To: e.to, Data: data}}
	e.w.until("room for a datagram", func() bool {
		n, err := e.ud.PostDatagrams(e.dev.Now(), d)
		require.NoError(e.w, err)
		return n == 1
	})
}

// numbered is a datagram whose first bytes, as many as there are, hold its number.
func numbered(i, size int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(i>>(8*(k%3))) ^ byte(k*31)
	}
	return b
}

// testDatagrams: datagrams of all sizes arrive whole, in both directions; posting copies them; all datagrams of one
// Poll are valid until the next.
func testDatagrams(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	most := int(w.maxDatagram())
	sizes := []int{0, 1, 2, 3, 4, 5, 64, 255, 256, 257, most - 1, most}
	for _, from := range []*side{w.a, w.b} {
		to := w.peer(from)
		for i, size := range sizes {
			want := numbered(i, size)
			has := func() bool {
				for _, f := range to.frames {
					if f.cookie == cookieUD && bytes.Equal(f.data, want) {
						return true
					}
				}
				return false
			}
			for tries := 0; !has(); tries++ {
				if tries > 0 && !w.pair.Faults.Lose() || tries > 1000 {
					t.Fatalf("a datagram of %d bytes did not arrive", size)
				}
				b := bytes.Clone(want)
				from.datagram(b)
				for k := range b {
					b[k] = 0xee // the device has copied it
				}
				w.arrives(has)
			}
		}
		for _, f := range to.frames {
			require.Contains(t, sizes, len(f.data), "length of a datagram")
			require.EqualValues(t, cookieUD, f.cookie, "cookie of a datagram")
		}
	}
	w.a.check("memory after datagrams")
	w.b.check("memory after datagrams")
	require.Empty(t, append(w.a.sent, w.b.sent...), "datagrams are never signalled")
	w.validUntilPoll()
}

// validUntilPoll looks at the datagrams of each Poll together, in the opposite order.
func (w *world) validUntilPoll() {
	const n = 40
	w.b.poll()
	w.hold()
	for i := range n {
		w.a.datagram(numbered(i, 40+i))
	}
	seen := map[int]bool{}
	var dst [n]backend.Completion
	w.settle()
	w.listen(func() int {
		k, err := w.b.cqs[0].Poll(w.b.dev.Now(), dst[:])
		require.NoError(w, err)
		for j := range k {
			c := &dst[k-1-j]
			require.Equal(w, backend.KindDatagram, c.Kind)
			d := w.b.cqs[0].Datagram(c)
			i := len(d) - 40
			if i < 0 || i >= n || !bytes.Equal(d, numbered(i, len(d))) {
				w.Fatalf("datagram %d of the %d that a Poll returned is not one that was sent (%d bytes)", k-1-j, k, len(d))
			}
			require.EqualValues(w, len(d), c.Len, "Completion.Len of a datagram")
			seen[i] = true
		}
		return k
	})
	w.arrives(func() bool { return len(seen) == n })
	if !w.pair.Faults.Lose() {
		require.Len(w, seen, n, "datagrams received")
	}
}

// testDatagramsRefused: what can't be sent is refused, and what stands before it in the call goes out.
func testDatagramsRefused(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	big := make([]byte, min(w.mtu, w.caps.MaxDatagram)+1)
	n, err := w.a.ud.PostDatagrams(w.now(), []backend.Datagram{{To: w.a.to, Data: []byte("first")}, {To: w.a.to, Data: big}})
	require.Error(t, err, "a datagram that is too large")
	require.Equal(t, 1, n, "datagrams taken before the one that is too large")
	w.arrives(func() bool { return len(w.b.frames) > 0 })
	w.settle()
	for _, f := range w.b.frames {
		require.Equal(t, "first", string(f.data))
	}
	if !w.pair.Faults.repeats() {
		require.Len(t, w.b.frames, 1)
	}
	other, err := w.a.dev.OpenAddress(w.b.ud.Info())
	require.NoError(t, err, "a second handle for an address")
	require.NoError(t, w.a.dev.CloseAddress(other))
	w.b.frames = nil
	for tries := 0; len(w.b.frames) == 0 && tries < 1000; tries++ {
		w.a.datagram([]byte("second"))
		w.arrives(func() bool { return len(w.b.frames) > 0 })
	}
	require.NotEmpty(t, w.b.frames, "a datagram after another handle for the address was closed")
}
