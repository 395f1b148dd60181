/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler under qemu-user: the shim of abi.h, and a program that feeds the handler.
 *
 *	qemu feed	reads commands from standard input, answers on standard output (struct command)
 *	qemu race T R P C	T threads share the packets of a message of P packets in chunks of C, R times
 *	qemu count P C S	hands the handler P packets in chunks of C, 64 at a time, for a count of instructions;
 *			with S = 1 each packet comes on another channel than the one before
 */
#include "abi.h"
#include "handler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint32_t armed, stored, flushed, rescheduled;

void sdr_abi_cq_arm(uint32_t cqn, uint32_t ci)
{
	(void)cqn;
	armed = ci;
}

void sdr_abi_host_store(uint8_t *at, uint8_t v)
{
	__atomic_store_n(at, v, __ATOMIC_RELAXED);
	stored++;
}

void sdr_abi_host_flush(void)
{
	flushed = stored;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void sdr_abi_reschedule(void)
{
	rescheduled++;
}

static void die(const char *why)
{
	fprintf(stderr, "qemu: %s\n", why);
	exit(2);
}

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n > 0 ? n : 1, size);
	if (p == NULL)
		die("out of memory");
	return p;
}

static uint32_t be32(uint32_t v)
{
	return __builtin_bswap32(v);
}

/* A queue pair's user index is generation * channels + channel. */
static struct sdr_slots slots;
static uint32_t slot_bits, generations;
static struct sdr_channel **channel_table;

static void set_up(uint32_t s, uint32_t offset_bits, uint32_t fragment_bits, uint32_t channels, uint32_t gens,
		   uint32_t workers)
{
	slot_bits = s;
	generations = gens;
	slots.offset_bits = offset_bits;
	slots.fragment_bits = fragment_bits;
	slots.fragments = fragment_bits > 0 ? 32 / fragment_bits : 0;
	slots.channels = channels;
	slots.messages = zeroed(1u << s, sizeof *slots.messages);
	channel_table = zeroed(channels * gens, sizeof *channel_table);
	for (uint32_t i = 0; i < channels * gens; i++) {
		channel_table[i] = zeroed(1, sizeof **channel_table);
		*channel_table[i] = (struct sdr_channel){&slots, i / channels, i % channels, i % channels % workers};
	}
}

#define BEHIND 16 /* no more than the smallest ring */

static struct sdr_worker *new_worker(uint32_t id, uint32_t log_size)
{
	struct sdr_worker *w = zeroed(1, sizeof *w);
	w->id = id;
	w->log_size = log_size;
	size_t size = sizeof *w->ring * ((1u << log_size) + BEHIND);
	w->ring = aligned_alloc(64, size);
	if (w->ring == NULL)
		die("out of memory");
	/* What is behind the owner bit of an empty ring is anything. */
	memset(w->ring, 0x5a, size);
	for (uint32_t i = 0; i < (1u << log_size) + BEHIND; i++)
		w->ring[i].op_own = SDR_CQE_INVALID << 4 | 1;
	w->cq_record = zeroed(1, 4);
	w->rq_record = zeroed(1, 4);
	w->channels = slots.channels * generations;
	w->channel = channel_table;
	return w;
}

/* Puts a completion into the ring, as the NIC does: the owner bit last. */
static void produce(struct sdr_worker *w, uint32_t pi, const struct sdr_cqe *e)
{
	struct sdr_cqe *at = &w->ring[pi & ((1u << w->log_size) - 1)];
	memcpy(at, e, offsetof(struct sdr_cqe, op_own));
	uint8_t own = (e->op_own & 0xfe) | (pi >> w->log_size & 1);
	__atomic_store_n(&at->op_own, own, __ATOMIC_RELEASE);
	/* Behind the ring lies what a handler that runs past its end would take: other packets, with its owner bit. */
	if (at - w->ring < BEHIND) {
		struct sdr_cqe *decoy = at + ((size_t)1 << w->log_size);
		*decoy = *at;
		decoy->imm ^= be32(1u << slots.fragment_bits);
		decoy->op_own = own ^ 1;
	}
}

static size_t chunks_of(const struct sdr_message *m, uint64_t bytes)
{
	return ((bytes + m->mtu - 1) / m->mtu + m->per_chunk - 1) / m->per_chunk;
}

static struct sdr_message *new_message(uint32_t gen, uint32_t label, uint32_t start, uint64_t bytes, uint32_t mtu,
				       uint32_t per_chunk)
{
	struct sdr_message *m = zeroed(1, sizeof *m);
	size_t packets = (bytes + mtu - 1) / mtu;
	m->gen = gen;
	m->label = label;
	m->start = start;
	sdr_open(m, bytes, mtu, per_chunk);
	m->first = zeroed((packets + 63) / 64, 8);
	m->repair = zeroed((packets + 63) / 64, 8);
	m->chunks = zeroed((chunks_of(m, bytes) + 63) / 64, 8);
	m->host = zeroed(chunks_of(m, bytes), 1);
	m->marks = aligned_alloc(64, slots.channels * sizeof *m->marks);
	if (m->marks == NULL)
		die("out of memory");
	memset(m->marks, 0, slots.channels * sizeof *m->marks);
	return m;
}

static void free_message(struct sdr_message *m)
{
	if (m == NULL)
		return;
	free(m->first);
	free(m->repair);
	free(m->chunks);
	free(m->host);
	free(m->marks);
	free(m);
}

/* What the feeding test asks for; device_test.go writes the same. */
enum { SETUP = 1, OPEN, CLOSE, DROP, LENGTH, BATCH, STATE, COUNTERS };
struct command {
	uint32_t op, a, b, c, d, e, f, g;
};

static void get(void *p, size_t n)
{
	if (fread(p, 1, n, stdin) != n)
		die("input ends in the middle");
}

static void put(const void *p, size_t n)
{
	if (fwrite(p, 1, n, stdout) != n)
		die("output");
}

/* A batch: a is how many completions follow, b how many the handler may take. */
static void batch(struct sdr_worker *w, uint32_t *pi, const struct command *k)
{
	struct sdr_cqe e;
	for (uint32_t i = 0; i < k->a; i++) {
		get(&e, sizeof e);
		produce(w, (*pi)++, &e);
	}
	rescheduled = 0;
	sdr_activate(w, k->b);
	uint32_t says[] = {w->ci,		   be32(*w->cq_record), be32(*w->rq_record), armed,
			   (uint32_t)w->epoch, rescheduled,	 stored - flushed,	0};
	put(says, sizeof says);
}

static void state(const struct sdr_message *m, uint64_t bytes)
{
	size_t words = (((bytes + m->mtu - 1) / m->mtu) + 63) / 64, chunks = chunks_of(m, bytes);
	put(m->first, words * 8);
	put(m->repair, words * 8);
	put(m->chunks, (chunks + 63) / 64 * 8);
	put(m->host, chunks);
	put(&m->frags, 8);
	put(&m->done, 8);
	for (uint32_t i = 0; i < slots.channels; i++)
		put(&m->marks[i].v, 8);
}

static int feed(void)
{
	struct command k;
	struct sdr_worker *w = NULL;
	uint32_t pi = 0;
	while (fread(&k, sizeof k, 1, stdin) == 1) {
		struct sdr_message **slot = slots.messages != NULL ? &slots.messages[k.a & ((1u << slot_bits) - 1)] : NULL;
		switch (k.op) {
		case SETUP: /* slot, offset, fragment bits; channels, generations, ring, first completion */
			set_up(k.a, k.b, k.c, k.d, k.e, 2);
			w = new_worker(0, k.f);
			w->ci = pi = k.g;
			for (uint32_t i = 0; i < 1u << k.f; i++)
				w->ring[i].op_own = SDR_CQE_INVALID << 4 | ((pi >> k.f & 1) ^ 1);
			break;
		case OPEN: /* slot, generation, label, start, bytes, mtu, packets per chunk */
			free_message(*slot);
			*slot = new_message(k.b, k.c, k.d, k.e, k.f, k.g);
			break;
		case CLOSE:
			__atomic_store_n(&(*slot)->closed, 1, __ATOMIC_SEQ_CST);
			break;
		case DROP:
			free_message(*slot);
			*slot = NULL;
			break;
		case LENGTH:
			sdr_set_length(*slot, k.b);
			break;
		case BATCH:
			batch(w, &pi, &k);
			break;
		case STATE: /* slot, bytes when it was opened */
			state(*slot, k.b);
			break;
		case COUNTERS:
			put(&w->counters, sizeof w->counters);
			break;
		default:
			die("unknown command");
		}
		if (k.op >= BATCH)
			fflush(stdout);
	}
	return 0;
}

/* A barrier that spins: threads leave it within the time in which they race. */
static uint32_t waiting, turn;

static void barrier(uint32_t threads)
{
	uint32_t now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE);
	if (__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST) == threads) {
		__atomic_store_n(&waiting, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&turn, now + 1, __ATOMIC_RELEASE);
		return;
	}
	for (uint32_t spins = 0; __atomic_load_n(&turn, __ATOMIC_ACQUIRE) == now; spins++) {
		if (spins % 64 == 63)
			sched_yield();
	}
}

static struct {
	uint32_t threads, rounds, packets, per_chunk;
	struct sdr_message *m;
	uint64_t chunks, counted, lost, twice, dup;
} race;

#define RACE_MTU 1024

static void packet(struct sdr_cqe *e, uint32_t user, uint32_t offset, uint32_t len)
{
	memset(e, 0, sizeof *e);
	e->user = be32(user);
	e->imm = be32(offset << slots.fragment_bits);
	e->byte_cnt = be32(len);
	e->op_own = SDR_CQE_WRITE_IMM << 4;
}

static void judge(void)
{
	struct sdr_message *m = race.m;
	uint64_t chunks = chunks_of(m, (uint64_t)race.packets * RACE_MTU);
	race.chunks += chunks;
	race.counted += m->done;
	for (uint64_t c = 0; c < chunks; c++)
		race.lost += m->host[c] == 0 || (m->chunks[c / 64] >> c % 64 & 1) == 0;
	race.twice += m->done > chunks;
}

static void renew(uint32_t round)
{
	free_message(race.m);
	race.m = new_message(0, 1, round % slots.channels, (uint64_t)race.packets * RACE_MTU, RACE_MTU, race.per_chunk);
	__atomic_store_n(&slots.messages[0], race.m, __ATOMIC_RELEASE);
}

static void *race_thread(void *arg)
{
	struct sdr_worker *w = arg;
	uint32_t pi = 0;
	struct sdr_cqe e;
	for (uint32_t round = 0; round < race.rounds; round++) {
		if (w->id == 0)
			renew(round);
		/* Packets by turns, so that every word and chunk is written by every thread. */
		for (uint32_t p = w->id; p < race.packets; p += race.threads) {
			packet(&e, w->id, p, RACE_MTU);
			produce(w, pi++, &e);
		}
		barrier(race.threads);
		while (sdr_handle(w, 1 + round % 7) > 0)
			;
		barrier(race.threads);
		if (w->id == 0)
			judge();
		barrier(race.threads);
	}
	return NULL;
}

static int run_race(void)
{
	pthread_t t[64];
	struct sdr_worker *w[64];
	uint64_t packets = 0;
	if (race.threads < 1 || race.threads > 64 || race.packets > 1u << 14)
		die("1 to 64 threads, at most 16384 packets");
	set_up(10, 18, 4, race.threads, 1, race.threads);
	for (uint32_t i = 0; i < race.threads; i++)
		w[i] = new_worker(i, 14);
	for (uint32_t i = 0; i < race.threads; i++) {
		if (pthread_create(&t[i], NULL, race_thread, w[i]) != 0)
			die("thread");
	}
	for (uint32_t i = 0; i < race.threads; i++) {
		pthread_join(t[i], NULL);
		packets += w[i]->counters.packets;
		race.dup += w[i]->counters.duplicates;
	}
	printf("packets %lu duplicates %lu chunks %lu counted %lu lost %lu twice %lu\n", packets, race.dup, race.chunks,
	       race.counted, race.lost, race.twice);
	return 0;
}

/* Channel by channel, word by word: the order in which a sender sends and one queue pair's CQ reports. */
static int run_count(uint32_t n, uint32_t per_chunk, uint32_t spread)
{
	struct sdr_cqe e;
	set_up(10, 18, 4, 4, 1, 1);
	struct sdr_worker *w = new_worker(0, 10);
	slots.messages[0] = new_message(0, 1, 0, (uint64_t)n * 4096, 4096, per_chunk);
	for (uint32_t p = 0, pi = 0; p < n;) {
		for (uint32_t i = 0; i < 64 && p < n; i++, p++) {
			packet(&e, spread ? p % 4 : p / 64 % 4, p, 4096);
			produce(w, pi++, &e);
		}
		sdr_handle(w, 64);
	}
	printf("packets %lu chunks %lu\n", w->counters.packets, slots.messages[0]->done);
	return 0;
}

static uint32_t number(const char *s)
{
	char *end;
	errno = 0;
	unsigned long v = strtoul(s, &end, 10);
	if (errno != 0 || *end != 0 || v > 1u << 30)
		die("bad number");
	return v;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "feed") == 0)
		return feed();
	if (argc == 6 && strcmp(argv[1], "race") == 0) {
		race.threads = number(argv[2]);
		race.rounds = number(argv[3]);
		race.packets = number(argv[4]);
		race.per_chunk = number(argv[5]);
		return run_race();
	}
	if (argc == 5 && strcmp(argv[1], "count") == 0)
		return run_count(number(argv[2]), number(argv[3]), number(argv[4]));
	die("usage: qemu feed | race THREADS ROUNDS PACKETS CHUNK | count PACKETS CHUNK SPREAD");
}
