/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler under qemu-user: the shim of abi.h, and a program that feeds the handler.
 *
 *	qemu feed	reads commands from standard input, answers on standard output (struct command)
 *	qemu race T R P C L	T threads share the packets of a message of P packets in chunks of C, R times; with L = 1
 *			the message is half its buffer, and another thread sets its length meanwhile
 *	qemu count P C R A B	hands the handler P packets in chunks of C, B at a time, for a count of instructions;
 *			after each R packets comes another of 4 channels, whose user indices are A apart
 *	qemu open P C	opens and closes a message of P packets in chunks of C, likewise
 */
#include "abi.h"
#include "control.h"
#include "handler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The window: a line for each worker's status, then regions for messages. A region begins with the lines of
 * its channels' marks.
 */
#define MAX_WORKERS 64
#define MAX_REGIONS 8
#define MARKS_SIZE (64 * 64)
#define REGION_SIZE (256u << 10)

static struct {
	struct sdr_status status[MAX_WORKERS];
	struct region {
		uint8_t marks[MARKS_SIZE];
		uint8_t words[REGION_SIZE - MARKS_SIZE];
	} region[MAX_REGIONS];
} arena __attribute__((aligned(64))), written_back;

static struct {
	bool used;
	size_t bytes; /* of words */
} regions[MAX_REGIONS];

static bool checking;	    /* one thread only: whether what is stored is written back in order */
static uint32_t disordered; /* write-backs that had more than one kind of word */
static _Thread_local uint32_t armed, rescheduled;

uint8_t *sdr_abi_window(const struct sdr_window *w)
{
	(void)w;
	return (uint8_t *)&arena;
}

/* Whether n bytes have changed since they were written back, which they are now. */
static bool changed(const void *now, void *before, size_t n)
{
	if (memcmp(now, before, n) == 0)
		return false;
	memcpy(before, now, n);
	return true;
}

/* What the host sees after a write-back must be of one kind: words of messages, marks, or a worker's status. */
static bool in_order(void)
{
	bool words = false, marks = false, status = changed(arena.status, written_back.status, sizeof arena.status);
	for (int i = 0; i < MAX_REGIONS; i++) {
		if (!regions[i].used)
			continue;
		words |= changed(arena.region[i].words, written_back.region[i].words, regions[i].bytes);
		marks |= changed(arena.region[i].marks, written_back.region[i].marks, MARKS_SIZE);
	}
	return words + marks + status <= 1;
}

void sdr_abi_window_writeback(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (checking && !in_order())
		disordered++;
}

void sdr_abi_cq_arm(uint32_t cqn, uint32_t ci)
{
	(void)cqn;
	armed = ci;
}

void sdr_abi_activate(uint32_t thread)
{
	(void)thread;
}

void sdr_abi_reschedule(void)
{
	rescheduled++;
}

static _Noreturn void die(const char *why)
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
static uint32_t slot_bits, generations, workers;
static struct sdr_channel **channel_table;

static void set_up(uint32_t s, uint32_t offset_bits, uint32_t fragment_bits, uint32_t channels, uint32_t gens,
		   uint32_t threads)
{
	slot_bits = s;
	workers = threads;
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
	w->status = (uint8_t *)&arena.status[id] - (uint8_t *)&arena;
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

static size_t packets_of(uint64_t bytes, uint32_t mtu)
{
	return (bytes + mtu - 1) / mtu;
}

static size_t chunks_of(const struct sdr_message *m, uint64_t bytes)
{
	return (packets_of(bytes, m->mtu) + m->per_chunk - 1) / m->per_chunk;
}

/* Words of chunk bits. */
static size_t chunk_words(const struct sdr_message *m, uint64_t bytes)
{
	return (chunks_of(m, bytes) + 63) / 64;
}

static uint32_t region_of(const struct sdr_message *m)
{
	return (m->host - ((uint8_t *)arena.region - (uint8_t *)&arena)) / REGION_SIZE;
}

/* Word i of what writer t has reported of a message. */
static uint64_t reported(const struct sdr_message *m, uint32_t t, size_t i)
{
	return __atomic_load_n((uint64_t *)((uint8_t *)&arena + m->host + t * m->stride) + i, __ATOMIC_RELAXED);
}

static uint64_t mark_word(const struct sdr_message *m, uint32_t channel)
{
	return *(uint64_t *)((uint8_t *)&arena + m->marks[channel].host);
}

static uint32_t take_region(size_t bytes)
{
	for (uint32_t i = 0; i < MAX_REGIONS; i++) {
		if (!regions[i].used && bytes <= sizeof arena.region[i].words && slots.channels <= MARKS_SIZE / 64) {
			regions[i].used = true;
			regions[i].bytes = bytes;
			memset(&arena.region[i], 0, MARKS_SIZE + bytes);
			memset(&written_back.region[i], 0, MARKS_SIZE + bytes);
			return i;
		}
	}
	die("out of window");
}

static struct sdr_message *new_message(uint32_t gen, uint32_t label, uint32_t start, uint64_t bytes, uint32_t mtu,
				       uint32_t per_chunk, uint32_t unit, uint32_t shorter)
{
	struct sdr_message *m = zeroed(1, sizeof *m);
	size_t words = (packets_of(bytes, mtu) + 63) / 64;
	m->gen = gen;
	m->label = label;
	m->start = start;
	m->unit = unit;
	m->shorter = shorter;
	sdr_open(m, bytes, mtu, per_chunk);
	m->first = zeroed(words, 8);
	m->repair = zeroed(words, 8);
	m->chunks = zeroed(chunk_words(m, bytes), 8);
	m->stride = ((SDR_REPORT_CHUNKS + chunk_words(m, bytes)) * 8 + 63) / 64 * 64;
	uint32_t r = take_region(m->stride * (workers + 1));
	m->host = arena.region[r].words - (uint8_t *)&arena;
	m->marks = aligned_alloc(64, slots.channels * sizeof *m->marks);
	if (m->marks == NULL)
		die("out of memory");
	memset(m->marks, 0, slots.channels * sizeof *m->marks);
	for (uint32_t i = 0; i < slots.channels; i++)
		m->marks[i].host = arena.region[r].marks + 64 * i - (uint8_t *)&arena;
	return m;
}

static void free_message(struct sdr_message *m)
{
	if (m == NULL)
		return;
	regions[region_of(m)].used = false;
	free(m->first);
	free(m->repair);
	free(m->chunks);
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
	w->budget = k->b;
	sdr_activate(w);
	const struct sdr_status *status = &arena.status[w->id];
	uint32_t says[] = {w->ci,	     be32(*w->cq_record), be32(*w->rq_record), armed,
			   (uint32_t)status->epoch, (uint32_t)status->emptied, rescheduled, disordered};
	put(says, sizeof says);
}

/* Packet and chunk bits, then what each writer has reported, then the marks that the host sees. */
static void state(const struct sdr_message *m, uint64_t bytes)
{
	size_t words = (packets_of(bytes, m->mtu) + 63) / 64, chunks = chunk_words(m, bytes);
	put(m->first, words * 8);
	put(m->repair, words * 8);
	put(m->chunks, chunks * 8);
	for (uint32_t t = 0; t <= workers; t++) {
		for (size_t i = 0; i < SDR_REPORT_CHUNKS + chunks; i++) {
			uint64_t v = reported(m, t, i);
			put(&v, 8);
		}
	}
	for (uint32_t i = 0; i < slots.channels; i++) {
		uint64_t v = mark_word(m, i);
		put(&v, 8);
	}
}

static int feed(void)
{
	struct command k;
	struct sdr_worker *w = NULL;
	uint32_t pi = 0;
	checking = true;
	while (fread(&k, sizeof k, 1, stdin) == 1) {
		struct sdr_message **slot = slots.messages != NULL ? &slots.messages[k.a & ((1u << slot_bits) - 1)] : NULL;
		switch (k.op) {
		case SETUP: /* slot, offset, fragment bits; channels, generations, ring, first completion */
			set_up(k.a, k.b, k.c, k.d, k.e, 2);
			w = new_worker(1, k.f); /* of two, so that places that depend on the number are not the first */
			w->ci = pi = k.g;
			for (uint32_t i = 0; i < 1u << k.f; i++)
				w->ring[i].op_own = SDR_CQE_INVALID << 4 | ((pi >> k.f & 1) ^ 1);
			break;
		case OPEN: /* slot, generation, label, start, bytes, MTU with packets of a unit in its high half, packets per chunk */
			free_message(*slot);
			*slot = new_message(k.b, k.c, k.d, k.e, k.f & 0xffff, k.g & 0xffff, k.f >> 16, k.g >> 16);
			break;
		case CLOSE:
			__atomic_store_n(&(*slot)->closed, 1, __ATOMIC_SEQ_CST);
			break;
		case DROP:
			free_message(*slot);
			*slot = NULL;
			break;
		case LENGTH:
			sdr_set_length(*slot, (uint8_t *)&arena, workers, k.b);
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
	uint32_t threads, rounds, packets, per_chunk, late;
	struct sdr_message *m;
	uint64_t chunks, lost, dup;
} race;

#define RACE_MTU 1024
#define RACE_LAST 1000 /* bytes of the last packet */

static uint64_t race_length(void)
{
	return (uint64_t)(race.packets - 1) * RACE_MTU + RACE_LAST;
}

static void packet(struct sdr_cqe *e, uint32_t user, uint32_t offset, uint32_t len)
{
	memset(e, 0, sizeof *e);
	e->user = be32(user);
	e->imm = be32(offset << slots.fragment_bits);
	e->byte_cnt = be32(len);
	e->op_own = SDR_CQE_WRITE_IMM << 4;
}

/* Every chunk is set, and has been reported to the host. */
static void judge(void)
{
	struct sdr_message *m = race.m;
	uint64_t chunks = chunks_of(m, race_length());
	race.chunks += chunks;
	for (uint64_t c = 0; c < chunks; c++) {
		uint64_t host = 0;
		for (uint32_t t = 0; t <= workers; t++)
			host |= reported(m, t, SDR_REPORT_CHUNKS + c / 64);
		race.lost += (host & m->chunks[c / 64] & 1ull << (c % 64)) == 0;
	}
}

static void renew(uint32_t round)
{
	free_message(race.m);
	race.m = new_message(0, 1, round % slots.channels, race_length() << race.late, RACE_MTU, race.per_chunk, 0, 0);
	__atomic_store_n(&slots.messages[0], race.m, __ATOMIC_RELEASE);
}

/* All who take part in a round. */
static void race_barrier(void)
{
	barrier(race.threads + race.late);
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
			packet(&e, w->id, p, p == race.packets - 1 ? RACE_LAST : RACE_MTU);
			produce(w, pi++, &e);
		}
		race_barrier();
		while (sdr_handle(w, 1 + round % 7) > 0)
			;
		race_barrier();
		if (w->id == 0)
			judge();
		race_barrier();
	}
	return NULL;
}

/* Tells the message's length while its packets are handled. */
static void *race_host(void *arg)
{
	(void)arg;
	for (uint32_t round = 0; round < race.rounds; round++) {
		race_barrier();
		for (volatile uint32_t i = 0; i < round % 64 * 16; i++)
			;
		sdr_set_length(race.m, (uint8_t *)&arena, workers, race_length());
		race_barrier();
		race_barrier();
	}
	return NULL;
}

static int run_race(void)
{
	pthread_t t[MAX_WORKERS], host;
	struct sdr_worker *w[MAX_WORKERS];
	uint64_t packets = 0;
	if (race.threads < 1 || race.threads >= MAX_WORKERS || race.packets > 1u << 14)
		die("1 to 63 threads, at most 16384 packets");
	set_up(10, 18, 4, race.threads, 1, race.threads);
	for (uint32_t i = 0; i < race.threads; i++)
		w[i] = new_worker(i, 14);
	for (uint32_t i = 0; i < race.threads; i++) {
		if (pthread_create(&t[i], NULL, race_thread, w[i]) != 0)
			die("thread");
	}
	if (race.late && pthread_create(&host, NULL, race_host, NULL) != 0)
		die("thread");
	if (race.late)
		pthread_join(host, NULL);
	for (uint32_t i = 0; i < race.threads; i++) {
		pthread_join(t[i], NULL);
		packets += w[i]->counters.packets + w[i]->counters.aside;
		race.dup += w[i]->counters.duplicates;
	}
	printf("packets %lu duplicates %lu chunks %lu lost %lu\n", packets, race.dup, race.chunks, race.lost);
	return 0;
}

/*
 * Hands the handler n packets, per_batch at a time. Each run of so many of them comes on another channel than
 * the one before, apart by channels as user indices go.
 */
static int run_count(uint32_t n, uint32_t per_chunk, uint32_t run, uint32_t apart, uint32_t per_batch)
{
	struct sdr_cqe e;
	set_up(10, 18, 4, 4 * apart, 1, 1);
	struct sdr_worker *w = new_worker(0, 10);
	slots.messages[0] = new_message(0, 1, 0, (uint64_t)n * 4096, 4096, per_chunk, 0, 0);
	for (uint32_t p = 0, pi = 0; p < n;) {
		for (uint32_t i = 0; i < per_batch && p < n; i++, p++) {
			packet(&e, p / run % 4 * apart, p, 4096);
			produce(w, pi++, &e);
		}
		sdr_handle(w, per_batch);
	}
	uint64_t chunks = 0;
	for (size_t i = 0; i < chunk_words(slots.messages[0], (uint64_t)n * 4096); i++)
		chunks += __builtin_popcountll(reported(slots.messages[0], 0, SDR_REPORT_CHUNKS + i));
	printf("packets %lu chunks %lu\n", w->counters.packets, chunks);
	return 0;
}

/* Opens and closes a message of n packets, as the host has it done. */
static int run_open(uint32_t n, uint32_t per_chunk)
{
	static uint64_t object[64], messages[1 << 10], maps[1 << 14];
	set_up(10, 18, 4, 4, 1, 1);
	slots.messages = (struct sdr_message **)messages;
	struct sdr_command open = {.op = SDR_OPEN, .object = (uint64_t)object,
				   .arg = {(uint64_t)&slots, 7, 0, 0, 0, (uint64_t)n * 4096, 4096, per_chunk, (uint64_t)maps,
					   2 * ((n + 63) / 64) + ((n + per_chunk - 1) / per_chunk + 63) / 64}};
	struct sdr_command close = {.op = SDR_CLOSE, .object = (uint64_t)object};
	if (open.arg[9] > sizeof maps / 8 || sdr_control(&open) != 0 || sdr_control(&close) != 0)
		die("command");
	printf("open %d closed %u\n", messages[7] == (uint64_t)object, slots.messages[7]->closed);
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
	if (argc == 7 && strcmp(argv[1], "race") == 0) {
		race.threads = number(argv[2]);
		race.rounds = number(argv[3]);
		race.packets = number(argv[4]);
		race.per_chunk = number(argv[5]);
		race.late = number(argv[6]) != 0;
		return run_race();
	}
	if (argc == 7 && strcmp(argv[1], "count") == 0)
		return run_count(number(argv[2]), number(argv[3]), number(argv[4]), number(argv[5]), number(argv[6]));
	if (argc == 4 && strcmp(argv[1], "open") == 0)
		return run_open(number(argv[2]), number(argv[3]));
	die("usage: qemu feed | race THREADS ROUNDS PACKETS CHUNK LATE | count PACKETS CHUNK RUN APART BATCH | open PACKETS CHUNK");
}
