// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// post posts all of ws on queue pair q of e, no faster than the peer can take them.
func (e *side) post(q int, ws ...backend.Write) {
	e.w.Helper()
	for tries := 0; len(ws) > 0; {
		n, err := e.qps[q].PostWrites(e.dev.Now(), ws[:e.w.burst(ws)])
		require.NoError(e.w, err, "post writes")
		ws = ws[n:]
		if n > 0 {
			tries = 0
		} else if tries++; tries > 1_000_000 || !e.w.step() && e.w.pair.Advance != nil {
			e.w.Fatal("the device takes no writes any more, although everything was polled")
		}
		if len(ws) > 0 {
			e.w.step()
		}
	}
}

// burst is how many of ws the peer can receive back to back: its buffers hold a packet with its headers
// and what the kernel adds.
func (w *world) burst(ws []backend.Write) int {
	n, bytes := 0, units.Bytes(0)
	for n < len(ws) && n < depth/4 {
		bytes += units.Bytes(ws[n].Length) + units.KiB
		if w.caps.RecvBurst > 0 && n > 0 && bytes > w.caps.RecvBurst/2 {
			break
		}
		n++
	}
	return n
}

// deliver posts writes, which have different immediates, on queue pair q of from, and returns when the
// peer has reported each; what a bad network has lost is posted again. Every completion must be that of a
// write. It returns the immediates in the order in which they came first.
func (w *world) deliver(from *side, q int, ws ...backend.Write) (order []uint32) {
	w.Helper()
	to := w.peer(from)
	byImm := map[uint32]backend.Write{}
	for _, x := range ws {
		byImm[x.Imm] = x
	}
	require.Len(w, byImm, len(ws), "the case needs different immediates")
	for imm := range byImm {
		if to.past[imm] && w.ofWrites().repeats() {
			w.settle() // what was sent before with one of these must not be mistaken for them
			break
		}
	}
	seen := map[uint32]bool{}
	at := len(to.writes)
	collect := func() bool {
		for ; at < len(to.writes); at++ {
			c := &to.writes[at]
			x, ok := byImm[c.Imm]
			if !ok && to.past[c.Imm] && w.ofWrites().repeats() {
				continue
			}
			if !ok {
				w.Fatalf("a completion that nobody asked for: %+v", *c)
			}
			require.Equal(w, backend.Completion{
				Kind: backend.KindWrite, Status: backend.StatusOK, Cookie: uint32(cookieUC + q), Imm: x.Imm, Len: x.Length, WRID: c.WRID,
			}, *c)
			if seen[c.Imm] && !w.ofWrites().repeats() {
				w.Fatalf("two completions for the write with immediate %#x", c.Imm)
			}
			if !seen[c.Imm] {
				order = append(order, c.Imm)
			}
			seen[c.Imm] = true
		}
		return len(seen) == len(ws)
	}
	for left, tries := ws, 0; ; tries++ {
		from.post(q, left...)
		if w.land(collect) {
			for imm := range byImm {
				to.past[imm] = true
			}
			return order
		}
		left = missing(ws, seen)
		if !w.ofWrites().Lose() || tries > 1000 {
			w.Fatalf("%d of %d writes did not complete at the receiver, the first with immediate %#x", len(left), len(ws), left[0].Imm)
		}
	}
}

// arrives steps until cond holds; on a network that loses packets it gives up early.
func (w *world) arrives(cond func() bool) bool {
	if !w.pair.Faults.Lose() {
		return w.comes(cond)
	}
	w.stuck, w.last = 0, w.now()
	for !cond() {
		if !w.step() {
			return cond()
		}
		w.restless()
	}
	return true
}

// land is arrives for writes, which reliable connections don't lose.
func (w *world) land(cond func() bool) bool {
	if w.caps.Reliable {
		return w.comes(cond)
	}
	return w.arrives(cond)
}

func missing(ws []backend.Write, seen map[uint32]bool) (left []backend.Write) {
	for _, x := range ws {
		if !seen[x.Imm] {
			left = append(left, x)
		}
	}
	return left
}

// flush returns when everything that from has posted on queue pair q has reached the peer or is lost: it
// sends a chaser after it.
func (w *world) flush(from *side, q int) {
	w.Helper()
	to := w.peer(from)
	for tries := 0; ; tries++ {
		w.chasers++
		imm := chaseImm | w.chasers&0xfff
		delete(to.chased, imm)
		x := to.chase.write(0, 1, imm)
		x.Offset = 0
		to.want[chaseOffset] = from.src[0]
		from.post(q, x)
		if w.land(func() bool { return to.chased[imm] }) {
			break
		}
		if !w.ofWrites().Lose() || tries > 1000 {
			w.Fatal("a write after the others did not arrive: the queue pair no longer works")
		}
	}
	if !w.ofWrites().inOrder() {
		w.settle()
	}
}
