// SPDX-License-Identifier: Apache-2.0

package uapi

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layouts names the C structure of each Go structure; "union" members are given as a path.
var layouts = map[string]any{
	"ib_uverbs_ioctl_hdr":                IoctlHdr{},
	"ib_uverbs_attr":                     Attr{},
	"ib_uverbs_ex_query_device":          ExQueryDevice{},
	"ib_uverbs_query_device_resp":        QueryDeviceResp{},
	"ib_uverbs_ex_query_device_resp":     ExQueryDeviceResp{},
	"ib_uverbs_odp_caps":                 OdpCaps{},
	"ib_uverbs_cq_moderation_caps":       CqModerationCaps{},
	"ib_uverbs_query_port_resp":          QueryPortResp{},
	"ib_uverbs_query_port_resp_ex":       QueryPortRespEx{},
	"ib_uverbs_gid_entry":                GidEntry{},
	"ib_uverbs_alloc_pd":                 AllocPd{},
	"ib_uverbs_alloc_pd_resp":            AllocPdResp{},
	"ib_uverbs_reg_mr":                   RegMr{},
	"ib_uverbs_reg_mr_resp":              RegMrResp{},
	"ib_uverbs_alloc_mw":                 AllocMw{},
	"ib_uverbs_alloc_mw_resp":            AllocMwResp{},
	"ib_uverbs_create_comp_channel":      CreateCompChannel{},
	"ib_uverbs_create_comp_channel_resp": CreateCompChannelResp{},
	"ib_uverbs_req_notify_cq":            ReqNotifyCq{},
	"ib_uverbs_destroy_cq_resp":          DestroyCqResp{},
	"ib_uverbs_ex_modify_cq":             ExModifyCq{},
	"ib_uverbs_qp_cap":                   QpCap{},
	"ib_uverbs_qp_dest":                  QpDest{},
	"ib_uverbs_modify_qp":                ModifyQp{},
	"ib_uverbs_query_qp":                 QueryQp{},
	"ib_uverbs_query_qp_resp":            QueryQpResp{},
	"ib_uverbs_post_send":                PostSend{},
	"ib_uverbs_post_send_resp":           PostSendResp{},
	"ib_uverbs_create_ah":                CreateAh{},
	"ib_uverbs_ah_attr":                  AhAttr{},
	"ib_uverbs_create_ah_resp":           CreateAhResp{},
	"ib_uverbs_attach_mcast":             AttachMcast{},
	"ib_uverbs_modify_srq":               ModifySrq{},
	"ib_uverbs_query_srq":                QuerySrq{},
	"ib_uverbs_query_srq_resp":           QuerySrqResp{},
	"ib_uverbs_async_event_desc":         AsyncEventDesc{},
	"ib_uverbs_wc":                       Wc{},
	"mlx5_ib_alloc_ucontext_req_v2":      Mlx5AllocUcontextReq{},
	"mlx5_ib_alloc_ucontext_resp":        Mlx5AllocUcontextResp{},
	"mlx5_ib_create_cq":                  Mlx5CreateCq{},
	"mlx5_ib_create_cq_resp":             Mlx5CreateCqResp{},
	"mlx5_ib_create_srq":                 Mlx5CreateSrq{},
	"mlx5_ib_create_srq_resp":            Mlx5CreateSrqResp{},
	"mlx5_ib_create_qp":                  Mlx5CreateQp{},
	"mlx5_ib_create_qp_resp":             Mlx5CreateQpResp{},
	"mlx5_ib_create_ah_resp":             Mlx5CreateAhResp{},
	"mminfo":                             RxeMminfo{},
	"rxe_create_cq_resp":                 RxeCreateCqResp{},
	"rxe_resize_cq_resp":                 RxeResizeCqResp{},
	"ib_uverbs_resize_cq":                ResizeCq{},
	"ib_uverbs_resize_cq_resp":           ResizeCqResp{},
	"ib_uverbs_ex_modify_qp":             ExModifyQp{},
	"ib_uverbs_ex_modify_qp_resp":        ExModifyQpResp{},
	"mlx5_ib_query_device_resp":          Mlx5QueryDeviceResp{},
	"mlx5_ib_modify_qp":                  Mlx5ModifyQp{},
	"mlx5_ib_resize_cq":                  Mlx5ResizeCq{},
	"rxe_create_qp_resp":                 RxeCreateQpResp{},
	"rxe_create_srq_resp":                RxeCreateSrqResp{},
	"rxe_create_ah_resp":                 RxeCreateAhResp{},
	"rxe_modify_srq_cmd":                 RxeModifySrqCmd{},
	"rxe_queue_buf":                      RxeQueueBuf{},
	"rxe_sge":                            RxeSge{},
	"rxe_dma_info":                       RxeDmaInfo{},
	"rxe_send_wqe":                       RxeSendWqe{},
	"rxe_recv_wqe":                       RxeRecvWqe{},
	"rxe_send_wr.rdma":                   RxeWrRdma{},
	"rxe_send_wr.atomic":                 RxeWrAtomic{},
	"rxe_send_wr.ud":                     RxeWrUD{},
	"rxe_send_wr.mw":                     RxeWrMW{},
}

// partial structures are read or written only up to the last Go field.
var partial = map[string]bool{"rxe_send_wr.ud": true, "mlx5_ib_query_device_resp": true}

// newer are fields of headers that are younger than those that the layouts are of: they lie in what was reserved.
var newer = map[string]bool{"ib_uverbs_query_port_resp_ex ActiveSpeedEx": true}

var numbers = map[string]uint64{
	"MLX5_LIB_CAP_4K_UAR": MLX5_LIB_CAP_4K_UAR, "MLX5_LIB_CAP_DYN_UAR": MLX5_LIB_CAP_DYN_UAR,
	"MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX": MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX,
	"MLX5_QP_FLAG_UAR_PAGE_INDEX":            MLX5_QP_FLAG_UAR_PAGE_INDEX, "MLX5_IB_OBJECT_UAR": MLX5_IB_OBJECT_UAR, "MLX5_IB_OBJECT_DEVX": MLX5_IB_OBJECT_DEVX,
	"MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF": MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF, "MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC": MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC, "MLX5_IB_ALLOC_UCTX_DEVX": MLX5_IB_ALLOC_UCTX_DEVX,
	"MLX5_IB_OBJECT_DEVX_OBJ":                         MLX5_IB_OBJECT_DEVX_OBJ,
	"MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY": MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY,
	"RDMA_VERBS_IOCTL":                                RDMA_VERBS_IOCTL, "RDMA_DRIVER_MLX5": RDMA_DRIVER_MLX5, "RDMA_DRIVER_RXE": RDMA_DRIVER_RXE,
	"UVERBS_ATTR_F_MANDATORY": UVERBS_ATTR_F_MANDATORY,
	"UVERBS_OBJECT_DEVICE":    UVERBS_OBJECT_DEVICE, "UVERBS_OBJECT_PD": UVERBS_OBJECT_PD, "UVERBS_OBJECT_CQ": UVERBS_OBJECT_CQ,
	"UVERBS_OBJECT_QP": UVERBS_OBJECT_QP, "UVERBS_OBJECT_SRQ": UVERBS_OBJECT_SRQ, "UVERBS_OBJECT_AH": UVERBS_OBJECT_AH,
	"UVERBS_OBJECT_MR": UVERBS_OBJECT_MR, "UVERBS_OBJECT_MW": UVERBS_OBJECT_MW, "UVERBS_OBJECT_ASYNC_EVENT": UVERBS_OBJECT_ASYNC_EVENT,
	"IB_USER_VERBS_CMD_ALLOC_PD": IB_USER_VERBS_CMD_ALLOC_PD, "IB_USER_VERBS_CMD_CREATE_AH": IB_USER_VERBS_CMD_CREATE_AH,
	"IB_USER_VERBS_CMD_REG_MR": IB_USER_VERBS_CMD_REG_MR, "IB_USER_VERBS_CMD_ALLOC_MW": IB_USER_VERBS_CMD_ALLOC_MW,
	"IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL": IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
	"IB_USER_VERBS_CMD_RESIZE_CQ":           IB_USER_VERBS_CMD_RESIZE_CQ,
	"IB_USER_VERBS_CMD_REQ_NOTIFY_CQ":       IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
	"IB_USER_VERBS_CMD_QUERY_QP":            IB_USER_VERBS_CMD_QUERY_QP, "IB_USER_VERBS_CMD_MODIFY_QP": IB_USER_VERBS_CMD_MODIFY_QP,
	"IB_USER_VERBS_CMD_POST_SEND": IB_USER_VERBS_CMD_POST_SEND, "IB_USER_VERBS_CMD_ATTACH_MCAST": IB_USER_VERBS_CMD_ATTACH_MCAST,
	"IB_USER_VERBS_CMD_DETACH_MCAST": IB_USER_VERBS_CMD_DETACH_MCAST, "IB_USER_VERBS_CMD_MODIFY_SRQ": IB_USER_VERBS_CMD_MODIFY_SRQ,
	"IB_USER_VERBS_CMD_QUERY_SRQ": IB_USER_VERBS_CMD_QUERY_SRQ, "IB_USER_VERBS_CMD_FLAG_EXTENDED": IB_USER_VERBS_CMD_FLAG_EXTENDED,
	"IB_USER_VERBS_EX_CMD_QUERY_DEVICE": IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "IB_USER_VERBS_EX_CMD_MODIFY_CQ": IB_USER_VERBS_EX_CMD_MODIFY_CQ,
	"IB_USER_VERBS_EX_CMD_MODIFY_QP": IB_USER_VERBS_EX_CMD_MODIFY_QP,
	"IB_UVERBS_QPT_RC":               IB_UVERBS_QPT_RC, "IB_UVERBS_QPT_UC": IB_UVERBS_QPT_UC, "IB_UVERBS_QPT_UD": IB_UVERBS_QPT_UD,
	"IB_UVERBS_QP_CREATE_SQ_SIG_ALL": IB_UVERBS_QP_CREATE_SQ_SIG_ALL, "IB_UVERBS_SRQT_BASIC": IB_UVERBS_SRQT_BASIC,
	"IB_UVERBS_GID_TYPE_IB": IB_UVERBS_GID_TYPE_IB, "IB_UVERBS_GID_TYPE_ROCE_V1": IB_UVERBS_GID_TYPE_ROCE_V1,
	"IB_UVERBS_GID_TYPE_ROCE_V2": IB_UVERBS_GID_TYPE_ROCE_V2,
	"IB_UVERBS_WR_RDMA_WRITE":    IB_UVERBS_WR_RDMA_WRITE, "IB_UVERBS_WR_RDMA_WRITE_WITH_IMM": IB_UVERBS_WR_RDMA_WRITE_WITH_IMM,
	"IB_UVERBS_WR_SEND": IB_UVERBS_WR_SEND, "IB_UVERBS_WR_SEND_WITH_IMM": IB_UVERBS_WR_SEND_WITH_IMM,
	"IB_UVERBS_WR_RDMA_READ": IB_UVERBS_WR_RDMA_READ, "IB_UVERBS_WR_ATOMIC_CMP_AND_SWP": IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
	"IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD": IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, "IB_UVERBS_WR_LOCAL_INV": IB_UVERBS_WR_LOCAL_INV,
	"IB_UVERBS_WR_BIND_MW": IB_UVERBS_WR_BIND_MW,
}

// attributes holds every attribute of the tables under its C name.
var attributes = map[string]Attribute{
	"MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE": MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, "MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE": MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE,
	"MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET": MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
	"MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH": MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
	"MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID":     MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
	"MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE":    MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
	"MLX5_IB_ATTR_DEVX_OTHER_CMD_IN":         MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, "MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT": MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
	"MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE":    MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
	"MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN":    MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
	"MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT":   MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
	"MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE":   MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
	"UVERBS_ATTR_REG_DMABUF_MR_HANDLE":       UVERBS_ATTR_REG_DMABUF_MR_HANDLE,
	"UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE":    UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE,
	"UVERBS_ATTR_REG_DMABUF_MR_OFFSET":       UVERBS_ATTR_REG_DMABUF_MR_OFFSET,
	"UVERBS_ATTR_REG_DMABUF_MR_LENGTH":       UVERBS_ATTR_REG_DMABUF_MR_LENGTH,
	"UVERBS_ATTR_REG_DMABUF_MR_IOVA":         UVERBS_ATTR_REG_DMABUF_MR_IOVA,
	"UVERBS_ATTR_REG_DMABUF_MR_FD":           UVERBS_ATTR_REG_DMABUF_MR_FD,
	"UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS": UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
	"UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY":    UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY,
	"UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY":    UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY,
	"UVERBS_ATTR_UHW_IN":                     UVERBS_ATTR_UHW_IN, "UVERBS_ATTR_UHW_OUT": UVERBS_ATTR_UHW_OUT,
	"UVERBS_ATTR_CORE_IN": UVERBS_ATTR_CORE_IN, "UVERBS_ATTR_CORE_OUT": UVERBS_ATTR_CORE_OUT, "UVERBS_ATTR_WRITE_CMD": UVERBS_ATTR_WRITE_CMD,
	"UVERBS_ATTR_QUERY_PORT_PORT_NUM": UVERBS_ATTR_QUERY_PORT_PORT_NUM, "UVERBS_ATTR_QUERY_PORT_RESP": UVERBS_ATTR_QUERY_PORT_RESP,
	"UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS":     UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
	"UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT":         UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
	"UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE":       UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
	"UVERBS_ATTR_QUERY_GID_TABLE_FLAGS":            UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
	"UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES":     UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
	"UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES": UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
	"UVERBS_ATTR_QUERY_GID_ENTRY_PORT":             UVERBS_ATTR_QUERY_GID_ENTRY_PORT,
	"UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX":        UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
	"UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS":            UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS,
	"UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY":       UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
	"UVERBS_ATTR_CREATE_CQ_HANDLE":                 UVERBS_ATTR_CREATE_CQ_HANDLE, "UVERBS_ATTR_CREATE_CQ_CQE": UVERBS_ATTR_CREATE_CQ_CQE,
	"UVERBS_ATTR_CREATE_CQ_USER_HANDLE": UVERBS_ATTR_CREATE_CQ_USER_HANDLE, "UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL": UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL,
	"UVERBS_ATTR_CREATE_CQ_COMP_VECTOR": UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, "UVERBS_ATTR_CREATE_CQ_RESP_CQE": UVERBS_ATTR_CREATE_CQ_RESP_CQE,
	"UVERBS_ATTR_CREATE_CQ_EVENT_FD": UVERBS_ATTR_CREATE_CQ_EVENT_FD, "UVERBS_ATTR_DESTROY_CQ_HANDLE": UVERBS_ATTR_DESTROY_CQ_HANDLE,
	"UVERBS_ATTR_DESTROY_CQ_RESP": UVERBS_ATTR_DESTROY_CQ_RESP, "UVERBS_ATTR_CREATE_QP_HANDLE": UVERBS_ATTR_CREATE_QP_HANDLE,
	"UVERBS_ATTR_CREATE_QP_PD_HANDLE": UVERBS_ATTR_CREATE_QP_PD_HANDLE, "UVERBS_ATTR_CREATE_QP_SRQ_HANDLE": UVERBS_ATTR_CREATE_QP_SRQ_HANDLE,
	"UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE": UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, "UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE": UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
	"UVERBS_ATTR_CREATE_QP_USER_HANDLE": UVERBS_ATTR_CREATE_QP_USER_HANDLE, "UVERBS_ATTR_CREATE_QP_CAP": UVERBS_ATTR_CREATE_QP_CAP,
	"UVERBS_ATTR_CREATE_QP_TYPE": UVERBS_ATTR_CREATE_QP_TYPE, "UVERBS_ATTR_CREATE_QP_FLAGS": UVERBS_ATTR_CREATE_QP_FLAGS,
	"UVERBS_ATTR_CREATE_QP_EVENT_FD": UVERBS_ATTR_CREATE_QP_EVENT_FD, "UVERBS_ATTR_CREATE_QP_RESP_CAP": UVERBS_ATTR_CREATE_QP_RESP_CAP,
	"UVERBS_ATTR_CREATE_QP_RESP_QP_NUM": UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, "UVERBS_ATTR_DESTROY_QP_HANDLE": UVERBS_ATTR_DESTROY_QP_HANDLE,
	"UVERBS_ATTR_DESTROY_QP_RESP": UVERBS_ATTR_DESTROY_QP_RESP, "UVERBS_ATTR_CREATE_SRQ_HANDLE": UVERBS_ATTR_CREATE_SRQ_HANDLE,
	"UVERBS_ATTR_CREATE_SRQ_PD_HANDLE": UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, "UVERBS_ATTR_CREATE_SRQ_USER_HANDLE": UVERBS_ATTR_CREATE_SRQ_USER_HANDLE,
	"UVERBS_ATTR_CREATE_SRQ_MAX_WR": UVERBS_ATTR_CREATE_SRQ_MAX_WR, "UVERBS_ATTR_CREATE_SRQ_MAX_SGE": UVERBS_ATTR_CREATE_SRQ_MAX_SGE,
	"UVERBS_ATTR_CREATE_SRQ_LIMIT": UVERBS_ATTR_CREATE_SRQ_LIMIT, "UVERBS_ATTR_CREATE_SRQ_TYPE": UVERBS_ATTR_CREATE_SRQ_TYPE,
	"UVERBS_ATTR_CREATE_SRQ_EVENT_FD": UVERBS_ATTR_CREATE_SRQ_EVENT_FD, "UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR": UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR,
	"UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE": UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, "UVERBS_ATTR_DESTROY_SRQ_HANDLE": UVERBS_ATTR_DESTROY_SRQ_HANDLE,
	"UVERBS_ATTR_DESTROY_SRQ_RESP": UVERBS_ATTR_DESTROY_SRQ_RESP, "UVERBS_ATTR_DESTROY_PD_HANDLE": UVERBS_ATTR_DESTROY_PD_HANDLE,
	"UVERBS_ATTR_DESTROY_MR_HANDLE": UVERBS_ATTR_DESTROY_MR_HANDLE, "UVERBS_ATTR_DESTROY_MW_HANDLE": UVERBS_ATTR_DESTROY_MW_HANDLE,
	"UVERBS_ATTR_DESTROY_AH_HANDLE":           UVERBS_ATTR_DESTROY_AH_HANDLE,
	"UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE": UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
}

// firstMLX5Object is the first object of the drivers' own (UVERBS_ID_NS_SHIFT); mlx5's are all we know.
const firstMLX5Object = 1 << 12

var methods = []*Method{
	&MLX5_IB_METHOD_UAR_OBJ_ALLOC, &MLX5_IB_METHOD_UAR_OBJ_DESTROY, &MLX5_IB_METHOD_DEVX_OTHER, &MLX5_IB_METHOD_DEVX_OBJ_CREATE, &MLX5_IB_METHOD_DEVX_OBJ_DESTROY, &UVERBS_METHOD_INVOKE_WRITE, &UVERBS_METHOD_QUERY_PORT, &UVERBS_METHOD_GET_CONTEXT, &UVERBS_METHOD_QUERY_GID_TABLE,
	&UVERBS_METHOD_QUERY_GID_ENTRY, &UVERBS_METHOD_CQ_CREATE, &UVERBS_METHOD_CQ_DESTROY, &UVERBS_METHOD_QP_CREATE,
	&UVERBS_METHOD_QP_DESTROY, &UVERBS_METHOD_SRQ_CREATE, &UVERBS_METHOD_SRQ_DESTROY, &UVERBS_METHOD_PD_DESTROY,
	&UVERBS_METHOD_MR_DESTROY, &UVERBS_METHOD_REG_DMABUF_MR, &UVERBS_METHOD_MW_DESTROY, &UVERBS_METHOD_AH_DESTROY, &UVERBS_METHOD_ASYNC_EVENT_ALLOC,
}

// snake turns a Go field name into the C one.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// ours prints the same lines as the C program, from the Go declarations.
func ours() map[string]uint64 {
	lines := map[string]uint64{}
	for name, v := range layouts {
		t := reflect.TypeOf(v)
		if !partial[name] && !strings.Contains(name, ".") {
			lines["size "+name] = uint64(t.Size())
		}
		for f := range t.Fields() {
			if f.Name == "_" || strings.HasSuffix(f.Name, "Reserved") || newer[name+" "+f.Name] {
				continue
			}
			field := f.Tag.Get("abi")
			if field == "" {
				field = snake(f.Name)
			}
			lines["offset "+name+" "+field] = uint64(f.Offset)
			lines["width "+name+" "+field] = uint64(f.Type.Size())
		}
	}
	for name, v := range numbers {
		lines["number "+name] = v
	}
	for name, a := range attributes {
		lines["number "+name] = uint64(a.ID)
	}
	for _, m := range methods {
		prefix := "UVERBS_METHOD_"
		if m.Object >= firstMLX5Object {
			prefix = "MLX5_IB_METHOD_"
		}
		lines["number "+prefix+m.Name] = uint64(m.ID)
	}
	return lines
}

func readLayout(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	lines := map[string]uint64{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") || s.Text() == "" {
			continue
		}
		key, value, ok := cutLast(s.Text())
		require.True(t, ok, s.Text())
		var v uint64
		_, err := fmt.Sscan(value, &v)
		require.NoError(t, err, s.Text())
		lines[key] = v
	}
	return lines
}

func cutLast(s string) (key, value string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func TestLayoutMatchesKernelHeaders(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "layout.txt"))
	require.NoError(t, err)
	assert.Equal(t, readLayout(t, string(text)), ours())
}

// TestProbe compiles the C program against the headers of this machine: what was committed must
// hold for them too, whatever their version.
func TestProbe(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: apt-get install gcc libc6-dev linux-libc-dev")
	}
	if _, err := os.Stat("/usr/include/rdma/rdma_user_rxe.h"); err != nil {
		t.Skip("no kernel headers: apt-get install linux-libc-dev")
	}
	bin := filepath.Join(t.TempDir(), "probe")
	out, err := exec.Command(cc, "-Wall", "-Werror", "-o", bin, filepath.Join("probe", "probe.c")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(bin).Output()
	require.NoError(t, err)
	assert.Equal(t, readLayout(t, string(out)), ours())
}

func TestCallRefusesWhatIsNotInTheTable(t *testing.T) {
	c := NewCall(&UVERBS_METHOD_PD_DESTROY)
	defer c.pin.Unpin()
	wrong := uint32(0)
	assert.Panics(t, func() { PutIn(c, UVERBS_ATTR_CREATE_CQ_CQE, &wrong) })
	assert.NotPanics(t, func() { c.PutHandle(UVERBS_ATTR_DESTROY_PD_HANDLE, 7) })
	assert.EqualValues(t, 7, c.Result(UVERBS_ATTR_DESTROY_PD_HANDLE))
}

// TestShortInputsAreInline checks the rule of ib_uverbs_ioctl: up to eight bytes lie in the attribute.
func TestShortInputsAreInline(t *testing.T) {
	c := NewCall(&UVERBS_METHOD_CQ_CREATE)
	defer c.pin.Unpin()
	cqe := uint32(0x01020304)
	PutIn(c, UVERBS_ATTR_CREATE_CQ_CQE, &cqe)
	assert.Equal(t, Attr{AttrId: 1, Len: 4, Flags: UVERBS_ATTR_F_MANDATORY, Data: 0x01020304}, c.buf.attrs[0])
}
