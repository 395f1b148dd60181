// SPDX-License-Identifier: Apache-2.0

/* The other side of the tests in rxe_peer_test.go: UC RDMA writes with immediate over rdma-core's
 * own libibverbs.
 *
 *	ucpeer DEVICE send|recv|hold MESSAGES SIZE BATCH
 *
 * It prints "qpn rkey address gid" of its end, reads the same of the other end from standard
 * input, and then
 *   send: writes MESSAGES messages of SIZE bytes, message i filled with byte i, immediate i, to
 *         offset (i % BATCH) * SIZE of the other's memory, BATCH per post; prints the nanoseconds
 *         from the first post to the last completion;
 *   recv: prints "ready", takes MESSAGES completions, prints the sum of their immediates and a hash
 *         of its memory;
 *   hold: posts MESSAGES receives, prints "ready", sleeps until it reads a '.', prints the number of
 *         completions. A receiver that costs nothing while the sender is measured.
 */

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(what, ok)                                  \
	do {                                             \
		if (!(ok)) {                             \
			perror("ucpeer: " what);         \
			exit(1);                         \
		}                                        \
	} while (0)

enum { QUEUE = 256, PSN = 0x42 };

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char *buf;
static int messages, size, batch, fill = 1, receives = QUEUE;

static struct ibv_context *open_device(const char *name)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	CHECK("list devices", list);
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	return NULL;
}

static void create(struct ibv_context *ctx)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	size_t bytes = (size_t)size * batch;

	CHECK("allocate PD", pd);
	CHECK("allocate memory", !posix_memalign((void **)&buf, 4096, bytes));
	memset(buf, 0, bytes);
	mr = ibv_reg_mr(pd, buf, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK("register MR", mr);
	cq = ibv_create_cq(ctx, QUEUE + receives, NULL, NULL, 0);
	CHECK("create CQ", cq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC,
		.cap = { .max_send_wr = QUEUE, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	qp = ibv_create_qp(pd, &init);
	CHECK("create QP", qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	CHECK("modify QP to INIT", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void connect_to(uint32_t qpn, const union ibv_gid *gid)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = qpn, .rq_psn = PSN,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = *gid, .hop_limit = 64 } },
	};
	CHECK("modify QP to RTR", !ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = PSN };
	CHECK("modify QP to RTS", !ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static int poll_cq(struct ibv_wc *wc, int n)
{
	int got = ibv_poll_cq(cq, n, wc);

	CHECK("poll", got >= 0);
	for (int i = 0; i < got; i++)
		if (wc[i].status) {
			fprintf(stderr, "ucpeer: completion: %s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
	return got;
}

static void post_recvs(int n)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	while (n--)
		CHECK("post receive", !ibv_post_recv(qp, &wr, &bad));
}

static void do_send(uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge[QUEUE];
	struct ibv_send_wr wr[QUEUE] = { 0 }, *bad;
	struct timespec t0, t1;

	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (int sent = 0; sent < messages;) {
		int n = messages - sent < batch ? messages - sent : batch;
		for (int i = 0; i < n; i++) {
			size_t off = (size_t)((sent + i) % batch) * size;
			if (fill)
				memset(buf + off, sent + i, size);
			sge[i] = (struct ibv_sge){ (uintptr_t)buf + off, size, mr->lkey };
			wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
			wr[i].sg_list = &sge[i], wr[i].num_sge = 1;
			wr[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM, wr[i].send_flags = IBV_SEND_SIGNALED, wr[i].imm_data = htonl(sent + i);
			wr[i].wr.rdma.remote_addr = raddr + off, wr[i].wr.rdma.rkey = rkey;
		}
		CHECK("post send", !ibv_post_send(qp, wr, &bad));
		struct ibv_wc wc[QUEUE];
		for (int done = 0, got; done < n; done += got)
			if (!(got = poll_cq(wc, QUEUE)))
				sched_yield(); /* to the kernel's thread that sends, where there is one */
		sent += n;
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);
	printf("%" PRId64 "\n", (int64_t)(t1.tv_sec - t0.tv_sec) * 1000000000 + t1.tv_nsec - t0.tv_nsec);
}

static void do_recv(void)
{
	uint64_t sum = 0, hash = 14695981039346656037u;
	struct ibv_wc wc[QUEUE];

	for (int got = 0; got < messages;) {
		int n = poll_cq(wc, QUEUE);
		for (int i = 0; i < n; i++)
			sum += ntohl(wc[i].imm_data);
		got += n;
		post_recvs(n);
	}
	for (size_t i = 0; i < (size_t)size * batch; i++)
		hash = (hash ^ (unsigned char)buf[i]) * 1099511628211u;
	printf("%" PRIu64 " %" PRIu64 "\n", sum, hash);
}

static void do_hold(void)
{
	struct ibv_wc wc[QUEUE];
	int n, got = 0;

	for (int c = 0; c != '.' && c != EOF;)
		c = getchar();
	time_t last = time(NULL); /* what has been sent may still be on its way */
	while (got < messages && time(NULL) < last + 5)
		if ((n = poll_cq(wc, QUEUE)) > 0)
			got += n, last = time(NULL);
	printf("%d\n", got);
}

int main(int argc, char **argv)
{
	char text[INET6_ADDRSTRLEN];
	uint32_t qpn, rkey;
	uint64_t raddr;
	union ibv_gid gid;

	if (argc != 6) {
		fprintf(stderr, "usage: ucpeer DEVICE send|recv|hold MESSAGES SIZE BATCH\n");
		return 2;
	}
	messages = atoi(argv[3]), size = atoi(argv[4]), batch = atoi(argv[5]);
	if (!strcmp(argv[2], "hold"))
		receives = messages + 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct ibv_context *ctx = open_device(argv[1]);
	CHECK("open device", ctx);
	create(ctx);
	CHECK("query GID", !ibv_query_gid(ctx, 1, 0, &gid));
	printf("%u %u %" PRIu64 " %s\n", qp->qp_num, mr->rkey, (uint64_t)(uintptr_t)buf, inet_ntop(AF_INET6, &gid, text, sizeof(text)));
	CHECK("read the other end", scanf("%u %u %" SCNu64 " %45s", &qpn, &rkey, &raddr, text) == 4 && inet_pton(AF_INET6, text, &gid) == 1);
	connect_to(qpn, &gid);
	if (!strcmp(argv[2], "send")) {
		fill = !getenv("UCPEER_NO_FILL");
		do_send(raddr, rkey);
		return 0;
	}
	post_recvs(receives - 1);
	printf("ready\n");
	if (!strcmp(argv[2], "recv"))
		do_recv();
	else
		do_hold();
	return 0;
}
