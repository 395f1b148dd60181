/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler under qemu-user as a process of a DPA: its memory, its threads and its completion queues, for a fake of
 * FlexIO's host library (testdata/fakeflexio.c). Requests come on file descriptor 3, and each has an answer.
 */
#define _GNU_SOURCE
#include "process.h"

#include "control.h"
#include "handler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Noreturn void die(const char *why)
{
	fprintf(stderr, "process: %s\n", why);
	_exit(2);
}

enum { MAX_THREADS = 64, MAX_CQS = 64, MAX_REGIONS = 64 };

/* An event handler: a thread that runs when it is triggered. */
static struct thread {
	pthread_t pthread;
	uint64_t arg;
	bool triggered, ending;
} threads[MAX_THREADS];

/* A completion queue that the NIC, which is whoever asks for PROCESS_COMPLETE, writes. */
static struct cq {
	struct sdr_cqe *ring;
	uint32_t *record, log_size, thread, pi;
	uint32_t armed_at; /* an event is due for a completion beyond it */
	bool armed;
} cqs[MAX_CQS];

/* Memory of the host that is registered. */
static struct region {
	uint32_t mkey;
	uint64_t address, length;
	uint8_t *mapped;
} regions[MAX_REGIONS];

static uint32_t num_threads, num_cqs, num_regions, windows;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all above */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

uint8_t *sdr_abi_window(const struct sdr_window *w)
{
	uint8_t *at = NULL;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < num_regions; i++) {
		const struct region *r = &regions[i];
		if (r->mkey == w->mkey && w->address >= r->address && w->address - r->address < r->length)
			at = r->mapped + (w->address - r->address);
	}
	if (w->id >= windows)
		at = NULL;
	pthread_mutex_unlock(&lock);
	if (at == NULL)
		die("no such window or memory key");
	return at;
}

void sdr_abi_window_writeback(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Triggers a thread; lock is held. */
static void trigger(uint32_t thread)
{
	if (thread >= num_threads)
		die("no such thread");
	threads[thread].triggered = true;
	pthread_cond_broadcast(&changed);
}

/* Triggers a queue's thread if it is armed and there is something beyond; lock is held. */
static void notify(struct cq *q)
{
	if (q->armed && (int32_t)(q->pi - q->armed_at) > 0) {
		q->armed = false;
		trigger(q->thread);
	}
}

void sdr_abi_cq_arm(uint32_t cqn, uint32_t ci)
{
	pthread_mutex_lock(&lock);
	if (cqn >= num_cqs)
		die("no such completion queue");
	cqs[cqn].armed = true;
	cqs[cqn].armed_at = ci;
	notify(&cqs[cqn]);
	pthread_mutex_unlock(&lock);
}

void sdr_abi_activate(uint32_t thread)
{
	pthread_mutex_lock(&lock);
	trigger(thread);
	pthread_mutex_unlock(&lock);
}

void sdr_abi_reschedule(void)
{
}

/* The functions that the host names. */
static void sdr_event(uint64_t worker)
{
	sdr_activate((struct sdr_worker *)worker);
}

static uint64_t sdr_rpc(uint64_t command)
{
	return sdr_control((const struct sdr_command *)command);
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;
	pthread_mutex_lock(&lock);
	while (!t->ending) {
		if (!t->triggered) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		t->triggered = false;
		pthread_mutex_unlock(&lock);
		sdr_event(t->arg);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void get(void *p, size_t n)
{
	for (uint8_t *at = p; n > 0;) {
		ssize_t k = read(PROCESS_FD, at, n);
		if (k == 0)
			_exit(0); /* the host has gone */
		if (k < 0 && errno != EINTR)
			die("read");
		if (k > 0) {
			at += k;
			n -= k;
		}
	}
}

static void answer(uint64_t v)
{
	if (write(PROCESS_FD, &v, sizeof v) != sizeof v)
		die("write");
}

static uint64_t named(const char *name)
{
	if (strcmp(name, "sdr_event") == 0)
		return PROCESS_EVENT;
	return strcmp(name, "sdr_rpc") == 0 ? PROCESS_RPC : 0;
}

/* Maps memory that the host has registered; it is a file descriptor of the host's process. */
static uint64_t register_region(const uint64_t *arg)
{
	char path[64];
	if (num_regions == MAX_REGIONS)
		die("too many regions");
	struct region *r = &regions[num_regions];
	snprintf(path, sizeof path, "/proc/%lu/fd/%lu", arg[0], arg[1]);
	int fd = open(path, O_RDWR);
	if (fd < 0)
		die("open the host's memory");
	*r = (struct region){.mkey = arg[2], .address = arg[3], .length = arg[4]};
	r->mapped = mmap(NULL, arg[4], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->mapped == MAP_FAILED)
		die("map the host's memory");
	close(fd);
	num_regions++;
	return 1;
}

static uint64_t new_cq(const uint64_t *arg)
{
	if (num_cqs == MAX_CQS)
		die("too many completion queues");
	cqs[num_cqs] = (struct cq){.ring = (struct sdr_cqe *)arg[0], .record = (uint32_t *)arg[1], .log_size = arg[2], .thread = arg[3]};
	/* Nobody polls it before it has an event. */
	cqs[num_cqs].armed = true;
	return num_cqs++;
}

static uint64_t run(uint32_t i, uint64_t arg)
{
	struct thread *t = &threads[i];
	if (i >= num_threads || t->pthread != 0)
		die("no such thread, or it runs");
	t->arg = arg;
	if (pthread_create(&t->pthread, NULL, run_thread, t) != 0)
		die("thread");
	return 1;
}

/* A NIC writes a completion, or finds no room. */
static uint64_t complete(uint32_t cqn, const struct sdr_cqe *e)
{
	if (cqn >= num_cqs)
		die("no such completion queue");
	struct cq *q = &cqs[cqn];
	uint32_t ci = __builtin_bswap32(__atomic_load_n(q->record, __ATOMIC_ACQUIRE));
	if (((q->pi - ci) & 0xffffff) >= 1u << q->log_size)
		return 0;
	struct sdr_cqe *at = &q->ring[q->pi & ((1u << q->log_size) - 1)];
	memcpy(at, e, offsetof(struct sdr_cqe, op_own));
	__atomic_store_n(&at->op_own, (e->op_own & 0xfe) | (q->pi >> q->log_size & 1), __ATOMIC_RELEASE);
	q->pi++;
	notify(q);
	return 1;
}

static uint64_t serve(const struct process_request *r, void *payload)
{
	uint64_t v = 0;
	switch (r->op) {
	case PROCESS_ALLOC: return (uint64_t)aligned_alloc(64, (r->arg[0] + 63) / 64 * 64);
	case PROCESS_FREE: free((void *)r->arg[0]); return 1;
	case PROCESS_WRITE: memcpy((void *)r->arg[0], payload, r->size); return 1;
	case PROCESS_NAMED: return named(payload);
	case PROCESS_CALL: return r->arg[0] == PROCESS_RPC ? sdr_rpc(r->arg[1]) : ~0ull;
	}
	pthread_mutex_lock(&lock);
	switch (r->op) {
	case PROCESS_REGISTER: v = register_region(r->arg); break;
	case PROCESS_WINDOW: v = windows++; break;
	case PROCESS_THREAD:
		if (r->arg[0] != PROCESS_EVENT || num_threads == MAX_THREADS)
			die("no such event handler, or too many");
		v = num_threads++;
		break;
	case PROCESS_RUN: v = run(r->arg[0], r->arg[1]); break;
	case PROCESS_CQ: v = new_cq(r->arg); break;
	case PROCESS_COMPLETE: v = complete(r->arg[0], payload); break;
	default: die("unknown request");
	}
	pthread_mutex_unlock(&lock);
	return v;
}

int main(void)
{
	static uint8_t payload[PROCESS_PAYLOAD + 1];
	for (struct process_request r;;) {
		get(&r, sizeof r);
		if (r.size > PROCESS_PAYLOAD)
			die("request too long");
		get(payload, r.size);
		payload[r.size] = 0;
		answer(serve(&r, payload));
	}
}
