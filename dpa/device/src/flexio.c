/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim of abi.h for the DPA, and the functions that the host names. It is compiled against FlexIO's device
 * headers of version 24.10 or later, by dpacc.
 */
#define FLEXIO_DEV_VER_USED FLEXIO_DEV_VER(24, 10, 0)
#define FLEXIO_DEV_ALLOW_EXPERIMENTAL_API
#include <libflexio-dev/flexio_dev_ver.h>

#include <libflexio-dev/flexio_dev.h>
#include <libflexio-dev/flexio_dev_queue_access.h>

#include <dpaintrin.h>

#include "control.h"
#include "handler.h"

uint8_t *sdr_abi_window(const struct sdr_window *w)
{
	flexio_uintptr_t at = 0;
	if (flexio_dev_window_config(FLEXIO_DEV_WINDOW_ENTITY_0, w->id, w->mkey) != FLEXIO_DEV_STATUS_SUCCESS ||
	    flexio_dev_window_ptr_acquire(FLEXIO_DEV_WINDOW_ENTITY_0, w->address, &at) != FLEXIO_DEV_STATUS_SUCCESS)
		flexio_dev_process_finish(); /* the host sees that the process has ended */
	return (uint8_t *)at;
}

void sdr_abi_window_writeback(void)
{
	/* Records of queues, which the NIC reads, are in the process's memory, the rest is in the window. */
	__dpa_thread_memory_writeback();
	__dpa_thread_window_writeback();
}

void sdr_abi_cq_arm(uint32_t cqn, uint32_t ci)
{
	flexio_dev_cq_arm(ci, cqn);
}

void sdr_abi_activate(uint32_t thread)
{
	flexio_dev_event_handler_activate(thread);
}

void sdr_abi_reschedule(void)
{
	flexio_dev_thread_reschedule(); /* doesn't return */
}

flexio_dev_event_handler_t sdr_event;
__dpa_global__ void sdr_event(uint64_t worker)
{
	/* What the NIC has written since the last activation isn't in this thread's cache. */
	__dpa_thread_system_fence();
	sdr_activate((struct sdr_worker *)worker);
}

flexio_dev_rpc_handler_t sdr_rpc;
__dpa_rpc__ uint64_t sdr_rpc(uint64_t command)
{
	__dpa_thread_system_fence();
	return sdr_control((const struct sdr_command *)command);
}
