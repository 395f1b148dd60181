/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receive handler for the DPA of a BlueField-3: completions become packet bits, packets
 * become chunks. It decides what package dpa decides (worker.go, gather.go, message.go there),
 * and is tested against it on the same completions.
 *
 * The target has no byte swap and no count of zeros (rv64imac_zbs), and nothing is linked but
 * what abi.h names. On the path of most packets the handler therefore compares what a completion
 * says in the order of bytes in which it is.
 *
 * A batch ends in three steps, each written back before the next: what came of the packets, then
 * the marks, then the worker's status. Who has read a mark finds the packets before it in the
 * chunk bits, and who has read an epoch finds all that was done until then.
 */
#include "handler.h"

_Static_assert(sizeof(struct sdr_cqe) == 64, "size of a completion");
_Static_assert(offsetof(struct sdr_cqe, user) == 32, "srqn_uidx");
_Static_assert(offsetof(struct sdr_cqe, imm) == 36, "imm_inval_pkey, in one 64-bit word with srqn_uidx");
_Static_assert(offsetof(struct sdr_cqe, byte_cnt) == 44, "byte_cnt");
_Static_assert(offsetof(struct sdr_cqe, op_own) == 63, "op_own");
_Static_assert(sizeof(struct sdr_mark) == 64, "a line for each mark");
_Static_assert(sizeof(struct sdr_status) == 64, "a line for each worker");

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

static inline void store(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
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
	uint64_t last = load(&m->last);
	return last == SDR_NO_PACKET ? 0 : (int64_t)(last >> 32) + 1;
}

/* Who reports to the host: its number among the writers of a message, and where it sees the window. */
struct reporter {
	uint32_t id;
	uint8_t *host;
	uint32_t *reported;
};

/* Reports word i of a message to the host (enum sdr_report). */
static void report(const struct reporter *t, const struct sdr_message *m, int64_t i, uint64_t v)
{
	store((uint64_t *)(t->host + m->host + t->id * m->stride) + i, v);
	(*t->reported)++;
}

/* Whether packets from to to-1 are in, seen from word w on, which most likely decides it. */
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

/*
 * Sets chunk bits of word w. Who sets one reports the whole word to the host: what it has reported before
 * is in it, and what it has not is of others.
 */
static void set_chunks(const struct reporter *t, struct sdr_message *m, int64_t w, uint64_t done)
{
	if ((done & ~load(&m->chunks[w])) == 0)
		return;
	uint64_t old = __atomic_fetch_or(&m->chunks[w], done, __ATOMIC_SEQ_CST);
	if (done & ~old)
		report(t, m, SDR_REPORT_CHUNKS + w, old | done);
}

/* Sets the bits of the full chunks of word w, where chunks lie within a word. */
static void chunks_within(const struct reporter *t, struct sdr_message *m, int64_t w, uint64_t seen)
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
	set_chunks(t, m, first / 64, done << (first % 64));
}

/* The same for chunks of any other size, as far as packets touched belong to them. */
static void chunks_across(const struct reporter *t, struct sdr_message *m, int64_t w, uint64_t touched)
{
	int64_t limit = packets(m), n = m->per_chunk;
	for (int64_t c = w * 64 / n; c * n < limit && c * n < w * 64 + 64; c++) {
		int64_t from = c * n, to = from + n < limit ? from + n : limit;
		if ((touched & below(to - w * 64) & ~below(from - w * 64)) == 0)
			continue;
		if (chunk_full(m, from, to, w))
			set_chunks(t, m, c / 64, 1ull << (c % 64));
	}
}

/* Adds packets to word w of a message and returns those that had come before. */
static uint64_t add(const struct reporter *t, struct sdr_message *m, int64_t w, uint64_t bits, int is_first)
{
	uint64_t old;
	if (is_first) {
		old = load(&m->first[w]);
		store(&m->first[w], old | bits);
		/*
		 * Of two that complete a chunk, the one that publishes last must see what the other
		 * has published, so the store comes before all loads below. One of the two may be
		 * sdr_set_length, which publishes the end of the message.
		 */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		old |= load(&m->repair[w]);
	} else {
		old = __atomic_fetch_or(&m->repair[w], bits, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		old |= load(&m->first[w]);
	}
	if (m->shift != SDR_ACROSS)
		chunks_within(t, m, w, old | bits);
	else
		chunks_across(t, m, w, bits);
	return old & bits;
}

/*
 * Counts, after a packet whose unit had been sent so often before has set its bit, the repeats that
 * it took to place the unit, if that has become whole.
 */
static void count_needed(const struct reporter *t, struct sdr_message *m, uint32_t packet, uint32_t repeats)
{
	if (repeats == 0 || m->unit == 0)
		return;
	int64_t from = packet - packet % m->unit, to = from + m->unit, limit = packets(m);
	if (m->unit > 1 && !chunk_full(m, from, to < limit ? to : limit, packet / 64))
		return;
	/* Of what the writers report, the largest is the sum. */
	report(t, m, SDR_REPORT_NEEDED, __atomic_add_fetch(&m->needed, repeats, __ATOMIC_RELAXED));
}

/* Where aside has the number of a packet's repeat: packets are shorter than 2^24 bytes. */
#define REPEAT_SHIFT 24

/* Counts the packet kept aside if it is the message's last one. */
static void count_aside(const struct reporter *t, struct sdr_message *m)
{
	uint64_t aside = load(&m->aside), last = aside & ~(0xffull << REPEAT_SHIFT);
	if (aside == SDR_NO_PACKET || last != load(&m->last))
		return;
	uint32_t packet = aside >> 32;
	if (add(t, m, packet >> 6, 1ull << (packet & 63), 0) == 0)
		count_needed(t, m, packet, aside >> REPEAT_SHIFT & 0xff);
}

static inline struct reporter reporter_of(struct sdr_worker *w)
{
	return (struct reporter){w->id, w->host, &w->reported};
}

/* Publishes a run's packets, and empties it. */
static void publish(struct sdr_worker *w, struct sdr_run *r)
{
	struct sdr_message *m = r->msg;
	struct reporter t = reporter_of(w);
	/* Channels take turns word by word, so that most packets of a word come on its home. */
	int is_first = r->mark != NULL && (m->start + r->index) % r->ch->slots->channels == r->ch->index;
	if (!is_first)
		w->counters.repairs += r->n;
	uint64_t dup = add(&t, m, r->index, r->bits, is_first);
	w->counters.duplicates += r->n - count(r->bits & ~dup);
	w->counters.packets += r->n;
	r->msg = NULL;
	r->plain = 0;
}

static void write_back(struct sdr_worker *w)
{
	if (w->reported != 0) {
		w->pushes += w->reported;
		w->reported = 0;
		sdr_abi_window_writeback();
	}
}

/* Publishes all runs. */
static void publish_all(struct sdr_worker *w)
{
	for (uint32_t used = w->used, i = 0; used != 0; used >>= 1, i++) {
		if (used & 1)
			publish(w, &w->run[i]);
	}
	w->used = 0;
}

/* Publishes all runs, then the channels' marks: what a mark says has come is in the bitmap of whoever reads it. */
static void flush(struct sdr_worker *w)
{
	publish_all(w);
	write_back(w);
	for (uint32_t i = 0; i < w->marks; i++) {
		struct sdr_mark *k = w->marked[i];
		k->queued = 0;
		store((uint64_t *)(w->host + k->host), k->next | (k->count & 0xffff));
		w->reported++;
	}
	w->marks = 0;
	write_back(w);
}

/* Records the last of n packets of a channel, or a probe, to be reported to the host. */
static inline void record_mark(struct sdr_worker *w, struct sdr_mark *k, uint64_t next, uint32_t n)
{
	if (!k->queued) {
		if (w->marks == SDR_MARKS)
			flush(w);
		k->queued = 1;
		w->marked[w->marks++] = k;
	}
	k->next = next;
	k->count += n;
}

/* What a mark says of a message: that it is valid, and the message's label. */
static inline uint64_t label_of(const struct sdr_message *m)
{
	return 1ull << 63 | (uint64_t)(m->label & 0xffff) << 46;
}

static void set_fragment(struct sdr_worker *w, struct sdr_message *m, const struct sdr_slots *s, uint32_t offset,
			 uint32_t imm)
{
	struct reporter t = reporter_of(w);
	uint64_t bits = 1ull << (32 + offset);
	if (offset < s->fragments)
		bits |= (uint64_t)(imm & ((1u << s->fragment_bits) - 1)) << (offset * s->fragment_bits);
	if ((load(&m->frags) & bits) != bits) {
		uint64_t old = __atomic_fetch_or(&m->frags, bits, __ATOMIC_SEQ_CST);
		report(&t, m, SDR_REPORT_FRAGS, old | bits);
	}
}

/* Handles packets without payload: fragments of the user immediate, and probes. */
static void zero_length(struct sdr_worker *w, struct sdr_channel *ch, struct sdr_message *m, uint32_t offset,
			uint32_t imm)
{
	if (ch->slots->fragment_bits > 0 && offset <= ch->slots->fragments) {
		w->counters.fragments++;
		set_fragment(w, m, ch->slots, offset, imm);
	} else if (offset >= MARKER_BASE && offset < MARKER_BASE + NUM_MARKERS) {
		w->counters.probes++;
		if (ch->home == w->id)
			record_mark(w, &m->marks[ch->index],
			     label_of(m) | 1ull << 62 | (uint64_t)(offset - MARKER_BASE) << 16, 1);
	} else {
		w->counters.invalid++;
	}
}

/* Whether a packet's length is what its offset calls for; counts it if not. */
static int fits(struct sdr_worker *w, struct sdr_message *m, uint32_t offset, uint32_t length, uint32_t repeats)
{
	/* Read first: whoever finds the length known has the last packet that it made so. */
	int known = __atomic_load_n(&m->known, __ATOMIC_ACQUIRE);
	uint64_t last = load(&m->last);
	uint32_t end = last >> 32;
	if (last != SDR_NO_PACKET && offset <= end) {
		if (length == (offset < end ? m->mtu : (uint32_t)last))
			return 1;
		if (length < m->mtu && m->shorter)
			return 1;
		if (length < m->mtu && !known) {
			struct reporter t = reporter_of(w);
			w->counters.aside++;
			store(&m->aside, (uint64_t)offset << 32 | (uint64_t)repeats << REPEAT_SHIFT | length);
			/* sdr_set_length may have looked before the store. */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (__atomic_load_n(&m->known, __ATOMIC_RELAXED))
				count_aside(&t, m);
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
	/*
	 * The lowest byte is the first in memory: the user index is below, the immediate above. With units, the
	 * packets of a run are no repeats.
	 */
	uint32_t fixed = m->unit > 0 ? ~(63u << s->fragment_bits) : ~0u << (s->fragment_bits + 6);
	r->mask = (uint64_t)be32(fixed) << 32 | 0xffffffff;
	r->key = e->names & r->mask;
	r->byte_cnt = be32(m->mtu);
	r->index = offset >> 6;
	r->mark = ch->home == w->id ? &m->marks[ch->index] : NULL;
	r->label = label_of(m);
	r->bits = 0;
	r->n = 0;
	/* The last packet may be short. */
	r->plain = below((int64_t)(load(&m->last) >> 32) - (int64_t)r->index * 64);
	if (r->index == 0)
		r->plain &= ~below(s->fragments);
}

/*
 * Publishes a packet whose unit had been sent so often before, behind all that this batch has
 * gathered, which came before it.
 */
static void repeat(struct sdr_worker *w, struct sdr_channel *ch, struct sdr_message *m, uint32_t offset,
		   uint32_t repeats)
{
	struct reporter t = reporter_of(w);
	int home = ch->home == w->id;
	int is_first = home && (m->start + (offset >> 6)) % ch->slots->channels == ch->index;
	publish_all(w);
	w->counters.packets++;
	w->counters.repairs += !is_first;
	if (add(&t, m, offset >> 6, 1ull << (offset & 63), is_first) != 0)
		w->counters.duplicates++;
	else
		count_needed(&t, m, offset, repeats);
	if (home)
		record_mark(w, &m->marks[ch->index], label_of(m) | (uint64_t)offset << 16, 1);
}

/*
 * The run that a completion's word may be in. Channels that take turns have different ones, and so
 * have most messages that do; it is a guess that only costs when it is bad.
 */
static inline struct sdr_run *place(struct sdr_worker *w, const struct sdr_cqe *e)
{
	const uint8_t *user = (const uint8_t *)&e->user, *imm = (const uint8_t *)&e->imm;
	return &w->run[(user[3] + 3 * (imm[1] >> 6)) % SDR_RUNS];
}

/* Handles a completion that isn't simply the next of run r, its place. */
static void one(struct sdr_worker *w, struct sdr_run *r, const struct sdr_cqe *e)
{
	if (e->op_own >> 4 != SDR_CQE_WRITE_IMM) {
		w->counters.other++;
		return;
	}
	uint32_t user = be32(e->user) & 0xffffff;
	struct sdr_channel *ch = user < w->channels ? __atomic_load_n(&w->channel[user], __ATOMIC_ACQUIRE) : NULL;
	if (ch == NULL) {
		w->counters.invalid++;
		return;
	}
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
	uint32_t repeats = m->unit > 0 ? imm & ((1u << s->fragment_bits) - 1) : 0;
	if (!fits(w, m, offset, length, repeats))
		return;
	if (repeats > 0) {
		repeat(w, ch, m, offset, repeats);
		return;
	}
	if (m->unit == 0 && offset < s->fragments)
		set_fragment(w, m, s, offset, imm);
	if (r->msg != m || r->index != offset >> 6 || r->ch != ch) {
		if (r->msg != NULL)
			publish(w, r);
		begin(r, w, ch, m, e, offset);
		w->used |= 1u << (r - w->run);
	}
	r->bits |= 1ull << (offset & 63);
	r->n++;
	if (r->mark != NULL)
		record_mark(w, r->mark, r->label | (uint64_t)offset << 16, 1);
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
static inline uint32_t sweep(struct sdr_worker *w, struct sdr_run *r, uint32_t ci, uint32_t budget)
{
	const uint64_t plain = r->plain, key = r->key, mask = r->mask;
	const uint32_t byte_cnt = r->byte_cnt, fragment_bits = r->fragment_bits;
	const uint32_t size = 1u << w->log_size;
	/* Of the number of a packet within its word, the bits that are in the upper one of two bytes. */
	const uint64_t high = 63 & ~0ull << (8 - fragment_bits);
	/* No further than the ring's end, so that the owner bit is the same for all. */
	const uint32_t at = ci & (size - 1), left = size - at;
	const uint8_t own = SDR_CQE_WRITE_IMM << 4 | (ci >> w->log_size & 1);
	const struct sdr_cqe *const from = &w->ring[at], *const to = from + (budget < left ? budget : left), *e;
	uint64_t bits = r->bits;

	for (e = from; e != to; e++) {
		if ((__atomic_load_n(&e->op_own, __ATOMIC_RELAXED) & 0xf1) != own)
			break;
		read_barrier();
		uint64_t names = e->names;
		if ((names & mask) != key || e->byte_cnt != byte_cnt)
			break;
		/* Packet and fragment are in the two low bytes of the immediate, which are the last. */
		uint64_t packet = ((names >> (40 + fragment_bits) & high) | names >> 56 >> fragment_bits) & 63;
		if (!(plain >> packet & 1))
			break;
		bits |= 1ull << packet;
	}
	uint32_t n = e - from;
	if (n > 0) {
		r->bits = bits;
		r->n += n;
		if (r->mark != NULL) {
			uint32_t offset = r->index << 6 | (be32(e[-1].imm) >> fragment_bits & 63);
			record_mark(w, r->mark, r->label | (uint64_t)offset << 16, n);
		}
	}
	return n;
}

/* Leaves the batch and reports so to the host: whatever was reported before is there when the status is. */
static void leave(struct sdr_worker *w)
{
	struct sdr_status *s = (struct sdr_status *)(w->host + w->status);
	__atomic_store_n(&w->epoch, w->epoch + 1, __ATOMIC_RELEASE);
	store(&s->pushes, w->pushes);
	store(&s->emptied, w->emptied);
	store(&s->epoch, w->epoch);
	sdr_abi_window_writeback();
}

uint32_t sdr_handle(struct sdr_worker *w, uint32_t budget)
{
	uint32_t ci = w->ci, n = 0;
	const struct sdr_run *swept = NULL; /* its plain packets were taken just now: what comes next isn't one */

	w->host = sdr_abi_window(&w->window);
	__atomic_store_n(&w->epoch, w->epoch + 1, __ATOMIC_RELAXED);
	/* Whoever closes a message and then sees this worker outside a batch knows that it will see it closed. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (n < budget) {
		const struct sdr_cqe *e = next(w, ci + n);
		if (e == NULL) {
			w->emptied = w->epoch;
			break;
		}
		struct sdr_run *r = place(w, e);
		uint32_t taken = r->plain != 0 && r != swept ? sweep(w, r, ci + n, budget - n) : 0;
		swept = r;
		if (taken == 0) {
			one(w, r, e);
			taken = 1;
			swept = NULL;
		}
		n += taken;
	}
	flush(w);
	w->ci = ci + n;
	/* The NIC may overwrite the completions, so they have been read. */
	__atomic_store_n(w->cq_record, be32(w->ci & 0xffffff), __ATOMIC_RELEASE);
	if (w->rq_record != NULL) {
		w->rq_pi += n;
		__atomic_store_n(w->rq_record, be32(w->rq_pi & 0xffff), __ATOMIC_RELEASE);
	}
	leave(w);
	return n;
}

void sdr_activate(struct sdr_worker *w)
{
	sdr_handle(w, w->budget);
	sdr_abi_cq_arm(w->cqn, w->ci);
	sdr_abi_reschedule();
}

static uint64_t last_of(const struct sdr_message *m, uint64_t length)
{
	if (length == 0)
		return SDR_NO_PACKET;
	uint64_t end = (length - 1) / m->mtu;
	return end << 32 | (length - end * m->mtu);
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
	m->last = last_of(m, length);
}

void sdr_set_length(struct sdr_message *m, uint8_t *host, uint32_t workers, uint64_t length)
{
	uint32_t reported = 0;
	struct reporter t = {workers, host, &reported};
	store(&m->last, last_of(m, length));
	__atomic_store_n(&m->known, 1, __ATOMIC_RELEASE);
	/* A worker either sees the new end, or has published what is looked at below. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	count_aside(&t, m);
	/* No packet may be to come whose worker would notice that the last chunk is full. */
	int64_t n = m->per_chunk, limit = packets(m), c = (limit + n - 1) / n - 1;
	if (c >= 0 && chunk_full(m, c * n, limit, (limit - 1) / 64))
		set_chunks(&t, m, c / 64, 1ull << (c % 64));
	if (reported != 0)
		sdr_abi_window_writeback();
}
