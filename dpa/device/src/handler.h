/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the receive handler. It is that of package dpa, in the form of a device: words
 * that several threads use are marked shared, and are accessed with atomics only. Everything
 * else in a worker has one user, everything else in a message is constant while it is open.
 *
 * Packet bits stay here. The host gets, in its own memory, one bit for each chunk, how far each
 * channel has got (marks), and where each worker is (status). Of each of these words only one
 * thread is the writer, and a line of 64 bytes has one writer too: what several threads find out
 * is reported by each in words of its own, and the host takes the union.
 */
#ifndef SDR_HANDLER_H
#define SDR_HANDLER_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* A completion of mlx5, 64 bytes, big endian (rdma-core, providers/mlx5/mlx5dv.h, mlx5_cqe64). */
struct sdr_cqe {
	uint8_t reserved0[32];
	union {
		struct {
			uint32_t user; /* the queue pair's user index, in the low 24 bits */
			uint32_t imm;
		};
		uint64_t names; /* both */
	};
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

/*
 * How far a channel has got with the messages of a transfer; a line of its own, and one writer,
 * the channel's home. The host's word is next with the low 16 bits of count in it.
 */
struct sdr_mark {
	uint64_t next; /* valid 1, probe 1, label 16, offset 30, 0 */
	uint64_t host; /* where the word is, from the window's start */
	uint32_t count;
	uint32_t queued; /* whether it is about to be reported to the host */
	uint8_t pad[40];
};

#define SDR_NO_PACKET (~(uint64_t)0)

/*
 * What the host sees of a message: for each worker, and then for the host's own thread here, a
 * region of stride bytes: words as in enum sdr_report. The host takes the union of what the writers have reported, and of
 * needed the largest.
 */
enum sdr_report {
	SDR_REPORT_FRAGS,  /* the fragments of the user immediate, as in sdr_message */
	SDR_REPORT_NEEDED, /* needed, as in sdr_message */
	SDR_REPORT_CHUNKS, /* chunk bits, from here on */
};

struct sdr_message {
	uint32_t gen, label, start; /* start is the home channel of word 0 */
	uint32_t mtu;		    /* bytes */
	uint32_t per_chunk;	    /* packets */
	uint32_t unit;		    /* packets that the sender repeats at once; 0: fragments are the user immediate's */
	uint8_t shift;		    /* log2(per_chunk) where chunks lie within a word, or SDR_ACROSS */
	uint8_t shorter;	    /* whether any packet may be shorter than its place: that of a unit that is */
	uint64_t heads;		    /* the first packet of each chunk that lies within a word */
	uint64_t *first, *repair;   /* shared: packet bits; a word of first has one writer */
	uint64_t *chunks;	    /* shared; bits beyond the length mean nothing */
	uint64_t host, stride;	    /* where the regions begin, from the window's start */
	struct sdr_mark *marks;	    /* one for each channel */
	uint32_t closed;	    /* shared */
	uint32_t known;		    /* shared: whether the length is that of the message, not of the buffer */
	uint64_t last;		    /* shared: index of the last packet, length in the low half; or SDR_NO_PACKET */
	uint64_t aside;		    /* shared: a short packet that came before the length, as last; its repeats in bits 24 to 31 */
	uint64_t needed;	    /* shared: how many repeats it took to place the units that are whole */
	uint64_t frags;		    /* shared: user immediate below, which fragments are in above */
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
	uint64_t packets, duplicates, stale, length, aside, fragments, probes, invalid, repairs;
	uint64_t other; /* completions that are no RDMA write with immediate, errors among them */
};

/* What the host sees of a worker; the writer is the worker. */
struct sdr_status {
	uint64_t epoch;	  /* after the last batch; all that came of it was written before */
	uint64_t emptied; /* the epoch within the last batch that found the queue empty at its end */
	uint64_t pushes;  /* grows when a word of a message or a mark has been reported */
	uint8_t pad[40];
};

/*
 * One word of a message's packet bitmap, and the packets of it that have come on one channel in
 * this batch. They are published together.
 */
struct sdr_run {
	struct sdr_message *msg; /* none: the run is empty */
	struct sdr_channel *ch;
	uint64_t plain; /* packets that need no more than their length checked: full, no fragment */
	uint64_t bits;
	struct sdr_mark *mark; /* none if this worker isn't the channel's home */
	uint64_t label;	       /* the message's, as in a mark */
	uint64_t key;	       /* user index and immediate above the packet within the word, as in a completion */
	uint64_t mask;	       /* of these bits */
	uint32_t byte_cnt;     /* of plain packets, big endian */
	uint32_t n;	       /* packets, duplicates included */
	uint32_t index;	       /* of the word */
	uint32_t fragment_bits;
};

enum { SDR_RUNS = 8, SDR_MARKS = 32 };

/* One completion queue, and the one thread that polls it. */
struct sdr_worker {
	uint32_t id;
	uint32_t cqn;
	uint32_t thread; /* the platform's name of the thread */
	uint32_t budget; /* completions that an activation may take */
	struct sdr_cqe *ring;
	uint32_t log_size; /* of the ring */
	uint32_t ci;	   /* completions taken, a running count */
	uint32_t *cq_record;
	uint32_t *rq_record; /* of the receive queue that its queue pairs share, or none */
	uint32_t rq_pi;
	uint32_t channels; /* how many user indices there are */
	struct sdr_channel **channel; /* shared */
	uint64_t epoch; /* shared: odd inside a batch */
	uint64_t emptied, pushes;
	struct sdr_window window;
	uint64_t status; /* where the host's sdr_status is, from the window's start */
	uint8_t *host;	 /* the window, in a batch */
	uint32_t reported; /* words of the host written in this batch and not yet written back */
	uint32_t used;	 /* a bit for each run that has a message */
	uint32_t marks;	 /* how many are in marked */
	struct sdr_run run[SDR_RUNS];
	struct sdr_mark *marked[SDR_MARKS];
	struct sdr_counters counters;
};

/* Handles up to budget completions and returns how many there were. */
uint32_t sdr_handle(struct sdr_worker *w, uint32_t budget);

/* The event handler: handles completions, then asks for the next event. */
void sdr_activate(struct sdr_worker *w);

/*
 * Says how long the message really is: at most what it was opened for. Workers may be in a
 * batch meanwhile. It is called by one thread, the host's here, whose region of the message is
 * the one after the workers', and which sees the window at host.
 */
void sdr_set_length(struct sdr_message *m, uint8_t *host, uint32_t workers, uint64_t length);

/*
 * Makes m, zeroed, with its maps zeroed and its pointers, gen, label, start and unit set, ready for a
 * buffer of length bytes. It must not be in a slot.
 */
void sdr_open(struct sdr_message *m, uint64_t length, uint32_t mtu, uint32_t per_chunk);

#endif
