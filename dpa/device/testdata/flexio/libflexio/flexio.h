/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loader uses of FlexIO's host API, declared anew, for fakeflexio.c: names, types and the order of fields as
 * NVIDIA publishes them for version 24.10. Where FlexIO is installed its own header is used instead.
 */
#ifndef SDR_TEST_FLEXIO_H
#define SDR_TEST_FLEXIO_H
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t flexio_uintptr_t;
typedef enum { FLEXIO_STATUS_SUCCESS, FLEXIO_STATUS_FAILED, FLEXIO_STATUS_TIMEOUT, FLEXIO_STATUS_FATAL_ERR } flexio_status;
typedef void(flexio_func_t)(void);

enum { FLEXIO_CQ_ELEMENT_TYPE_DPA_THREAD = 0 };
enum flexio_memtype { FLEXIO_MEMTYPE_DPA, FLEXIO_MEMTYPE_HOST };
enum flexio_cqe_comp_type { FLEXIO_CQE_COMP_NONE };
enum flexio_cq_period_mode { FLEXIO_CQ_PERIOD_MODE_EVENT };
enum flexio_affinity_type { FLEXIO_AFFINITY_NONE, FLEXIO_AFFINITY_STRICT, FLEXIO_AFFINITY_GROUP };
enum flexio_err_status { FLEXIO_DEV_NO_ERROR, FLEXIO_DEV_FATAL_ERROR, FLEXIO_DEV_USER_ERROR };

struct flexio_app;
struct flexio_cq;
struct flexio_event_handler;
struct flexio_process;
struct flexio_process_attr;
struct flexio_thread;
struct flexio_uar;
struct flexio_window;

struct flexio_qmem {
	enum flexio_memtype memtype;
	union {
		flexio_uintptr_t daddr;
		uint64_t humem_offset;
	};
	uint32_t umem_id;
};

struct flexio_cq_attr {
	uint8_t log_cq_depth;
	uint8_t element_type;
	union {
		uint32_t emulated_eqn;
		struct flexio_thread *thread;
	};
	uint32_t uar_id;
	void *uar_base_addr;
	enum flexio_cqe_comp_type cqe_comp_type;
	enum flexio_cq_period_mode cq_period_mode;
	uint16_t cq_period;
	uint16_t cq_max_count;
	bool no_arm;
	bool cc;
	uint8_t overrun_ignore;
	uint8_t always_armed;
	struct flexio_qmem cq_ring_qmem;
	flexio_uintptr_t cq_dbr_daddr;
};

struct flexio_affinity {
	enum flexio_affinity_type type;
	uint32_t id;
};

struct flexio_event_handler_attr {
	flexio_func_t *host_stub_func;
	int continuable;
	uint64_t arg;
	flexio_uintptr_t thread_local_storage_daddr;
	struct flexio_affinity affinity;
};

struct flexio_app_attr {
	const char *app_name;
	void *app_ptr;
	size_t app_bsize;
	char *app_sig_sec_name;
};

flexio_status flexio_app_create(struct flexio_app_attr *fattr, struct flexio_app **app);
flexio_status flexio_app_destroy(struct flexio_app *app);
flexio_status flexio_func_register(struct flexio_app *app, const char *dev_func_name, flexio_func_t **out_func);
flexio_status flexio_process_create(struct ibv_context *ibv_ctx, struct flexio_app *app,
				    const struct flexio_process_attr *process_attr, struct flexio_process **process_ptr);
flexio_status flexio_process_destroy(struct flexio_process *process);
flexio_status flexio_process_call(struct flexio_process *process, flexio_func_t *host_func, uint64_t *func_ret, ...);
struct flexio_uar *flexio_process_get_uar(struct flexio_process *process);
uint32_t flexio_uar_get_id(struct flexio_uar *uar);
enum flexio_err_status flexio_err_status_get(struct flexio_process *process);
flexio_status flexio_buf_dev_alloc(struct flexio_process *process, size_t buff_bsize, flexio_uintptr_t *dest_daddr_p);
flexio_status flexio_buf_dev_free(struct flexio_process *process, flexio_uintptr_t daddr);
flexio_status flexio_host2dev_memcpy(struct flexio_process *process, void *src_haddr, size_t buff_bsize,
				     flexio_uintptr_t dest_daddr);
flexio_status flexio_window_create(struct flexio_process *process, struct ibv_pd *pd, struct flexio_window **window);
flexio_status flexio_window_destroy(struct flexio_window *window);
uint32_t flexio_window_get_id(struct flexio_window *window);
flexio_status flexio_event_handler_create(struct flexio_process *process, struct flexio_event_handler_attr *fattr,
					  struct flexio_event_handler **event_handler_ptr);
flexio_status flexio_event_handler_destroy(struct flexio_event_handler *event_handler);
flexio_status flexio_event_handler_run(struct flexio_event_handler *event_handler, uint64_t user_arg);
struct flexio_thread *flexio_event_handler_get_thread(struct flexio_event_handler *event_handler);
uint32_t flexio_event_handler_get_id(struct flexio_event_handler *event_handler);
flexio_status flexio_cq_create(struct flexio_process *process, struct ibv_context *ibv_ctx,
			       const struct flexio_cq_attr *fattr, struct flexio_cq **cq);
flexio_status flexio_cq_destroy(struct flexio_cq *cq);
uint32_t flexio_cq_get_cq_num(struct flexio_cq *cq);
#endif
