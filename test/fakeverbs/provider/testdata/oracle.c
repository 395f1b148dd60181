/* SPDX-License-Identifier: Apache-2.0
 *
 * Posts the requests that it reads to a queue pair of libmlx5, and waits for the completion of each batch. It writes
 * the queue pair's number and the blocks of its send queue first. Usage: oracle DEVICE rc|uc|ud DEPTH [srq]
 *
 * Lines: "r N", then N receives; "s N", then a batch of N sends, of which the last is signalled.
 * A receive: PIECES, then ADDR LENGTH LKEY of each.
 * A send: OPCODE FLAGS IMM ADDR RKEY COMPARE_ADD SWAP INLINE PIECES, and the pieces; INLINE bytes, when not
 * negative, are the beginning of a pattern. Of a binding, IMM is the window's old key, RKEY the new one, SWAP the length, and
 * COMPARE_ADD has its type, its rights and the region's key in bytes 0, 1 and 4 to 7. Of a UD queue pair, ADDR is the queue's key and RKEY its number.
 */
#include <arpa/inet.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			perror(#x);                                            \
			exit(1);                                               \
		}                                                              \
	} while (0)
enum { MAX_BATCH = 64, MAX_PIECES = 4, PATTERN = 256 };

static unsigned char pattern[PATTERN];

static int read_pieces(struct ibv_sge *s)
{
	int n;
	CHECK(scanf("%d", &n) == 1 && n <= MAX_PIECES);
	for (int i = 0; i < n; i++)
		CHECK(scanf("%lu %u %u", &s[i].addr, &s[i].length, &s[i].lkey) == 3);
	return n;
}

static void receive(struct ibv_qp *qp, struct ibv_srq *srq)
{
	struct ibv_sge s[MAX_PIECES];
	struct ibv_recv_wr w = {.sg_list = s}, *bad;
	w.num_sge = read_pieces(s);
	CHECK(!(srq ? ibv_post_srq_recv(srq, &w, &bad) : ibv_post_recv(qp, &w, &bad)));
}

static void send_batch(struct ibv_qp *qp, struct ibv_ah *ah, int n)
{
	static struct ibv_sge s[MAX_BATCH][MAX_PIECES];
	static struct ibv_send_wr w[MAX_BATCH], *bad;
	static struct ibv_mw mw[MAX_BATCH];
	static struct ibv_mr mr[MAX_BATCH];
	struct ibv_wc wc;
	CHECK(n <= MAX_BATCH);
	memset(w, 0, sizeof w);
	for (int i = 0; i < n; i++) {
		int opcode, flags, inl;
		unsigned imm, rkey;
		unsigned long addr, compare_add, swap;
		CHECK(scanf("%d %d %u %lu %u %lu %lu %d", &opcode, &flags, &imm, &addr, &rkey, &compare_add, &swap, &inl) == 8);
		w[i].num_sge = read_pieces(s[i]);
		w[i].sg_list = s[i];
		w[i].wr_id = i == n - 1;
		w[i].opcode = opcode;
		w[i].send_flags = flags | (i == n - 1 ? IBV_SEND_SIGNALED : 0);
		w[i].imm_data = htonl(imm);
		w[i].next = i == n - 1 ? NULL : &w[i + 1];
		if (inl >= 0) {
			s[i][0] = (struct ibv_sge){.addr = (unsigned long)pattern, .length = inl};
			w[i].num_sge = 1;
			w[i].send_flags |= IBV_SEND_INLINE;
		}
		if (opcode == IBV_WR_BIND_MW) {
			mr[i].lkey = compare_add >> 32;
			mw[i].type = compare_add & 0xff;
			mw[i].rkey = imm;
			w[i].bind_mw.mw = &mw[i];
			w[i].bind_mw.rkey = rkey;
			w[i].bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = &mr[i], .addr = addr, .length = swap,
				.mw_access_flags = compare_add >> 8 & 0xff};
		} else if (opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_SEND_WITH_INV) {
			w[i].invalidate_rkey = imm;
		} else if (ah) {
			w[i].wr.ud.ah = ah;
			w[i].wr.ud.remote_qkey = addr;
			w[i].wr.ud.remote_qpn = rkey & 0xffffff;
		} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			w[i].wr.atomic.remote_addr = addr;
			w[i].wr.atomic.rkey = rkey;
			w[i].wr.atomic.compare_add = compare_add;
			w[i].wr.atomic.swap = swap;
		} else {
			w[i].wr.rdma.remote_addr = addr;
			w[i].wr.rdma.rkey = rkey;
		}
	}
	CHECK(!ibv_post_send(qp, w, &bad));
	for (wc.wr_id = 0; wc.wr_id != 1;)
		if (ibv_poll_cq(qp->send_cq, 1, &wc))
			CHECK(wc.status == IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	int count, n, ud, rc;
	char kind;
	CHECK(argc == 4 || (argc == 5 && !strcmp(argv[4], "srq")));
	ud = !strcmp(argv[2], "ud");
	rc = !strcmp(argv[2], "rc");
	for (int i = 0; i < PATTERN; i++)
		pattern[i] = i * 7;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *ctx = NULL;
	for (int i = 0; i < count; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			CHECK(ctx = ibv_open_device(list[i]));
	CHECK(ctx);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1023, NULL, NULL, 0);
	CHECK(pd && cq);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = ud ? IBV_QPT_UD : rc ? IBV_QPT_RC : IBV_QPT_UC,
		.cap = {.max_send_wr = atoi(argv[3]), .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128}};
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = atoi(argv[3]), .max_sge = 4}};
	struct ibv_srq *srq = NULL;
	if (argc == 5) {
		CHECK(srq = ibv_create_srq(pd, &shared));
		init.srq = srq;
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	}
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &dv}};
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .sl = 3, .grh = {.hop_limit = 33, .traffic_class = 44, .flow_label = 0x54321}};
	path.grh.dgid.raw[10] = path.grh.dgid.raw[11] = 0xff;
	inet_pton(AF_INET, "192.0.2.2", path.grh.dgid.raw + 12);
	struct ibv_ah *ah = ud ? ibv_create_ah(pd, &path) : NULL;
	CHECK(!ud || ah);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 5};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = 5, .ah_attr = path, .max_dest_rd_atomic = 1, .min_rnr_timer = 12};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
				       (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN |
				       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)));
	printf("%u %u\n", qp->qp_num, dv.sq.wqe_cnt);
	fflush(stdout);
	while (scanf(" %c %d", &kind, &n) == 2) {
		if (kind == 's')
			send_batch(qp, ah, n);
		else
			for (int i = 0; i < n; i++)
				receive(qp, srq);
	}
	printf("done\n");
	return 0;
}
