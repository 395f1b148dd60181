/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake of FlexIO's host library asks of process.c. Numbers are little endian. */
#ifndef SDR_PROCESS_H
#define SDR_PROCESS_H

#include <stdint.h>

enum { PROCESS_FD = 3, PROCESS_PAYLOAD = 1 << 16 };

/* The functions that can be named. */
enum { PROCESS_EVENT = 1, PROCESS_RPC = 2 };

enum process_op {
	PROCESS_ALLOC = 1, /* bytes: address */
	PROCESS_FREE,	   /* address */
	PROCESS_WRITE,	   /* address; payload */
	PROCESS_NAMED,	   /* payload: function or 0 */
	PROCESS_CALL,	   /* function, argument: what it returns */
	PROCESS_REGISTER,  /* process id and file descriptor of the host, mkey, address, length */
	PROCESS_WINDOW,	   /* : id */
	PROCESS_THREAD,	   /* function: id */
	PROCESS_RUN,	   /* thread, argument */
	PROCESS_CQ,	   /* ring, record, log2 of its size, thread: number */
	PROCESS_COMPLETE,  /* completion queue; payload: whether there was room */
};

struct process_request {
	uint32_t op, size; /* of the payload that follows */
	uint64_t arg[5];
};

#endif
