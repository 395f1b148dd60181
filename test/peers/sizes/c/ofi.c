/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libfabric: tagged messages between reliable-datagram endpoints, as fabtests' fi_rdm_tagged_bw sends them. The library argument is
 * a provider ("tcp;ofi_rxm", "udp;ofi_rxd"), with "+" before it for FI_DELIVERY_COMPLETE: a send is done when its message is in the
 * receiver's buffer, and not when the buffer that it came from is free.
 */
#include "end.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t peer = FI_ADDR_UNSPEC;
static struct fi_context2 *contexts;
static char version[200];

static void must(const char *what, ssize_t status)
{
	if (status < 0)
		fail(what, fi_strerror(-status));
}

static struct fi_info *find(const char *provider, int delivered)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->tx_attr->op_flags = delivered ? FI_DELIVERY_COMPLETE : 0;
	hints->fabric_attr->prov_name = strdup(provider);
	must("fi_getinfo", fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	return info;
}

static void library_open(const char *provider, const char *address, int receiving)
{
	struct fi_info *info = find(provider + (*provider == '+'), *provider == '+');
	struct fi_cq_attr cq_attr = {.size = 8 * slots + 64, .format = FI_CQ_FORMAT_CONTEXT};
	struct fi_av_attr av_attr = {.type = FI_AV_MAP};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct sockaddr_in own;
	size_t n = sizeof own;

	must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	must("fi_domain", fi_domain(fabric, info, &domain, NULL));
	must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
	must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
	must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
	must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
	must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	must("fi_enable", fi_enable(ep));
	must("fi_getname", fi_getname(&ep->fid, &own, &n));
	contexts = calloc(slots, sizeof *contexts);
	snprintf(version, sizeof version, "libfabric %d.%d, %s", FI_MAJOR(fi_version()), FI_MINOR(fi_version()), info->fabric_attr->prov_name);
	if (receiving) {
		printf("ready %d\n", ntohs(own.sin_port));
		fflush(stdout);
		return;
	}
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(address)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fi_av_insert(av, &to, 1, &peer, 0, NULL) != 1)
		fail("fi_av_insert", address);
}

static int library_send(int slot, void *b, size_t n)
{
	ssize_t status = fi_tsend(ep, b, n, NULL, peer, 1, &contexts[slot]);

	if (status == -FI_EAGAIN)
		return 0;
	must("fi_tsend", status);
	return 1;
}

static void library_receive(int slot, void *b, size_t n)
{
	ssize_t status;

	while ((status = fi_trecv(ep, b, n, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[slot])) == -FI_EAGAIN)
		library_progress();
	must("fi_trecv", status);
}

static void library_progress(void)
{
	struct fi_cq_entry all[64];
	ssize_t n = fi_cq_read(cq, all, 64);

	if (n == -FI_EAVAIL) {
		struct fi_cq_err_entry e = {0};
		fi_cq_readerr(cq, &e, 0);
		fail("completion", fi_strerror(e.err));
	}
	if (n != -FI_EAGAIN)
		must("fi_cq_read", n);
	for (ssize_t i = 0; i < n; i++)
		finished((struct fi_context2 *)all[i].op_context - contexts);
}

static const char *library_version(void) { return version; }
