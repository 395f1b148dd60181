/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host asks of the handler: one call for each command, by one host thread at a time.
 * Addresses are the device's, but for places in the window, which are counted from its start.
 * The memory of all objects is the host's to allocate, of the size that SDR_SIZE says, and to
 * free when the device can't use it any more: docs/dpa.md has the life of each.
 */
#ifndef SDR_CONTROL_H
#define SDR_CONTROL_H

#include <stdint.h>

enum sdr_op {
	/* Bytes of the object kind (enum sdr_kind); the answer is the result. */
	SDR_SIZE = 1,
	/* Control: window id, mkey, address (struct sdr_window). */
	SDR_CONTROL,
	/*
	 * Worker: number, cqn, ring, log2 of its size, cq record, rq record or 0, thread, budget,
	 * table of channels, its length, place of its status in the window. Workers are made in the order of their numbers. */
	SDR_WORKER,
	/* Table of messages: offset bits, fragment bits, channels, pointers to messages. */
	SDR_TABLE,
	/* Channel: table of channels, user index, table of messages, generation, index, home worker. */
	SDR_ATTACH,
	/* Table of channels: user index. What it stood for is unknown from here on. */
	SDR_DETACH,
	/* Mark: its line in the window, the count so far. */
	SDR_MARK,
	/* Message: table of messages, slot, generation, label, home of word 0, bytes, MTU, packets of a chunk,
	 * bitmaps, their words, its regions in the window, their stride, marks, packets of a unit or 0, whether any
	 * packet may be short. */
	SDR_OPEN,
	/* Message: closes it. */
	SDR_CLOSE,
	/* Message: bytes. */
	SDR_LENGTH,
	/* Table of messages: slot, which is empty from here on. */
	SDR_REMOVE,
	/* Workers' epochs: a place in the window where they are stored, 8 bytes each. */
	SDR_EPOCHS,
	/* All workers run, as if an event had come. */
	SDR_ACTIVATE,
	/* Worker: a place in the window where its counters are stored, in the order of sdr_counters. */
	SDR_COUNTERS,
};

enum sdr_kind { SDR_KIND_CONTROL, SDR_KIND_WORKER, SDR_KIND_TABLE, SDR_KIND_CHANNEL, SDR_KIND_MARK, SDR_KIND_MESSAGE };

enum { SDR_MAX_WORKERS = 64, SDR_ARGS = 15 };

/* A command: what the comment above names first is object, the rest are arguments in their order. */
struct sdr_command {
	uint32_t op, reserved;
	uint64_t control; /* the struct sdr_control; not for SDR_SIZE */
	uint64_t object;
	uint64_t arg[SDR_ARGS];
};

/* What commands need of the whole. */
struct sdr_control;

/* Does a command and returns its answer, 0 where none is named, ~0 for one that it doesn't know. */
uint64_t sdr_control(const struct sdr_command *c);

#endif
