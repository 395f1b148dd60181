/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handler needs of the machine that it runs on, beside memory of its own. A shim for
 * each platform defines these functions, which are all that the handler and its control link:
 * flexio.c for the DPA, qemu.c and process.c for qemu-user.
 *
 * What the platform calls is in handler.h (sdr_activate) and control.h (sdr_control).
 */
#ifndef SDR_ABI_H
#define SDR_ABI_H

#include <stdint.h>

/* The memory of the host that the handler stores to: one registered region. */
struct sdr_window {
	uint64_t id;	  /* the platform's, FlexIO: window id */
	uint64_t mkey;	  /* of the region */
	uint64_t address; /* of the region, in the host's address space */
};

/*
 * Where the calling thread sees the first byte of the region; NULL if it can't. It holds until
 * the thread ends its activation. The handler stores aligned 64-bit words there, and reads none.
 * No two threads store to the same line of 64 bytes: a DPA writes whole lines back.
 */
uint8_t *sdr_abi_window(const struct sdr_window *w);

/*
 * Has the host and all other threads see what this thread has stored so far, in the window and
 * elsewhere, before anything that it stores later.
 */
void sdr_abi_window_writeback(void);

/* Asks for an event when a completion beyond ci, a running count, is in the queue. */
void sdr_abi_cq_arm(uint32_t cqn, uint32_t ci);

/* Has a thread, by the id that the platform gave it, activated as if its event had come. */
void sdr_abi_activate(uint32_t thread);

/* Has sdr_activate called again when the event comes, or at once if it has come. */
void sdr_abi_reschedule(void);

#endif
