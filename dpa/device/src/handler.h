/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the receive handler. It is that of package dpa, in the form of a device: words
 * that several threads use are marked shared, and are accessed with atomics only. Everything
 * else in a worker has one user, everything else in a message is constant while it is open.
 */
#ifndef SDR_HANDLER_H
#define SDR_HANDLER_H

#include <stddef.h>
#include <stdint.h>

/* A completion of mlx5, 64 bytes, big endian (rdma-core, providers/mlx5/mlx5dv.h, mlx5_cqe64). */
struct sdr_cqe {
	uint8_t reserved0[32];
	uint32_t user; /* the queue pair's user index, in the low 24 bits */
	uint32_t imm;
	uint32_t reserved40;
	uint32_t byte_cnt;
	uint64_t timestamp;
	uint32_t qpn;
	uint16_t wqe_counter;
	uint8_t signature;
	uint8_t op_own; /* opcode 4 bits, format 2, solicited 1, owner 1 */
};

enum {
	SDR_CQE_WRITE_IMM = 1, /* a responder's: RDMA write with immediate */
	SDR_CQE_INVALID = 15,  /* nothing was ever written here */
};

/* How far a channel has got with the messages of a transfer; a line of its own, one writer. */
struct sdr_mark {
	uint64_t v; /* shared: valid 1, marker 1, label 16, offset 30, count 16 */
	uint32_t count;
	uint8_t pad[52];
};

#define SDR_NO_PACKET (~(uint64_t)0)

struct sdr_message {
	uint32_t gen, label, start; /* start is the home channel of word 0 */
	uint32_t mtu;		    /* bytes */
	uint32_t per_chunk;	    /* packets */
	uint8_t shift;		    /* log2(per_chunk) where chunks lie within a word, or SDR_ACROSS */
	uint64_t heads;		    /* the first packet of each chunk that lies within a word */
	uint64_t *first, *repair;   /* shared: packet bits; a word of first has one writer */
	uint64_t *chunks;	    /* shared */
	uint8_t *host;		    /* a byte for each chunk, in the host's memory */
	struct sdr_mark *marks;	    /* one for each channel */
	uint32_t closed;	    /* shared */
	uint32_t known;		    /* whether the length is that of the message, not of the buffer */
	uint64_t last;		    /* index of the last packet, length in the low half; or SDR_NO_PACKET */
	uint64_t aside;		    /* shared: a short packet that came before the length, as last */
	uint64_t frags;		    /* shared: user immediate below, which fragments are in above */
	uint64_t done;		    /* shared: how many bits of chunks are set */
};

#define SDR_ACROSS 0xff

/* The message table of one sdr QP, and how its immediates are divided (docs/wire.md). */
struct sdr_slots {
	uint8_t offset_bits, fragment_bits;
	uint16_t fragments; /* packets that carry the user immediate: 32 / fragment_bits or 0 */
	uint32_t channels;
	struct sdr_message **messages; /* shared */
};

/* What a user index stands for: one UC queue pair. */
struct sdr_channel {
	struct sdr_slots *slots;
	uint32_t gen, index;
	uint32_t home; /* the worker that alone writes first words for it */
};

struct sdr_counters {
	uint64_t packets, duplicates, stale, length, aside, fragments, markers, invalid, repairs;
	uint64_t other; /* completions that are no RDMA write with immediate, errors among them */
};

/*
 * One word of a message's packet bitmap, and the packets of it that have come one after the
 * other on one channel. They are published together.
 */
struct sdr_run {
	struct sdr_message *msg; /* none: the run is empty */
	struct sdr_channel *ch;
	uint64_t plain; /* packets that need no more than their length checked: full, no fragment */
	uint64_t bits;
	uint32_t key;	   /* the immediate above the packet within the word, big endian */
	uint32_t mask;	   /* of these bits, big endian */
	uint32_t user;	   /* as in the completion: big endian, all 32 bits */
	uint32_t byte_cnt; /* of plain packets, big endian */
	uint32_t n;	   /* packets, duplicates included */
	uint32_t index;	   /* of the word */
	uint32_t offset;   /* of the last packet */
	uint8_t fragment_bits;
	uint8_t home; /* whether this worker is the channel's */
};

/* One completion queue, and the one thread that polls it. */
struct sdr_worker {
	uint32_t id;
	uint32_t cqn;
	struct sdr_cqe *ring;
	uint32_t log_size; /* of the ring */
	uint32_t ci;	   /* completions taken, a running count */
	uint32_t *cq_record;
	uint32_t *rq_record; /* of the receive queue that its queue pairs share, or none */
	uint32_t rq_pi;
	uint32_t channels; /* how many user indices there are */
	struct sdr_channel **channel;
	uint64_t epoch; /* shared: odd inside a batch */
	struct sdr_run run;
	uint32_t pushed; /* whether a byte was stored in the host's memory */
	struct sdr_counters counters;
};

/* Handles up to budget completions and returns how many there were. */
uint32_t sdr_handle(struct sdr_worker *w, uint32_t budget);

/* The event handler: handles up to budget completions, then asks for the next event. */
void sdr_activate(struct sdr_worker *w, uint32_t budget);

/*
 * Says how long the message really is: at most what it was opened for. No worker may be in a
 * batch meanwhile.
 */
void sdr_set_length(struct sdr_message *m, uint64_t length);

/*
 * Makes m, zeroed, with its maps zeroed and its pointers, gen, label and start set, ready for a
 * buffer of length bytes. It must not be in a slot.
 */
void sdr_open(struct sdr_message *m, uint64_t length, uint32_t mtu, uint32_t per_chunk);

#endif
