/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What src/flexio.c uses of FlexIO's device API, declared anew: names, types and values as NVIDIA publishes them for
 * version 24.10 and later. It lets the shim be compiled where FlexIO isn't installed, and proves no more than that.
 */
#ifndef SDR_TEST_FLEXIO_DEV_H
#define SDR_TEST_FLEXIO_DEV_H
#include <stdint.h>
#if FLEXIO_DEV_VER_USED < FLEXIO_DEV_VER(24, 10, 0)
#error "these are the declarations of version 24.10"
#endif
typedef uint64_t flexio_uintptr_t;
typedef enum { FLEXIO_DEV_STATUS_SUCCESS, FLEXIO_DEV_STATUS_FAILED } flexio_dev_status_t;
enum flexio_window_entity { FLEXIO_DEV_WINDOW_ENTITY_0, FLEXIO_DEV_WINDOW_ENTITY_1 };
typedef uint64_t(flexio_dev_rpc_handler_t)(uint64_t arg);
typedef void(flexio_dev_event_handler_t)(uint64_t thread_arg);
flexio_dev_status_t flexio_dev_window_config(enum flexio_window_entity entity, uint16_t window_config_id, uint32_t mkey);
flexio_dev_status_t flexio_dev_window_ptr_acquire(enum flexio_window_entity entity, uint64_t haddr, flexio_uintptr_t *daddr);
void flexio_dev_process_finish(void);
void flexio_dev_thread_reschedule(void);
void flexio_dev_event_handler_activate(uint32_t activation_id);
#endif
