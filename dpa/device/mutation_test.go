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
		{"queue pair that doesn't exist", "user < w->channels ?", "user < w->channels + 1000000 ?"},
		{"bits above the user index", "be32(e->user) & 0xffffff", "be32(e->user)"},
		{"generation", "m->gen != ch->gen || ", ""},
		{"channel within a run", "<< 32 | 0xffffffff", "<< 32"},
		{"closed message", " || __atomic_load_n(&m->closed, __ATOMIC_RELAXED)", ""},
		{"length within a run", " || e->byte_cnt != byte_cnt", ""},
		{"message and word within a run", "(names & mask) != key", "((names ^ key) & 0xffffffff) != 0"},
		{"length", "if (length == (offset < end ? m->mtu : (uint32_t)last))", "if (length > 0)"},
		{"packet beyond the end", "last != SDR_NO_PACKET && offset <= end", "last != SDR_NO_PACKET"},
		{"short last packet", "r->plain = below((int64_t)(load(&m->last) >> 32)", "r->plain = below((int64_t)(load(&m->last) >> 32) + 1"},
		{"fragments within a run", "r->plain &= ~below(s->fragments)", "r->plain &= ~0ull"},
		{"short packet before the length", "length < m->mtu && !known", "0"},
		{"short units", "length < m->mtu && m->shorter", "0"},
		{"home word", "% r->ch->slots->channels == r->ch->index", "% r->ch->slots->channels != r->ch->index"},
		{"duplicates", "count(r->bits & ~dup)", "count(r->bits)"},
		{"short last chunk", "seen | ~live", "seen"},
		{"chunk of several words", "if (++w == end)\n\t\t\tw = begin;", "if (++w == end)\n\t\t\tbreak;"},
		{"host report", "report(t, m, SDR_REPORT_CHUNKS + w, old | done)", "(void)t"},
		{"host report all", "report(t, m, SDR_REPORT_CHUNKS + w, old | done)", "report(t, m, SDR_REPORT_CHUNKS + w, done)"},
		{"region of each writer", "m->host + t->id * m->stride", "m->host"},
		{"immediate report", "report(&t, m, SDR_REPORT_FRAGS, old | bits)", "report(&t, m, SDR_REPORT_FRAGS, bits)"},
		{"marks after their packets", "\tpublish_all(w);\n\twrite_back(w);", "\tpublish_all(w);"},
		{"marks before the status", "\tw->marks = 0;\n\twrite_back(w);", "\tw->marks = 0;"},
		{"count of a mark", "k->count += n;", "k->count++;"},
		{"mark of the last packet", "be32(e[-1].imm)", "be32(e[-n].imm)"},
		{"runs of other messages", "r->msg != m || ", ""},
		{"packet kept until the length came", "\tcount_aside(&t, m);\n\t/* No packet", "\t/* No packet"},
		{"last chunk of a length learnt late", "if (c >= 0 && chunk_full", "if (0 && chunk_full"},
		{"empty queue", "w->emptied = w->epoch;", "(void)0;"},
		{"end of the ring", "budget < left ? budget : left", "budget"},
		{"repeats within a run", "m->unit > 0 ? ~(63u << s->fragment_bits) : ", ""},
		{"immediate and repeats", "m->unit == 0 && offset < s->fragments", "offset < s->fragments"},
		{"repeat behind what came before", "\tpublish_all(w);\n\tw->counters.packets++;", "\tw->counters.packets++;"},
		{"repeat of what had come", "\telse\n\t\tcount_needed(&t, m, offset, repeats);", "\tcount_needed(&t, m, offset, repeats);"},
		{"unit that isn't whole", "m->unit > 1 && !chunk_full", "0 && !chunk_full"},
		{"shorter unit at the end", "to < limit ? to : limit, packet / 64", "to, packet / 64"},
		{"repeats of the packet kept", "aside >> REPEAT_SHIFT & 0xff);", "0);"},
		{"repeats reported all", "__atomic_add_fetch(&m->needed, repeats, __ATOMIC_RELAXED)", "repeats"},
		{"mark of a repeat", "\tif (home)\n\t\trecord_mark(w, &m->marks", "\tif (0)\n\t\trecord_mark(w, &m->marks"},
		{"consumer record", "be32(w->ci & 0xffffff)", "be32(w->ci)"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			program := link(t, compileHandler(t, m.old, m.changed))
			var err error
			for seed := uint64(1); err == nil && seed <= 40; seed++ {
				_, _, _, err = compare(t, program, seed, 5_000)
			}
			require.Error(t, err, "the handler is wrong, and nothing has noticed")
			t.Log(err)
		})
	}
}

// TestRacyHandlerIsCaught compiles handlers whose atomic operations are not atomic, and take some time, and runs them in threads. A fence that is missing
// doesn't show on this emulator (docs/dpa.md).
func TestRacyHandlerIsCaught(t *testing.T) {
	for _, m := range []struct {
		name, old, changed string
		shape              shape // that shows it
	}{
		{
			"repair word", "__atomic_fetch_or(&m->repair[w], bits, __ATOMIC_RELAXED)",
			"load(&m->repair[w]); for (volatile int i = 0; i < 100; i++); store(&m->repair[w], old | bits)",
			shape{4, 200, 16, 0},
		},
		{"one writer of a first word", "if (is_first) {\n\t\told = load(&m->first[w]);", "if (1) {\n\t\told = load(&m->first[w]); for (volatile int i = 0; i < 100; i++);", shape{4, 200, 16, 0}},
		{"look at both maps", "old |= load(&m->repair[w]);", "", shape{2, 128, 64, 0}},
		{"chunk word", "__atomic_fetch_or(&m->chunks[w], done, __ATOMIC_SEQ_CST)", "load(&m->chunks[w]); for (volatile int i = 0; i < 5000; i++); store(&m->chunks[w], old | done)", shape{16, 1000, 1, 0}},
	} {
		t.Run(m.name, func(t *testing.T) {
			program := link(t, compileHandler(t, m.old, m.changed))
			var err error
			for i := 0; err == nil && i < 40; i++ {
				err = race(t, program, m.shape, 100)
			}
			require.Error(t, err, "the handler is wrong, and nothing has noticed")
			t.Log(err)
		})
	}
}
