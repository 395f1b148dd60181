/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handler needs of the machine that it runs on, beside memory. A shim for each
 * platform defines these functions: qemu.c for qemu-user.
 */
#ifndef SDR_ABI_H
#define SDR_ABI_H

#include <stdint.h>

/* Asks for an event when a completion beyond ci, a running count, is in the queue. */
void sdr_abi_cq_arm(uint32_t cqn, uint32_t ci);

/* Stores a byte in the host's memory. The same byte may be stored twice, by two threads. */
void sdr_abi_host_store(uint8_t *at, uint8_t v);

/* Has the host see what this thread has stored so far. */
void sdr_abi_host_flush(void);

/* Has sdr_activate called again when the event comes, or at once if it has come. */
void sdr_abi_reschedule(void);

#endif
