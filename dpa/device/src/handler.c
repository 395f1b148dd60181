/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receive handler for the DPA of a BlueField-3: completions become packet bits, packets
 * become chunks. It decides what package dpa decides (worker.go, gather.go, message.go there),
 * and is tested against it on the same completions.
 *
 * The target has no byte swap and no count of zeros (rv64imac_zbs), and nothing is linked but
 * what abi.h names. On the path of most packets the handler therefore compares what a completion
 * says in the order of bytes in which it is.
 */
#include "handler.h"

#include "abi.h"

_Static_assert(sizeof(struct sdr_cqe) == 64, "size of a completion");
_Static_assert(offsetof(struct sdr_cqe, user) == 32, "srqn_uidx");
_Static_assert(offsetof(struct sdr_cqe, imm) == 36, "imm_inval_pkey");
_Static_assert(offsetof(struct sdr_cqe, byte_cnt) == 44, "byte_cnt");
_Static_assert(offsetof(struct sdr_cqe, op_own) == 63, "op_own");
_Static_assert(sizeof(struct sdr_mark) == 64, "a line for each mark");

#define MARKER_BASE 32
#define NUM_MARKERS 16

static inline uint32_t be32(uint32_t v)
{
	return v >> 24 | (v >> 8 & 0xff00) | (v & 0xff00) << 8 | v << 24;
}

static inline uint64_t load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* Orders loads before all that follows; GCC 12 has a full fence for __ATOMIC_ACQUIRE. */
static inline void read_barrier(void)
{
	__asm__ volatile("fence r,rw" ::: "memory");
}

/* The n lowest bits, all for n of 64 and more. */
static inline uint64_t below(int64_t n)
{
	return n <= 0 ? 0 : n >= 64 ? ~0ull : (1ull << n) - 1;
}

/* How many bits are set. */
static uint32_t count(uint64_t v)
{
	v -= v >> 1 & 0x5555555555555555;
	v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);
	v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return v * 0x0101010101010101 >> 56;
}

static inline int64_t packets(const struct sdr_message *m)
{
	return m->last == SDR_NO_PACKET ? 0 : (int64_t)(m->last >> 32) + 1;
}

/* Whether packets from to to-1 are in, seen from word w on, which most likely tells. */
static int chunk_full(const struct sdr_message *m, int64_t from, int64_t to, int64_t w)
{
	int64_t begin = from / 64, end = (to + 63) / 64;
	for (int64_t i = begin; i < end; i++) {
		uint64_t want = below(to - w * 64) & ~below(from - w * 64);
		if (want & ~(load(&m->first[w]) | load(&m->repair[w])))
			return 0;
		if (++w == end)
			w = begin;
	}
	return 1;
}

/* Sets chunk bits of word w, counts those that it turned, and tells the host of them. */
static void set_chunks(struct sdr_worker *k, struct sdr_message *m, int64_t w, uint64_t done)
{
	if ((done & ~load(&m->chunks[w])) == 0)
		return;
	uint64_t turned = done & ~__atomic_fetch_or(&m->chunks[w], done, __ATOMIC_SEQ_CST);
	if (turned == 0)
		return;
	__atomic_fetch_add(&m->done, count(turned), __ATOMIC_RELEASE);
	for (int64_t c = w * 64; turned != 0; turned >>= 1, c++) {
		for (; (turned & 0xff) == 0; turned >>= 8)
			c += 8;
		if (turned & 1)
			sdr_abi_host_store(&m->host[c], 1);
	}
	if (k != NULL)
		k->pushed = 1;
}

/* Sets the bits of the full chunks of word w, where chunks lie within a word. */
static void chunks_within(struct sdr_worker *k, struct sdr_message *m, int64_t w, uint64_t seen)
{
	uint64_t live = below(packets(m) - w * 64);
	uint64_t full = seen | ~live, done = 0;
	uint32_t shift = m->shift;
	for (uint32_t s = 0; s < shift; s++)
		full &= full >> (1u << s);
	full &= m->heads & live;
	if (full == 0)
		return;
	if (shift == 0)
		done = full;
	else
		for (uint32_t i = 0; i < 64u >> shift; i++)
			done |= (full >> (i << shift) & 1) << i;
	int64_t first = w << (6 - shift);
	set_chunks(k, m, first / 64, done << (first % 64));
}

/* The same for chunks of any other size, as far as packets touched belong to them. */
static void chunks_across(struct sdr_worker *k, struct sdr_message *m, int64_t w, uint64_t touched)
{
	int64_t limit = packets(m), n = m->per_chunk;
	for (int64_t c = w * 64 / n; c * n < limit && c * n < w * 64 + 64; c++) {
		int64_t from = c * n, to = from + n < limit ? from + n : limit;
		if ((touched & below(to - w * 64) & ~below(from - w * 64)) == 0)
			continue;
		if (chunk_full(m, from, to, w))
			set_chunks(k, m, c / 64, 1ull << (c % 64));
	}
}

/* Adds packets to word w of a message and returns those that had come before. */
static uint64_t add(struct sdr_worker *k, struct sdr_message *m, int64_t w, uint64_t bits, int is_first)
{
	uint64_t old;
	if (is_first) {
		old = load(&m->first[w]);
		__atomic_store_n(&m->first[w], old | bits, __ATOMIC_RELAXED);
		/*
		 * Of two workers that complete a chunk, the one that publishes last must see what the
		 * other has published, so the store comes before all loads below.
		 */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		old |= load(&m->repair[w]);
	} else {
		old = __atomic_fetch_or(&m->repair[w], bits, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		old |= load(&m->first[w]);
	}
	if (m->shift != SDR_ACROSS)
		chunks_within(k, m, w, old | bits);
	else
		chunks_across(k, m, w, bits);
	return old & bits;
}

static void set_mark(struct sdr_message *m, struct sdr_channel *ch, uint32_t offset, uint32_t marker, uint32_t n)
{
	struct sdr_mark *k = &m->marks[ch->index];
	k->count += n;
	/* What a mark says has come is in the bitmap of whoever reads the mark first. */
	__atomic_store_n(&k->v,
			 1ull << 63 | (uint64_t)marker << 62 | (uint64_t)(m->label & 0xffff) << 46 |
				 (uint64_t)offset << 16 | (k->count & 0xffff),
			 __ATOMIC_RELEASE);
}

/* Publishes the run's packets, then its channel's mark, and empties it. */
static void publish(struct sdr_worker *w)
{
	struct sdr_run *r = &w->run;
	struct sdr_message *m = r->msg;
	if (m == NULL)
		return;
	/* Channels take turns word by word, so that most packets of a word come on its home. */
	int is_first = r->home && (m->start + r->index) % r->ch->slots->channels == r->ch->index;
	if (!is_first)
		w->counters.repairs += r->n;
	uint64_t dup = add(w, m, r->index, r->bits, is_first);
	w->counters.duplicates += r->n - count(r->bits & ~dup);
	w->counters.packets += r->n;
	if (r->home)
		set_mark(m, r->ch, r->offset, 0, r->n);
	r->msg = NULL;
	r->plain = 0;
}

static void set_fragment(struct sdr_message *m, const struct sdr_slots *s, uint32_t offset, uint32_t imm)
{
	uint64_t bits = 1ull << (32 + offset);
	if (offset < s->fragments)
		bits |= (uint64_t)(imm & ((1u << s->fragment_bits) - 1)) << (offset * s->fragment_bits);
	if ((load(&m->frags) & bits) != bits)
		__atomic_fetch_or(&m->frags, bits, __ATOMIC_SEQ_CST);
}

/* Handles packets without payload: fragments of the user immediate, and markers. */
static void zero_length(struct sdr_worker *w, struct sdr_channel *ch, struct sdr_message *m, uint32_t offset,
			uint32_t imm)
{
	if (ch->slots->fragment_bits > 0 && offset <= ch->slots->fragments) {
		w->counters.fragments++;
		set_fragment(m, ch->slots, offset, imm);
	} else if (offset >= MARKER_BASE && offset < MARKER_BASE + NUM_MARKERS) {
		w->counters.markers++;
		if (ch->home == w->id) {
			publish(w);
			set_mark(m, ch, offset - MARKER_BASE, 1, 1);
		}
	} else {
		w->counters.invalid++;
	}
}

/* Whether a packet's length is what its offset calls for; counts it if not. */
static int fits(struct sdr_worker *w, struct sdr_message *m, uint32_t offset, uint32_t length)
{
	uint32_t end = m->last >> 32;
	if (m->last != SDR_NO_PACKET && offset <= end) {
		if (length == (offset < end ? m->mtu : (uint32_t)m->last))
			return 1;
		if (length < m->mtu && !m->known) {
			w->counters.aside++;
			__atomic_store_n(&m->aside, (uint64_t)offset << 32 | length, __ATOMIC_RELAXED);
			return 0;
		}
	}
	w->counters.length++;
	return 0;
}

/* Makes the run that of a packet's word. */
static void begin(struct sdr_run *r, struct sdr_worker *w, struct sdr_channel *ch, struct sdr_message *m,
		  const struct sdr_cqe *e, uint32_t offset)
{
	const struct sdr_slots *s = ch->slots;
	r->msg = m;
	r->ch = ch;
	r->fragment_bits = s->fragment_bits;
	r->mask = be32(~0u << (s->fragment_bits + 6));
	r->key = e->imm & r->mask;
	r->user = e->user;
	r->byte_cnt = be32(m->mtu);
	r->index = offset >> 6;
	r->home = ch->home == w->id;
	r->bits = 0;
	r->n = 0;
	/* The last packet may be short. */
	r->plain = below((int64_t)(m->last >> 32) - (int64_t)r->index * 64);
	if (r->index == 0)
		r->plain &= ~below(s->fragments);
}

/* Handles a completion that isn't simply the next of the run. */
static void one(struct sdr_worker *w, const struct sdr_cqe *e)
{
	if (e->op_own >> 4 != SDR_CQE_WRITE_IMM) {
		w->counters.other++;
		return;
	}
	uint32_t user = be32(e->user) & 0xffffff;
	if (user >= w->channels || w->channel[user] == NULL) {
		w->counters.invalid++;
		return;
	}
	struct sdr_channel *ch = w->channel[user];
	struct sdr_slots *s = ch->slots;
	uint32_t imm = be32(e->imm), length = be32(e->byte_cnt);
	uint32_t offset = imm >> s->fragment_bits & ((1u << s->offset_bits) - 1);
	struct sdr_message *m =
		__atomic_load_n(&s->messages[imm >> (s->offset_bits + s->fragment_bits)], __ATOMIC_ACQUIRE);
	if (m == NULL || m->gen != ch->gen || __atomic_load_n(&m->closed, __ATOMIC_RELAXED)) {
		w->counters.stale++;
		return;
	}
	if (length == 0) {
		zero_length(w, ch, m, offset, imm);
		return;
	}
	if (!fits(w, m, offset, length))
		return;
	if (offset < s->fragments)
		set_fragment(m, s, offset, imm);
	struct sdr_run *r = &w->run;
	if (r->msg != m || r->index != offset >> 6 || r->ch != ch) {
		publish(w);
		begin(r, w, ch, m, e, offset);
	}
	r->bits |= 1ull << (offset & 63);
	r->n++;
	r->offset = offset;
}

/* The completion after ci, or none: the queue is empty. */
static inline const struct sdr_cqe *next(const struct sdr_worker *w, uint32_t ci)
{
	const struct sdr_cqe *e = &w->ring[ci & ((1u << w->log_size) - 1)];
	uint8_t own = __atomic_load_n(&e->op_own, __ATOMIC_RELAXED);
	if (own >> 4 == SDR_CQE_INVALID || (own & 1) != (ci >> w->log_size & 1))
		return NULL;
	/* The rest of it was written before. */
	read_barrier();
	return e;
}

/* Takes the completions that are plain packets of the run, at most budget, and returns how many. */
static inline uint32_t sweep(struct sdr_worker *w, uint32_t ci, uint32_t budget)
{
	struct sdr_run *r = &w->run;
	const uint64_t plain = r->plain;
	const uint32_t key = r->key, mask = r->mask, user = r->user, byte_cnt = r->byte_cnt;
	const uint32_t fragment_bits = r->fragment_bits;
	const uint32_t size = 1u << w->log_size;
	/* No further than the ring's end, so that the owner bit is the same for all. */
	const uint32_t at = ci & (size - 1), left = size - at;
	const uint8_t own = SDR_CQE_WRITE_IMM << 4 | (ci >> w->log_size & 1);
	const struct sdr_cqe *const from = &w->ring[at], *const to = from + (budget < left ? budget : left), *e;
	uint64_t bits = r->bits;

	for (e = from; e != to; e++) {
		if ((__atomic_load_n(&e->op_own, __ATOMIC_RELAXED) & 0xf1) != own)
			break;
		read_barrier();
		if (e->user != user || e->byte_cnt != byte_cnt || (e->imm & mask) != key)
			break;
		/* Packet and fragment are in the two low bytes. */
		const uint8_t *imm = (const uint8_t *)&e->imm;
		uint64_t bit = 1ull << ((imm[2] << (8 - fragment_bits) | imm[3] >> fragment_bits) & 63);
		if (!(plain & bit))
			break;
		bits |= bit;
	}
	uint32_t n = e - from;
	if (n > 0) {
		r->bits = bits;
		r->n += n;
		r->offset = r->index << 6 | (be32(e[-1].imm) >> fragment_bits & 63);
	}
	return n;
}

uint32_t sdr_handle(struct sdr_worker *w, uint32_t budget)
{
	uint32_t ci = w->ci, n = 0;

	__atomic_store_n(&w->epoch, w->epoch + 1, __ATOMIC_RELAXED);
	/* Whoever closes a message and then sees this worker outside a batch knows that it will see it closed. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (n < budget) {
		if (w->run.plain != 0) {
			n += sweep(w, ci + n, budget - n);
			if (n == budget)
				break;
		}
		const struct sdr_cqe *e = next(w, ci + n);
		if (e == NULL)
			break;
		one(w, e);
		n++;
	}
	publish(w);
	w->ci = ci + n;
	if (w->pushed) {
		w->pushed = 0;
		sdr_abi_host_flush();
	}
	/* The NIC may overwrite the completions, so they have been read. */
	__atomic_store_n(w->cq_record, be32(w->ci & 0xffffff), __ATOMIC_RELEASE);
	if (w->rq_record != NULL) {
		w->rq_pi += n;
		__atomic_store_n(w->rq_record, be32(w->rq_pi & 0xffff), __ATOMIC_RELEASE);
	}
	__atomic_store_n(&w->epoch, w->epoch + 1, __ATOMIC_RELEASE);
	return n;
}

void sdr_activate(struct sdr_worker *w, uint32_t budget)
{
	sdr_handle(w, budget);
	sdr_abi_cq_arm(w->cqn, w->ci);
	sdr_abi_reschedule();
}

static void set_last(struct sdr_message *m, uint64_t length)
{
	m->last = SDR_NO_PACKET;
	if (length > 0) {
		uint64_t end = (length - 1) / m->mtu;
		m->last = end << 32 | (length - end * m->mtu);
	}
}

void sdr_open(struct sdr_message *m, uint64_t length, uint32_t mtu, uint32_t per_chunk)
{
	m->mtu = mtu;
	m->per_chunk = per_chunk;
	m->shift = SDR_ACROSS;
	if (per_chunk <= 64 && (per_chunk & (per_chunk - 1)) == 0) {
		m->shift = 0;
		for (uint32_t n = per_chunk; n > 1; n >>= 1)
			m->shift++;
		for (uint32_t i = 0; i < 64; i += per_chunk)
			m->heads |= 1ull << i;
	}
	m->aside = SDR_NO_PACKET;
	set_last(m, length);
}

void sdr_set_length(struct sdr_message *m, uint64_t length)
{
	int64_t before = packets(m), n = m->per_chunk;
	set_last(m, length);
	m->known = 1;
	int64_t limit = packets(m), chunks = (limit + n - 1) / n;
	for (int64_t c = chunks; c * n < before; c++) {
		if (m->chunks[c / 64] >> (c % 64) & 1) {
			m->chunks[c / 64] &= ~(1ull << (c % 64));
			m->done--;
			sdr_abi_host_store(&m->host[c], 0);
		}
	}
	if (m->aside != SDR_NO_PACKET && m->aside == m->last) {
		uint64_t p = m->aside >> 32;
		add(NULL, m, p / 64, 1ull << (p % 64), 0);
	}
	/* No packet may be to come whose worker would notice that the last chunk is full. */
	if (chunks > 0 && chunk_full(m, (chunks - 1) * n, limit, (limit - 1) / 64))
		set_chunks(NULL, m, (chunks - 1) / 64, 1ull << ((chunks - 1) % 64));
	sdr_abi_host_flush();
}
