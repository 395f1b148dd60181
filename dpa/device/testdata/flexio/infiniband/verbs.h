/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader uses of libibverbs, declared anew, for fakeflexio.c. */
#ifndef SDR_TEST_VERBS_H
#define SDR_TEST_VERBS_H
#include <stddef.h>
#include <stdint.h>
struct ibv_device;
struct ibv_context;
struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};
enum { IBV_ACCESS_LOCAL_WRITE = 1 };
#endif
