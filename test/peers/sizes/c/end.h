/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One end of a measurement of messages in flight, for a library that brings the functions declared below:
 *
 *	PROGRAM send|receive LIBRARY-ARGUMENT ADDRESS SIZE INFLIGHT WARM-MS COUNT-MS
 *
 * The receiver prints "ready ADDRESS" and ADDRESS is what the sender is given. Both print a line of JSON in the end and go on
 * making progress until stdin is closed, so that the other end gets its last acknowledgements. Errors go to stderr.
 *
 * The first word of each page of a message says which message and page it is, and what the message is for; the receiver looks at
 * these words of every message, and at every byte of the last ones.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };
enum kind { WARM, COUNTED, LAST };

/* What a library brings. A slot is finished by finished(). */
static void library_open(const char *argument, const char *address, int receiving);
static int library_send(int slot, void *b, size_t n); /* 0: there is no room, make progress first */
static void library_receive(int slot, void *b, size_t n);
static void library_progress(void);
static const char *library_version(void);

static size_t size, stride;
static int inflight, slots;
static char *memory, *done;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void finished(int slot) { done[slot] = 1; }

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

struct usage {
	int64_t user, sys;
};

static struct usage used(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (struct usage){r.ru_utime.tv_sec * 1000000000LL + r.ru_utime.tv_usec * 1000LL,
			      r.ru_stime.tv_sec * 1000000000LL + r.ru_stime.tv_usec * 1000LL};
}

static uint64_t word(enum kind k, uint64_t i, size_t page) { return (uint64_t)k << 62 | i << 18 | page; }

static uint64_t filler(size_t at, int slot) { return (at + 1) * 0x9e3779b97f4a7c15 ^ (uint64_t)slot; }

static void fill(char *b, int slot)
{
	for (size_t at = 0; at + 8 <= size; at += 8) {
		uint64_t w = filler(at, slot);
		memcpy(b + at, &w, 8);
	}
}

static void stamp(char *b, enum kind k, uint64_t i)
{
	for (size_t at = 0; at < size; at += PAGE) {
		uint64_t w = word(k, i, at / PAGE);
		memcpy(b + at, &w, 8);
	}
}

static enum kind check(const char *b, uint64_t i)
{
	uint64_t first;

	memcpy(&first, b, 8);
	for (size_t at = 0; at < size; at += PAGE) {
		uint64_t w;
		memcpy(&w, b + at, 8);
		if (w != word(first >> 62, i, at / PAGE))
			fail("content", "a message is wrong");
	}
	return first >> 62;
}

static void check_whole(const char *b, int slot)
{
	for (size_t at = 0; at + 8 <= size; at += 8) {
		uint64_t w;
		memcpy(&w, b + at, 8);
		if (at % PAGE && w != filler(at, slot))
			fail("content", "a message is wrong");
	}
}

static void report(uint64_t n, int64_t elapsed, struct usage from, struct usage to)
{
	printf("{\"messages\":%llu,\"elapsed_ns\":%lld,\"user_ns\":%lld,\"sys_ns\":%lld,\"version\":\"%s\"}\n", (unsigned long long)n,
	       (long long)elapsed, (long long)(to.user - from.user), (long long)(to.sys - from.sys), library_version());
	fflush(stdout);
	fcntl(0, F_SETFL, O_NONBLOCK);
	for (char b;;) {
		for (int i = 0; i < 1000; i++)
			library_progress();
		if (!read(0, &b, 1))
			exit(0);
	}
}

/* send_for keeps as many messages under way as were asked for, until the time is over and all are done. */
static uint64_t send_for(enum kind k, uint64_t next, int64_t ns)
{
	uint64_t oldest = next;
	int64_t until = now() + ns;

	for (int more = 1; more || oldest < next;) {
		more = more && (k == LAST ? next == oldest : now() < until);
		if (more && next - oldest < (uint64_t)inflight) {
			int slot = next % slots;
			char *b = memory + slot * stride;
			stamp(b, k, next);
			done[slot] = 0;
			if (library_send(slot, b, size)) {
				next++;
				more = k != LAST;
				continue;
			}
		}
		library_progress();
		while (oldest < next && done[oldest % slots])
			oldest++;
	}
	return next;
}

static void sender(int64_t warm, int64_t count)
{
	for (int i = 0; i < slots; i++)
		fill(memory + i * stride, i);
	uint64_t warmed = send_for(WARM, 0, warm);
	struct usage from = used();
	int64_t begun = now();
	uint64_t sent = send_for(COUNTED, warmed, count);
	int64_t elapsed = now() - begun;
	struct usage to = used();

	send_for(LAST, sent, 0);
	report(sent - warmed, elapsed, from, to);
}

/* receiver counts by its own clock, from the first counted message to the last one. */
static void receiver(void)
{
	uint64_t next = 0, counted = 0;
	int64_t first = 0, last = 0;
	struct usage from = {0}, to = {0};

	for (int i = 0; i < slots; i++)
		library_receive(i, memory + i * stride, size);
	for (enum kind k = WARM; k != LAST;) {
		library_progress();
		while (done[next % slots] && k != LAST) {
			int slot = next % slots;
			k = check(memory + slot * stride, next++);
			if (k == COUNTED) {
				last = now();
				if (!counted++) {
					first = last;
					from = used();
				}
			}
			if (k == LAST)
				break;
			done[slot] = 0;
			library_receive(slot, memory + slot * stride, size);
		}
	}
	to = used();
	for (uint64_t i = next < (uint64_t)inflight ? 0 : next - inflight; i < next; i++)
		check_whole(memory + (i % slots) * stride, i % inflight); /* nothing came after it */
	report(counted ? counted - 1 : 0, last - first, from, to);
}

int main(int argc, char **argv)
{
	if (argc != 8)
		fail("arguments", "send|receive LIBRARY-ARGUMENT ADDRESS SIZE INFLIGHT WARM-MS COUNT-MS");
	int receiving = !strcmp(argv[1], "receive");

	size = atoll(argv[4]);
	inflight = atoi(argv[5]);
	stride = (size + PAGE - 1) / PAGE * PAGE;
	slots = receiving ? 2 * inflight : inflight; /* a receive is posted before its message comes */
	if (size < 8 || size % 8 || inflight < 1 || posix_memalign((void **)&memory, PAGE, slots * stride) || !(done = calloc(slots, 1)))
		fail("arguments", "no such sizes");
	memset(memory, 0, slots * stride);
	library_open(argv[2], argv[3], receiving);
	if (receiving)
		receiver();
	else
		sender(atoll(argv[6]) * 1000000, atoll(argv[7]) * 1000000);
}
