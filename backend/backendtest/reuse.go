// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// many is how many messages testManyMessages sends: 4096 for each slot, so that every counter of 8 or 12
// bits that a device may keep wraps around.
const many = 65536

// testManyMessages: thousands of messages through few slots. Each finds its own bytes in its buffer.
func testManyMessages(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	const window = slots - 1 // one slot is that of chasers
	rng := newRand(9)
	total := uint64(Rounds(many))
	if w.pair.Settle > 0 {
		total /= 16 // each round trip takes its time
	}
	for n := uint64(0); n < total; {
		var tgs []target
		var ws []backend.Write
		for ; len(tgs) < window && n < total; n++ {
			if n%slots == chaseSeq {
				continue
			}
			tg := w.b.expose(n, units.Bytes(n%64), 1+units.Bytes(rng.IntN(512)))
			tgs = append(tgs, tg)
			ws = append(ws, tg.write(0, int(tg.length), uint32(n)))
		}
		w.deliver(w.a, 0, ws...)
		w.b.writes = w.b.writes[:0]
		for i, tg := range tgs {
			tg.lands(ws[i])
			at, end := tg.offset, tg.offset+tg.length
			if !bytes.Equal(w.b.want[at:end], w.b.mem[at:end]) {
				t.Fatalf("message %d of %d bytes: wrong content", tg.n, tg.length)
			}
			w.b.table.StartRevoke(tg.n)
		}
		w.until("Revoked", func() bool {
			for _, tg := range tgs {
				if !w.b.table.Revoked(tg.n) {
					return false
				}
			}
			return true
		})
	}
	w.flush(w.a, 0)
	w.b.check("memory after all messages")
	require.LessOrEqual(t, total, w.b.dev.Stats().PacketsReceived+total/slots+1, "Stats.PacketsReceived")
}
