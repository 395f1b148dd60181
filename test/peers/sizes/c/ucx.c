/* SPDX-License-Identifier: Apache-2.0 */

/*
 * UCX: tagged messages, as ucx_perftest -t tag_bw sends them. UCX_TLS and UCX_NET_DEVICES choose the transport. The library
 * argument is "sync" for sends that are done when the receiver has matched them (ucp_tag_send_sync), "plain" for those
 * that are done when their buffer is free.
 */
#include "end.h"

#include <ucp/api/ucp.h>

static ucp_worker_h worker;
static ucp_ep_h ep;
static int synchronous;
static char version[100];

static void must(const char *what, ucs_status_t status)
{
	if (status < 0)
		fail(what, ucs_status_string(status));
}

static void print_address(void)
{
	ucp_address_t *address;
	size_t n;

	must("ucp_worker_get_address", ucp_worker_get_address(worker, &address, &n));
	printf("ready ");
	for (size_t i = 0; i < n; i++)
		printf("%02x", ((unsigned char *)address)[i]);
	printf("\n");
	fflush(stdout);
}

static void library_open(const char *argument, const char *hex, int receiving)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_config_t *config;
	ucp_context_h context;

	synchronous = !strcmp(argument, "sync");
	must("ucp_config_read", ucp_config_read(NULL, NULL, &config));
	must("ucp_init", ucp_init(&params, config, &context));
	must("ucp_worker_create", ucp_worker_create(context, &single, &worker));
	snprintf(version, sizeof version, "UCX %s, %s", ucp_get_version_string(), getenv("UCX_TLS") ? getenv("UCX_TLS") : "any transport");
	if (receiving) {
		print_address();
		return;
	}
	size_t n = strlen(hex) / 2;
	unsigned char *address = malloc(n);

	for (size_t i = 0; i < n; i++)
		sscanf(hex + 2 * i, "%2hhx", &address[i]);
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)address};
	must("ucp_ep_create", ucp_ep_create(worker, &to, &ep));
}

static void sent(void *request, ucs_status_t status, void *slot)
{
	must("send", status);
	finished((intptr_t)slot);
	ucp_request_free(request);
}

static void came(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *slot)
{
	must("receive", status);
	if (info->length != size)
		fail("receive", "a message of another size");
	finished((intptr_t)slot);
	ucp_request_free(request);
}

static int library_send(int slot, void *b, size_t n)
{
	ucp_request_param_t p = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = sent, .user_data = (void *)(intptr_t)slot};
	ucs_status_ptr_t r = synchronous ? ucp_tag_send_sync_nbx(ep, b, n, 1, &p) : ucp_tag_send_nbx(ep, b, n, 1, &p);

	must("ucp_tag_send", UCS_PTR_STATUS(r));
	if (!r)
		finished(slot); /* at once, without a request */
	return 1;
}

static void library_receive(int slot, void *b, size_t n)
{
	ucp_request_param_t p = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
				 .cb.recv = came, .user_data = (void *)(intptr_t)slot};
	ucs_status_ptr_t r = ucp_tag_recv_nbx(worker, b, n, 1, -1, &p);

	must("ucp_tag_recv", UCS_PTR_STATUS(r));
}

static void library_progress(void) { ucp_worker_progress(worker); }

static const char *library_version(void) { return version; }
