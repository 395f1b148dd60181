// SPDX-License-Identifier: Apache-2.0
//
// DCP's trimming (SIGCOMM 2025, section 4.2) for a port with a virtual queue, as an XDP program: the twin of Meter.Frame in
// Go package switchfn/trim, line by line. A test holds one against the other.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define ROCE_PORT 4791
#define IPPROTO_UDP 17
#define MAX_KEEP 512
#define ROOM 2 /* how many times the limit the port holds: trim.room */

/* Sizes of headers; DCP is that of DCP's extended header (trim.ETHSize). */
#define ETH 14
#define IP4 20
#define IP6 40
#define UDP 8
#define BTH 12
#define DCP 6
#define RETH 16
#define IMMDT 4

/* Where fields are: in a frame, in a frame with IPv4 or IPv6, in a UDP header. */
#define TYPE 12
#define IP_VERSION ETH
#define IP4_TOS (ETH + 1)
#define IP4_LENGTH (ETH + 2)
#define IP4_FRAGMENT (ETH + 6)
#define IP4_PROTOCOL (ETH + 9)
#define IP4_CHECKSUM (ETH + 10)
#define IP6_CLASS (ETH + 1) /* the lower half of the traffic class, in the upper half of the byte */
#define IP6_LENGTH (ETH + 4)
#define IP6_NEXT (ETH + 6)
#define IP6_ADDRESSES (ETH + 8)
#define UDP_PORT 2
#define UDP_LENGTH 4
#define UDP_CHECKSUM 6

/* Opcodes of DCP (trim.OpWrite and others) and of IBTA, section 9.2.1. */
enum opcode { OP_WRITE = 0xc0, OP_WRITE_IMM, OP_SEND, OP_SEND_IMM, UC_WRITE_ONLY = 0x2a, UC_WRITE_ONLY_IMM };

enum tag { OTHER, ACK, DATA, HEADER_ONLY };
enum verdict { PASS, DROP, TRIM, CONTROL };

/* A meter is switchfn/trim's Meter: fields, order and sizes. */
struct meter {
	struct bpf_spin_lock lock;
	__u32 ps_per_byte;
	__u32 overhead;
	__u32 rest;
	__u64 idle, limit, every, seen;
	__u64 data, trimmed, header_only, ack, other, dropped;
	__u64 most_backlog;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct meter);
} meters SEC(".maps");

/* How many bytes stay of a packet that is trimmed, at most MAX_KEEP; 0: as many as its opcode needs. */
volatile const __u32 keep = 0;
/* Take the time from clock_ns instead of the kernel: for tests. */
volatile const __u8 own_clock = 0;
__u64 clock_ns = 0;

struct layout {
	__u32 end, opcode, tag;
};

static __always_inline __u32 keep_of(__u32 opcode)
{
	switch (opcode) {
	case OP_WRITE:
	case OP_WRITE_IMM:
	case OP_SEND:
	case OP_SEND_IMM:
		return BTH + DCP;
	case UC_WRITE_ONLY:
		return BTH + RETH;
	case UC_WRITE_ONLY_IMM:
		return BTH + RETH + IMMDT;
	}
	return 0;
}

static __always_inline __u32 be16(const __u8 *p) { return (__u32)p[0] << 8 | p[1]; }

/* transport looks at UDP and the opcode behind udp bytes; the frame has len. */
static __always_inline int transport(const __u8 *b, const __u8 *stop, __u32 udp, __u32 len, struct layout *l)
{
	if (l->end > len || l->end < udp + UDP + BTH || b + udp + UDP + BTH > stop)
		return 0;
	if (be16(b + udp + UDP_PORT) != ROCE_PORT || be16(b + udp + UDP_LENGTH) != l->end - udp)
		return 0;
	l->opcode = b[udp + UDP];
	return 1;
}

/* length is how long the frame would be when trimmed, 0 if it can't be. */
static __always_inline __u32 length(const struct layout *l, __u32 udp)
{
	__u32 n = keep;
	if (n == 0) {
		__u32 k = keep_of(l->opcode);
		if (k == 0)
			return 0;
		n = udp + UDP + k;
	}
	if (n < udp + UDP + BTH || n >= l->end || n > MAX_KEEP)
		return 0;
	return n;
}

static __always_inline void count(struct meter *m, __u32 t, int v)
{
	if (v == DROP)
		m->dropped++;
	else if (v == TRIM)
		m->trimmed++;
	else if (t == HEADER_ONLY)
		m->header_only++;
	else if (t == DATA)
		m->data++;
	else if (t == ACK)
		m->ack++;
	else
		m->other++;
}

/* decide is Meter.admit and Meter.take. n is the length when trimmed, 0 if that can't be. */
static __always_inline int decide(struct meter *m, __u32 t, __u32 n, __u32 len)
{
	__u64 now = own_clock ? clock_ns : bpf_ktime_get_ns();
	int v = PASS;

	bpf_spin_lock(&m->lock);
	__u64 backlog = m->idle > now ? m->idle - now : 0;
	if (backlog > m->most_backlog)
		m->most_backlog = backlog;
	int full = backlog >= m->limit;
	if (t == HEADER_ONLY) {
		v = CONTROL;
	} else if (t == DATA && n > 0) {
		m->seen++;
		if (full || (m->every > 0 && m->seen % m->every == 0))
			v = TRIM;
	} else if (full) {
		v = DROP;
	}
	count(m, t, v);
	if (v != DROP && backlog < ROOM * m->limit) {
		if (v == TRIM)
			len = n;
		if (m->idle < now) {
			m->idle = now;
			m->rest = 0;
		}
		__u64 ps = ((__u64)len + m->overhead) * m->ps_per_byte + m->rest;
		m->idle += ps / 1000;
		m->rest = ps % 1000;
	}
	bpf_spin_unlock(&m->lock);
	return v;
}

static __always_inline __u16 fold(__u32 s)
{
	s = (s & 0xffff) + (s >> 16);
	s += s >> 16;
	return ~s;
}

static __always_inline void put16(__u8 *p, __u32 v)
{
	p[0] = v >> 8;
	p[1] = v;
}

static __always_inline int cut4(struct xdp_md *ctx, __u32 n, __u32 len)
{
	if (bpf_xdp_adjust_tail(ctx, (int)n - (int)len))
		return XDP_DROP;
	__u8 *b = (void *)(long)ctx->data, *stop = (void *)(long)ctx->data_end;
	if (b + ETH + IP4 + UDP > stop)
		return XDP_DROP;
	put16(b + ETH + IP4 + UDP_LENGTH, n - ETH - IP4);
	put16(b + ETH + IP4 + UDP_CHECKSUM, 0);
	b[IP4_TOS] |= HEADER_ONLY << 2;
	put16(b + IP4_LENGTH, n - ETH);
	put16(b + IP4_CHECKSUM, 0);
	__u32 s = 0;
#pragma unroll
	for (int i = 0; i < IP4; i += 2)
		s += be16(b + ETH + i);
	put16(b + IP4_CHECKSUM, fold(s));
	return XDP_PASS;
}

static __always_inline int cut6(struct xdp_md *ctx, __u32 n, __u32 len)
{
	if (bpf_xdp_adjust_tail(ctx, (int)n - (int)len))
		return XDP_DROP;
	__u8 *b = (void *)(long)ctx->data, *stop = (void *)(long)ctx->data_end;
	if (b + ETH + IP6 + UDP > stop)
		return XDP_DROP;
	__u32 rest = n - ETH - IP6;
	put16(b + ETH + IP6 + UDP_LENGTH, rest);
	put16(b + ETH + IP6 + UDP_CHECKSUM, 0);
	b[IP6_CLASS] |= HEADER_ONLY << 6;
	put16(b + IP6_LENGTH, rest);
	__u32 s = rest + IPPROTO_UDP;
	__u8 *p = b + IP6_ADDRESSES; /* and UDP behind them */
	for (int i = 0; i < MAX_KEEP / 2; i++) {
		if (p + 2 > stop)
			break;
		s += be16(p);
		p += 2;
	}
	if (p + 1 <= stop)
		s += (__u32)p[0] << 8;
	__u16 sum = fold(s);
	put16(b + ETH + IP6 + UDP_CHECKSUM, sum ? sum : 0xffff); /* 0 would mean none (RFC 8200, section 8.1) */
	return XDP_PASS;
}

SEC("xdp")
int trim(struct xdp_md *ctx)
{
	__u8 *b = (void *)(long)ctx->data, *stop = (void *)(long)ctx->data_end;
	__u32 len = stop - b, n = 0, v6 = 0, key = 0;
	struct layout l = {};
	struct meter *m = bpf_map_lookup_elem(&meters, &key);

	if (!m)
		return XDP_ABORTED;
	if (b + ETH + IP4 > stop)
		goto decided;
	if (be16(b + TYPE) == ETH_P_IP) {
		if (b[IP_VERSION] != 0x45 || b[IP4_PROTOCOL] != IPPROTO_UDP || be16(b + IP4_FRAGMENT) & 0x3fff) /* options, a fragment */
			goto decided;
		l.end = ETH + be16(b + IP4_LENGTH);
		if (transport(b, stop, ETH + IP4, len, &l)) {
			l.tag = b[IP4_TOS] >> 2 & 3;
			n = length(&l, ETH + IP4);
		}
	} else if (be16(b + TYPE) == ETH_P_IPV6) {
		if (b + ETH + IP6 > stop || b[IP_VERSION] >> 4 != 6 || b[IP6_NEXT] != IPPROTO_UDP)
			goto decided;
		v6 = 1;
		l.end = ETH + IP6 + be16(b + IP6_LENGTH);
		if (transport(b, stop, ETH + IP6, len, &l)) {
			l.tag = b[IP6_CLASS] >> 6;
			n = length(&l, ETH + IP6);
		}
	}
decided:
	switch (decide(m, l.tag, n, len)) {
	case DROP:
		return XDP_DROP;
	case TRIM:
		return v6 ? cut6(ctx, n, len) : cut4(ctx, n, len);
	}
	return XDP_PASS;
}

/*
 * The licence of this file. No helper that it calls is for GPL programs alone: bpf_ktime_get_ns() was up to Linux 5.7, and XDP links are
 * there since 5.9.
 */
char _license[] SEC("license") = "Apache-2.0";
