// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrongHandlerIsCaught compiles handlers that are wrong in one place. The comparison with package dpa
// finds each.
func TestWrongHandlerIsCaught(t *testing.T) {
	for _, m := range []struct{ name, old, changed string }{
		{"owner bit", "(own & 1) != (ci >> w->log_size & 1)", "0"},
		{"owner bit within a run", "& 0xf1) != own", "& 0xf0) != (own & 0xf0)"},
		{"opcode", "e->op_own >> 4 != SDR_CQE_WRITE_IMM", "0"},
		{"queue pair that doesn't exist", "user >= w->channels || w->channel[user] == NULL", "user > w->channels - 1 + 1000000"},
		{"bits above the user index", "be32(e->user) & 0xffffff", "be32(e->user)"},
		{"generation", "m->gen != ch->gen || ", ""},
		{"channel within a run", "e->user != user || ", ""},
		{"closed message", " || __atomic_load_n(&m->closed, __ATOMIC_RELAXED)", ""},
		{"length within a run", " || e->byte_cnt != byte_cnt", ""},
		{"message and word within a run", " || (e->imm & mask) != key", ""},
		{"length", "if (length == (offset < end ? m->mtu : (uint32_t)m->last))", "if (length > 0)"},
		{"packet beyond the end", "m->last != SDR_NO_PACKET && offset <= end", "m->last != SDR_NO_PACKET"},
		{"short last packet", "r->plain = below((int64_t)(m->last >> 32)", "r->plain = below((int64_t)(m->last >> 32) + 1"},
		{"fragments within a run", "r->plain &= ~below(s->fragments)", "r->plain &= ~0ull"},
		{"short packet before the length", "length < m->mtu && !m->known", "0"},
		{"home word", "% r->ch->slots->channels == r->ch->index", "% r->ch->slots->channels != r->ch->index"},
		{"duplicates", "count(r->bits & ~dup)", "count(r->bits)"},
		{"short last chunk", "seen | ~live", "seen"},
		{"chunk of several words", "if (++w == end)\n\t\t\tw = begin;", "if (++w == end)\n\t\t\tbreak;"},
		{"chunks counted once", "count(turned)", "count(done)"},
		{"host told", "sdr_abi_host_store(&m->host[c], 1)", "(void)c"},
		{"host flushed", "\t\tw->pushed = 0;\n\t\tsdr_abi_host_flush();", "\t\tw->pushed = 0;"},
		{"mark after its packets", "\t\t\tpublish(w);\n\t\t\tset_mark", "\t\t\tset_mark"},
		{"end of the ring", "budget < left ? budget : left", "budget"},
		{"consumer record", "be32(w->ci & 0xffffff)", "be32(w->ci)"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			program := link(t, compileHandler(t, m.old, m.changed))
			var err error
			for seed := uint64(1); err == nil && seed <= 20; seed++ {
				_, _, err = compare(t, program, seed, 5_000)
			}
			require.Error(t, err, "the handler is wrong, and nothing has noticed")
			t.Log(err)
		})
	}
}

// TestRacyHandlerIsCaught does the same with atomics that aren't, and with threads. A fence that is missing
// doesn't show on this emulator (docs/dpa.md).
func TestRacyHandlerIsCaught(t *testing.T) {
	for _, m := range []struct{ name, old, changed string }{
		{
			"repair word", "__atomic_fetch_or(&m->repair[w], bits, __ATOMIC_RELAXED)",
			"load(&m->repair[w]); __atomic_store_n(&m->repair[w], old | bits, __ATOMIC_RELAXED)",
		},
		{"one writer of a first word", "% r->ch->slots->channels == r->ch->index", "% 1 == 0"},
		{"look at both maps", "old |= load(&m->repair[w]);", ""},
		{"count of chunks", "__atomic_fetch_add(&m->done, count(turned), __ATOMIC_RELEASE)", "m->done += count(done)"},
	} {
		t.Run(m.name, func(t *testing.T) {
			program := link(t, compileHandler(t, m.old, m.changed))
			var err error
			for i := 0; err == nil && i < 10*len(shapes); i++ {
				s := shapes[i%len(shapes)]
				err = race(t, program, s.threads, 300, s.packets, s.perChunk)
			}
			require.Error(t, err, "the handler is wrong, and nothing has noticed")
			t.Log(err)
		})
	}
}
