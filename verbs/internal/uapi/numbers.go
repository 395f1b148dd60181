// SPDX-License-Identifier: Apache-2.0

package uapi

// RDMA_VERBS_IOCTL is _IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr), rdma_user_ioctl_cmds.h.
const RDMA_VERBS_IOCTL = 0xc0181b01

// Drivers, enum rdma_driver_id. The kernel refuses calls that name another driver than the device's.
const (
	RDMA_DRIVER_MLX5 = 1
	RDMA_DRIVER_RXE  = 14
)

// Attribute flags, rdma_user_ioctl_cmds.h.
const UVERBS_ATTR_F_MANDATORY = 1

// Object types, enum uverbs_default_objects.
const (
	UVERBS_OBJECT_DEVICE      = 0
	UVERBS_OBJECT_PD          = 1
	UVERBS_OBJECT_CQ          = 3
	UVERBS_OBJECT_QP          = 4
	UVERBS_OBJECT_SRQ         = 5
	UVERBS_OBJECT_AH          = 6
	UVERBS_OBJECT_MR          = 7
	UVERBS_OBJECT_MW          = 8
	UVERBS_OBJECT_ASYNC_EVENT = 16
)

// Commands of the write interface, reached through INVOKE_WRITE; ib_user_verbs.h.
const (
	IB_USER_VERBS_CMD_ALLOC_PD            = 3
	IB_USER_VERBS_CMD_CREATE_AH           = 5
	IB_USER_VERBS_CMD_REG_MR              = 9
	IB_USER_VERBS_CMD_ALLOC_MW            = 14
	IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL = 17
	IB_USER_VERBS_CMD_RESIZE_CQ           = 19
	IB_USER_VERBS_CMD_REQ_NOTIFY_CQ       = 23
	IB_USER_VERBS_CMD_QUERY_QP            = 25
	IB_USER_VERBS_CMD_MODIFY_QP           = 26
	IB_USER_VERBS_CMD_POST_SEND           = 28
	IB_USER_VERBS_CMD_ATTACH_MCAST        = 30
	IB_USER_VERBS_CMD_DETACH_MCAST        = 31
	IB_USER_VERBS_CMD_MODIFY_SRQ          = 33
	IB_USER_VERBS_CMD_QUERY_SRQ           = 34

	IB_USER_VERBS_CMD_FLAG_EXTENDED   = 0x80000000
	IB_USER_VERBS_EX_CMD_QUERY_DEVICE = 1
	IB_USER_VERBS_EX_CMD_MODIFY_QP    = 26
	IB_USER_VERBS_EX_CMD_MODIFY_CQ    = 57
)

// QP types, enum ib_uverbs_qp_type.
const (
	IB_UVERBS_QPT_RC = 2
	IB_UVERBS_QPT_UC = 3
	IB_UVERBS_QPT_UD = 4
)

// QP creation flags, enum ib_uverbs_qp_create_flags.
const IB_UVERBS_QP_CREATE_SQ_SIG_ALL = 1 << 12

// SRQ types, enum ib_uverbs_srq_type.
const IB_UVERBS_SRQT_BASIC = 0

// GID types, enum ib_uverbs_gid_type.
const (
	IB_UVERBS_GID_TYPE_IB      = 0
	IB_UVERBS_GID_TYPE_ROCE_V1 = 1
	IB_UVERBS_GID_TYPE_ROCE_V2 = 2
)

// Work request opcodes, enum ib_uverbs_wr_opcode.
const (
	IB_UVERBS_WR_RDMA_WRITE           = 0
	IB_UVERBS_WR_RDMA_WRITE_WITH_IMM  = 1
	IB_UVERBS_WR_SEND                 = 2
	IB_UVERBS_WR_SEND_WITH_IMM        = 3
	IB_UVERBS_WR_RDMA_READ            = 4
	IB_UVERBS_WR_ATOMIC_CMP_AND_SWP   = 5
	IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD = 6
	IB_UVERBS_WR_LOCAL_INV            = 7
	IB_UVERBS_WR_BIND_MW              = 8
)
