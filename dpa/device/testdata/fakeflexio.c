/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake of libflexio and libibverbs for the loader: it has the functions that the loader calls, with the published
 * prototypes, and runs the device's program under qemu-user (src/process.c) where FlexIO would run it on a DPA.
 * Environment: FAKE_FLEXIO_EMULATOR is the emulator's path, FAKE_FLEXIO_DIR a folder for the program.
 */
#define _GNU_SOURCE
#include <libflexio/flexio.h>

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct ibv_device { int opened; };
struct ibv_context { struct ibv_device *device; };
struct flexio_app { void *elf; size_t size; char name[64]; };
struct flexio_func { struct flexio_app *app; char name[64]; };
struct flexio_process { int socket, failed; pid_t pid; struct flexio_app *app; pthread_mutex_t lock; };
struct flexio_window { struct flexio_process *process; uint32_t id; };
struct flexio_uar { uint32_t id; };
struct flexio_thread { uint32_t id; };
struct flexio_event_handler { struct flexio_process *process; struct flexio_thread thread; };
struct flexio_cq { struct flexio_process *process; uint32_t number; };

enum { MAX_MRS = 64 };
static struct mr { struct ibv_mr mr; int fd, used; } mrs[MAX_MRS];
static struct flexio_process *the_process; /* one at a time, so that the fake NIC finds it */
static struct flexio_uar the_uar = {7};

/* ---- libibverbs ---- */

static struct ibv_device the_device;

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof *list);
	list[0] = &the_device;
	*n = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }

const char *ibv_get_device_name(struct ibv_device *d) { (void)d; return "mlx5_0"; }

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *c = calloc(1, sizeof *c);
	c->device = d;
	d->opened++;
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	c->device->opened--;
	free(c);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof *pd);
	pd->context = c;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) { free(pd); return 0; }

static uint64_t ask(struct flexio_process *p, uint32_t op, const uint64_t *arg, int args, const void *payload, uint32_t size)
{
	struct process_request r = {.op = op, .size = size};
	uint64_t v = 0;
	memcpy(r.arg, arg, args * sizeof *arg);
	pthread_mutex_lock(&p->lock);
	if (p->failed || send(p->socket, &r, sizeof r, MSG_NOSIGNAL) != sizeof r ||
	    (size > 0 && send(p->socket, payload, size, MSG_NOSIGNAL) != (ssize_t)size) ||
	    recv(p->socket, &v, sizeof v, MSG_WAITALL) != sizeof v) {
		p->failed = 1;
		v = ~0ull;
	}
	pthread_mutex_unlock(&p->lock);
	return v;
}

static void tell_region(struct flexio_process *p, const struct mr *m)
{
	uint64_t arg[] = {getpid(), m->fd, m->mr.lkey, (uint64_t)m->mr.addr, m->mr.length};
	ask(p, PROCESS_REGISTER, arg, 5, NULL, 0);
}

/* Registered memory becomes shared memory in its place, as if a device could reach it. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct mr *m = mrs;
	while (m < mrs + MAX_MRS && m->used)
		m++;
	if (m == mrs + MAX_MRS || (access & IBV_ACCESS_LOCAL_WRITE) == 0 || (uintptr_t)addr % 4096 != 0 || length % 4096 != 0) {
		errno = EINVAL;
		return NULL;
	}
	m->fd = memfd_create("registered", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, length) != 0 || pwrite(m->fd, addr, length, 0) != (ssize_t)length ||
	    mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, 0) != addr)
		return NULL;
	m->used = 1;
	m->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	m->mr.lkey = 0x1000 + (m - mrs);
	m->mr.rkey = m->mr.lkey;
	if (the_process != NULL)
		tell_region(the_process, m);
	return &m->mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct mr *m = (struct mr *)mr;
	close(m->fd);
	m->used = 0;
	return 0;
}

/* ---- libflexio ---- */

flexio_status flexio_app_create(struct flexio_app_attr *a, struct flexio_app **app)
{
	struct flexio_app *p = calloc(1, sizeof *p);
	p->elf = malloc(a->app_bsize);
	p->size = a->app_bsize;
	memcpy(p->elf, a->app_ptr, a->app_bsize);
	snprintf(p->name, sizeof p->name, "%s", a->app_name);
	*app = p;
	return p->size > 4 && memcmp(p->elf, "\177ELF", 4) == 0 ? FLEXIO_STATUS_SUCCESS : FLEXIO_STATUS_FAILED;
}

flexio_status flexio_app_destroy(struct flexio_app *app)
{
	free(app->elf);
	free(app);
	return FLEXIO_STATUS_SUCCESS;
}

flexio_status flexio_func_register(struct flexio_app *app, const char *name, flexio_func_t **out)
{
	struct flexio_func *f = calloc(1, sizeof *f);
	f->app = app;
	snprintf(f->name, sizeof f->name, "%s", name);
	*out = (flexio_func_t *)f;
	return FLEXIO_STATUS_SUCCESS;
}

static int start(struct flexio_process *p)
{
	char path[256], self[32];
	int pair[2];
	snprintf(path, sizeof path, "%s/%s.XXXXXX", getenv("FAKE_FLEXIO_DIR"), p->app->name);
	int fd = mkstemp(path);
	if (fd < 0 || write(fd, p->app->elf, p->app->size) != (ssize_t)p->app->size || fchmod(fd, 0700) != 0)
		return 0;
	close(fd);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return 0;
	posix_spawn_file_actions_t acts;
	posix_spawn_file_actions_init(&acts);
	/* If it is this number already the flag must go all the same. */
	int other = fcntl(pair[1], F_DUPFD_CLOEXEC, 100);
	posix_spawn_file_actions_adddup2(&acts, other, PROCESS_FD);
	snprintf(self, sizeof self, "%d", getpid());
	char *argv[] = {getenv("FAKE_FLEXIO_EMULATOR"), "-cpu", "rv64,zbs=true", path, NULL};
	int err = posix_spawn(&p->pid, argv[0], &acts, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&acts);
	close(pair[1]);
	close(other);
	p->socket = pair[0];
	return err == 0;
}

flexio_status flexio_process_create(struct ibv_context *c, struct flexio_app *app, const struct flexio_process_attr *attr,
				    struct flexio_process **out)
{
	(void)attr;
	struct flexio_process *p = calloc(1, sizeof *p);
	pthread_mutex_init(&p->lock, NULL);
	p->app = app;
	if (c == NULL || the_process != NULL || !start(p))
		return FLEXIO_STATUS_FAILED;
	the_process = p;
	for (struct mr *m = mrs; m < mrs + MAX_MRS; m++) {
		if (m->used)
			tell_region(p, m);
	}
	*out = p;
	return FLEXIO_STATUS_SUCCESS;
}

flexio_status flexio_process_destroy(struct flexio_process *p)
{
	the_process = NULL;
	close(p->socket);
	int status = 0;
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	free(p);
	return status == 0 ? FLEXIO_STATUS_SUCCESS : FLEXIO_STATUS_FATAL_ERR;
}

static uint64_t function(struct flexio_process *p, flexio_func_t *f)
{
	struct flexio_func *named = (struct flexio_func *)f;
	return named->app == p->app ? ask(p, PROCESS_NAMED, NULL, 0, named->name, strlen(named->name)) : 0;
}

static flexio_status status_of(struct flexio_process *p, int ok)
{
	return p->failed ? FLEXIO_STATUS_FATAL_ERR : ok ? FLEXIO_STATUS_SUCCESS : FLEXIO_STATUS_FAILED;
}

flexio_status flexio_process_call(struct flexio_process *p, flexio_func_t *f, uint64_t *ret, ...)
{
	va_list ap;
	va_start(ap, ret);
	uint64_t arg[] = {function(p, f), va_arg(ap, uint64_t)};
	va_end(ap);
	if (arg[0] == 0)
		return FLEXIO_STATUS_FAILED;
	*ret = ask(p, PROCESS_CALL, arg, 2, NULL, 0);
	return status_of(p, 1);
}

struct flexio_uar *flexio_process_get_uar(struct flexio_process *p) { (void)p; return &the_uar; }

uint32_t flexio_uar_get_id(struct flexio_uar *uar) { return uar->id; }

enum flexio_err_status flexio_err_status_get(struct flexio_process *p)
{
	return p != NULL && p->failed ? FLEXIO_DEV_FATAL_ERROR : FLEXIO_DEV_NO_ERROR;
}

flexio_status flexio_buf_dev_alloc(struct flexio_process *p, size_t n, flexio_uintptr_t *daddr)
{
	uint64_t arg[] = {n};
	*daddr = ask(p, PROCESS_ALLOC, arg, 1, NULL, 0);
	return status_of(p, *daddr != 0);
}

flexio_status flexio_buf_dev_free(struct flexio_process *p, flexio_uintptr_t daddr)
{
	ask(p, PROCESS_FREE, &daddr, 1, NULL, 0);
	return status_of(p, 1);
}

flexio_status flexio_host2dev_memcpy(struct flexio_process *p, void *from, size_t n, flexio_uintptr_t to)
{
	for (size_t done = 0; done < n;) {
		size_t part = n - done < PROCESS_PAYLOAD ? n - done : PROCESS_PAYLOAD;
		uint64_t arg[] = {to + done};
		ask(p, PROCESS_WRITE, arg, 1, (char *)from + done, part);
		done += part;
	}
	return status_of(p, 1);
}

flexio_status flexio_window_create(struct flexio_process *p, struct ibv_pd *pd, struct flexio_window **out)
{
	if (pd == NULL)
		return FLEXIO_STATUS_FAILED;
	struct flexio_window *w = calloc(1, sizeof *w);
	w->process = p;
	w->id = ask(p, PROCESS_WINDOW, NULL, 0, NULL, 0);
	*out = w;
	return status_of(p, 1);
}

flexio_status flexio_window_destroy(struct flexio_window *w) { free(w); return FLEXIO_STATUS_SUCCESS; }

uint32_t flexio_window_get_id(struct flexio_window *w) { return w->id; }

flexio_status flexio_event_handler_create(struct flexio_process *p, struct flexio_event_handler_attr *a,
					  struct flexio_event_handler **out)
{
	struct flexio_event_handler *h = calloc(1, sizeof *h);
	uint64_t arg[] = {function(p, a->host_stub_func)};
	h->process = p;
	h->thread.id = ask(p, PROCESS_THREAD, arg, 1, NULL, 0);
	*out = h;
	return status_of(p, 1);
}

flexio_status flexio_event_handler_destroy(struct flexio_event_handler *h) { free(h); return FLEXIO_STATUS_SUCCESS; }

flexio_status flexio_event_handler_run(struct flexio_event_handler *h, uint64_t user_arg)
{
	uint64_t arg[] = {h->thread.id, user_arg};
	ask(h->process, PROCESS_RUN, arg, 2, NULL, 0);
	return status_of(h->process, 1);
}

struct flexio_thread *flexio_event_handler_get_thread(struct flexio_event_handler *h) { return &h->thread; }

uint32_t flexio_event_handler_get_id(struct flexio_event_handler *h) { return h->thread.id; }

flexio_status flexio_cq_create(struct flexio_process *p, struct ibv_context *c, const struct flexio_cq_attr *a,
			       struct flexio_cq **out)
{
	(void)c;
	if (a->element_type != FLEXIO_CQ_ELEMENT_TYPE_DPA_THREAD || a->cq_ring_qmem.memtype != FLEXIO_MEMTYPE_DPA ||
	    a->uar_id != the_uar.id || a->cqe_comp_type != FLEXIO_CQE_COMP_NONE || a->uar_base_addr != NULL)
		return FLEXIO_STATUS_FAILED;
	struct flexio_cq *q = calloc(1, sizeof *q);
	uint64_t arg[] = {a->cq_ring_qmem.daddr, a->cq_dbr_daddr, a->log_cq_depth, a->thread->id};
	q->process = p;
	q->number = ask(p, PROCESS_CQ, arg, 4, NULL, 0);
	*out = q;
	return status_of(p, 1);
}

flexio_status flexio_cq_destroy(struct flexio_cq *q) { free(q); return FLEXIO_STATUS_SUCCESS; }

uint32_t flexio_cq_get_cq_num(struct flexio_cq *q) { return q->number; }

/* ---- the fake NIC ---- */

/* Writes a completion into a queue; 0: there is no room, 1: done, -1: the process has failed. */
int fake_nic_complete(uint32_t cqn, const void *cqe)
{
	uint64_t arg[] = {cqn};
	if (the_process == NULL)
		return -1;
	uint64_t v = ask(the_process, PROCESS_COMPLETE, arg, 1, cqe, 64);
	return the_process->failed ? -1 : (int)v;
}
