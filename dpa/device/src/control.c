/* SPDX-License-Identifier: Apache-2.0 */
/* The host's commands (control.h). */
#include "control.h"

#include "handler.h"

struct sdr_control {
	struct sdr_window window;
	uint32_t workers;
	struct sdr_worker *worker[SDR_MAX_WORKERS];
};

/* Zeroes n bytes, a multiple of 8; nothing is linked that could. */
static void zero(void *p, uint64_t n)
{
	volatile uint64_t *w = p;
	for (uint64_t i = 0; i < n / 8; i++)
		w[i] = 0;
}

static uint64_t size_of(uint64_t kind)
{
	switch (kind) {
	case SDR_KIND_CONTROL: return sizeof(struct sdr_control);
	case SDR_KIND_WORKER: return sizeof(struct sdr_worker);
	case SDR_KIND_TABLE: return sizeof(struct sdr_slots);
	case SDR_KIND_CHANNEL: return sizeof(struct sdr_channel);
	case SDR_KIND_MARK: return sizeof(struct sdr_mark);
	case SDR_KIND_MESSAGE: return sizeof(struct sdr_message);
	}
	return ~0ull;
}

static uint64_t new_control(struct sdr_control *c, const uint64_t *arg)
{
	zero(c, sizeof *c);
	c->window = (struct sdr_window){arg[0], arg[1], arg[2]};
	return 0;
}

static uint64_t new_worker(struct sdr_control *c, struct sdr_worker *w, const uint64_t *arg)
{
	if (arg[0] != c->workers || c->workers == SDR_MAX_WORKERS)
		return ~0ull;
	zero(w, sizeof *w);
	w->id = arg[0];
	w->cqn = arg[1];
	w->ring = (struct sdr_cqe *)arg[2];
	w->log_size = arg[3];
	w->cq_record = (uint32_t *)arg[4];
	w->rq_record = (uint32_t *)arg[5];
	w->thread = arg[6];
	w->budget = arg[7];
	w->channel = (struct sdr_channel **)arg[8];
	w->channels = arg[9];
	w->status = arg[10];
	w->window = c->window;
	for (uint64_t i = 0; i < 1ull << w->log_size; i++)
		w->ring[i].op_own = SDR_CQE_INVALID << 4 | 1;
	c->worker[c->workers++] = w;
	return 0;
}

static uint64_t new_table(struct sdr_slots *s, const uint64_t *arg)
{
	s->offset_bits = arg[0];
	s->fragment_bits = arg[1];
	s->fragments = arg[1] > 0 ? 32 / (uint32_t)arg[1] : 0;
	s->channels = arg[2];
	s->messages = (struct sdr_message **)arg[3];
	zero(s->messages, 8ull << (32 - s->offset_bits - s->fragment_bits));
	return 0;
}

static uint64_t attach(struct sdr_channel *ch, const uint64_t *arg)
{
	*ch = (struct sdr_channel){(struct sdr_slots *)arg[2], arg[3], arg[4], arg[5]};
	__atomic_store_n((struct sdr_channel **)arg[0] + arg[1], ch, __ATOMIC_RELEASE);
	return 0;
}

static uint64_t new_mark(struct sdr_mark *k, const uint64_t *arg)
{
	zero(k, sizeof *k);
	k->host = arg[0];
	k->count = arg[1];
	return 0;
}

static uint64_t open_message(struct sdr_message *m, const uint64_t *arg)
{
	struct sdr_slots *s = (struct sdr_slots *)arg[0];
	uint64_t *maps = (uint64_t *)arg[8], words = arg[9];
	zero(m, sizeof *m);
	m->gen = arg[2];
	m->label = arg[3];
	m->start = arg[4];
	m->unit = arg[13];
	m->shorter = arg[14];
	sdr_open(m, arg[5], arg[6], arg[7]);
	/* First, repair, chunks, in the words that the host has counted. */
	uint64_t packets = m->last == SDR_NO_PACKET ? 0 : (m->last >> 32) + 1, n = (packets + 63) / 64;
	if (words < 2 * n + ((packets + m->per_chunk - 1) / m->per_chunk + 63) / 64)
		return ~0ull;
	zero(maps, words * 8);
	m->first = maps;
	m->repair = maps + n;
	m->chunks = maps + 2 * n;
	m->host = arg[10];
	m->stride = arg[11];
	m->marks = (struct sdr_mark *)arg[12];
	__atomic_store_n(&s->messages[arg[1]], m, __ATOMIC_RELEASE);
	return 0;
}

static uint64_t close_message(struct sdr_message *m)
{
	__atomic_store_n(&m->closed, 1, __ATOMIC_RELAXED);
	/* A worker that is seen outside a batch from here on sees it closed (sdr_handle). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return 0;
}

static uint64_t set_length(struct sdr_control *c, struct sdr_message *m, uint64_t length)
{
	sdr_set_length(m, sdr_abi_window(&c->window), c->workers, length);
	return 0;
}

static uint64_t epochs(struct sdr_control *c, uint64_t place)
{
	uint64_t *to = (uint64_t *)(sdr_abi_window(&c->window) + place);
	for (uint32_t i = 0; i < c->workers; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&c->worker[i]->epoch, __ATOMIC_SEQ_CST), __ATOMIC_RELAXED);
	sdr_abi_window_writeback();
	return 0;
}

static uint64_t counters(struct sdr_control *c, const struct sdr_worker *w, uint64_t place)
{
	uint64_t *to = (uint64_t *)(sdr_abi_window(&c->window) + place);
	const uint64_t *from = (const uint64_t *)&w->counters;
	for (uint32_t i = 0; i < sizeof w->counters / 8; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	sdr_abi_window_writeback();
	return 0;
}

uint64_t sdr_control(const struct sdr_command *k)
{
	struct sdr_control *c = (struct sdr_control *)k->control;
	void *object = (void *)k->object;
	const uint64_t *arg = k->arg;
	switch (k->op) {
	case SDR_SIZE: return size_of(k->object);
	case SDR_CONTROL: return new_control(object, arg);
	case SDR_WORKER: return new_worker(c, object, arg);
	case SDR_TABLE: return new_table(object, arg);
	case SDR_ATTACH: return attach(object, arg);
	case SDR_DETACH:
		__atomic_store_n((struct sdr_channel **)object + arg[0], NULL, __ATOMIC_SEQ_CST);
		return 0;
	case SDR_MARK: return new_mark(object, arg);
	case SDR_OPEN: return open_message(object, arg);
	case SDR_CLOSE: return close_message(object);
	case SDR_LENGTH: return set_length(c, object, arg[0]);
	case SDR_REMOVE:
		__atomic_store_n(&((struct sdr_slots *)object)->messages[arg[0]], NULL, __ATOMIC_SEQ_CST);
		return 0;
	case SDR_EPOCHS: return epochs(c, arg[0]);
	case SDR_ACTIVATE:
		for (uint32_t i = 0; i < c->workers; i++)
			sdr_abi_activate(c->worker[i]->thread);
		return 0;
	case SDR_COUNTERS: return counters(c, object, arg[0]);
	}
	return ~0ull;
}
