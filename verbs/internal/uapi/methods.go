// SPDX-License-Identifier: Apache-2.0

package uapi

// Kind says what an attribute carries and which way (enum uverbs_attr_type in the kernel).
type Kind uint8

const (
	In        Kind = iota // data for the kernel; inline up to 8 bytes, else by pointer
	Const                 // a constant for the kernel, always 8 bytes inline
	Out                   // data from the kernel, by pointer
	Handle                // an existing object
	NewHandle             // a handle that the call makes
	FD                    // an existing file that the device has made
	NewFD                 // a file that the call makes
)

// Attribute is one attribute of a method.
type Attribute struct {
	ID   uint16
	Kind Kind
	// Size is the size of In and Out data; 0 allows any.
	Size     uint16
	Optional bool
}

// Method is one method of an object, with the attributes that this package can pass.
type Method struct {
	Object, ID uint16
	Name       string
	Attributes []Attribute
}

// Attributes of a provider's own data, beside those of every method.
var (
	UVERBS_ATTR_UHW_IN  = Attribute{ID: 0x1000, Kind: In, Optional: true}
	UVERBS_ATTR_UHW_OUT = Attribute{ID: 0x1001, Kind: Out, Optional: true}
)

// The attributes, by enum uverbs_attrs_*_cmd_attr_ids of ib_user_ioctl_cmds.h.
var (
	UVERBS_ATTR_CORE_IN   = Attribute{ID: 0, Kind: In, Optional: true}
	UVERBS_ATTR_CORE_OUT  = Attribute{ID: 1, Kind: Out, Optional: true}
	UVERBS_ATTR_WRITE_CMD = Attribute{ID: 2, Kind: Const}

	UVERBS_ATTR_QUERY_PORT_PORT_NUM = Attribute{ID: 0, Kind: Const}
	UVERBS_ATTR_QUERY_PORT_RESP     = Attribute{ID: 1, Kind: Out, Size: 48}

	UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS = Attribute{ID: 0, Kind: Out, Size: 4}
	UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT     = Attribute{ID: 1, Kind: Out, Size: 8}

	UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE       = Attribute{ID: 0, Kind: Const}
	UVERBS_ATTR_QUERY_GID_TABLE_FLAGS            = Attribute{ID: 1, Kind: In, Size: 4, Optional: true}
	UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES     = Attribute{ID: 2, Kind: Out}
	UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES = Attribute{ID: 3, Kind: Out, Size: 8}

	UVERBS_ATTR_QUERY_GID_ENTRY_PORT       = Attribute{ID: 0, Kind: Const}
	UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX  = Attribute{ID: 1, Kind: Const}
	UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS      = Attribute{ID: 2, Kind: In, Size: 4, Optional: true}
	UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY = Attribute{ID: 3, Kind: Out, Size: 32}

	UVERBS_ATTR_CREATE_CQ_HANDLE       = Attribute{ID: 0, Kind: NewHandle}
	UVERBS_ATTR_CREATE_CQ_CQE          = Attribute{ID: 1, Kind: In, Size: 4}
	UVERBS_ATTR_CREATE_CQ_USER_HANDLE  = Attribute{ID: 2, Kind: In, Size: 8}
	UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL = Attribute{ID: 3, Kind: FD, Optional: true}
	UVERBS_ATTR_CREATE_CQ_COMP_VECTOR  = Attribute{ID: 4, Kind: In, Size: 4}
	UVERBS_ATTR_CREATE_CQ_RESP_CQE     = Attribute{ID: 6, Kind: Out, Size: 4}
	UVERBS_ATTR_CREATE_CQ_EVENT_FD     = Attribute{ID: 7, Kind: FD, Optional: true}
	UVERBS_ATTR_DESTROY_CQ_HANDLE      = Attribute{ID: 0, Kind: Handle}
	UVERBS_ATTR_DESTROY_CQ_RESP        = Attribute{ID: 1, Kind: Out, Size: 8}

	UVERBS_ATTR_CREATE_QP_HANDLE         = Attribute{ID: 0, Kind: NewHandle}
	UVERBS_ATTR_CREATE_QP_PD_HANDLE      = Attribute{ID: 2, Kind: Handle}
	UVERBS_ATTR_CREATE_QP_SRQ_HANDLE     = Attribute{ID: 3, Kind: Handle, Optional: true}
	UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE = Attribute{ID: 4, Kind: Handle}
	UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE = Attribute{ID: 5, Kind: Handle}
	UVERBS_ATTR_CREATE_QP_USER_HANDLE    = Attribute{ID: 7, Kind: In, Size: 8}
	UVERBS_ATTR_CREATE_QP_CAP            = Attribute{ID: 8, Kind: In, Size: 20}
	UVERBS_ATTR_CREATE_QP_TYPE           = Attribute{ID: 9, Kind: Const}
	UVERBS_ATTR_CREATE_QP_FLAGS          = Attribute{ID: 10, Kind: In, Size: 4, Optional: true}
	UVERBS_ATTR_CREATE_QP_EVENT_FD       = Attribute{ID: 12, Kind: FD, Optional: true}
	UVERBS_ATTR_CREATE_QP_RESP_CAP       = Attribute{ID: 13, Kind: Out, Size: 20}
	UVERBS_ATTR_CREATE_QP_RESP_QP_NUM    = Attribute{ID: 14, Kind: Out, Size: 4}
	UVERBS_ATTR_DESTROY_QP_HANDLE        = Attribute{ID: 0, Kind: Handle}
	UVERBS_ATTR_DESTROY_QP_RESP          = Attribute{ID: 1, Kind: Out, Size: 4}

	UVERBS_ATTR_CREATE_SRQ_HANDLE       = Attribute{ID: 0, Kind: NewHandle}
	UVERBS_ATTR_CREATE_SRQ_PD_HANDLE    = Attribute{ID: 1, Kind: Handle}
	UVERBS_ATTR_CREATE_SRQ_USER_HANDLE  = Attribute{ID: 4, Kind: In, Size: 8}
	UVERBS_ATTR_CREATE_SRQ_MAX_WR       = Attribute{ID: 5, Kind: In, Size: 4}
	UVERBS_ATTR_CREATE_SRQ_MAX_SGE      = Attribute{ID: 6, Kind: In, Size: 4}
	UVERBS_ATTR_CREATE_SRQ_LIMIT        = Attribute{ID: 7, Kind: In, Size: 4}
	UVERBS_ATTR_CREATE_SRQ_TYPE         = Attribute{ID: 9, Kind: Const}
	UVERBS_ATTR_CREATE_SRQ_EVENT_FD     = Attribute{ID: 10, Kind: FD, Optional: true}
	UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR  = Attribute{ID: 11, Kind: Out, Size: 4}
	UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE = Attribute{ID: 12, Kind: Out, Size: 4}
	UVERBS_ATTR_DESTROY_SRQ_HANDLE      = Attribute{ID: 0, Kind: Handle}
	UVERBS_ATTR_DESTROY_SRQ_RESP        = Attribute{ID: 1, Kind: Out, Size: 4}

	UVERBS_ATTR_REG_DMABUF_MR_HANDLE       = Attribute{ID: 0, Kind: NewHandle}
	UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE    = Attribute{ID: 1, Kind: Handle}
	UVERBS_ATTR_REG_DMABUF_MR_OFFSET       = Attribute{ID: 2, Kind: In, Size: 8}
	UVERBS_ATTR_REG_DMABUF_MR_LENGTH       = Attribute{ID: 3, Kind: In, Size: 8}
	UVERBS_ATTR_REG_DMABUF_MR_IOVA         = Attribute{ID: 4, Kind: In, Size: 8}
	UVERBS_ATTR_REG_DMABUF_MR_FD           = Attribute{ID: 5, Kind: In, Size: 4} // a number: the file is no object of the device's
	UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS = Attribute{ID: 6, Kind: In, Size: 4}
	UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY    = Attribute{ID: 7, Kind: Out, Size: 4}
	UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY    = Attribute{ID: 8, Kind: Out, Size: 4}

	UVERBS_ATTR_DESTROY_PD_HANDLE = Attribute{ID: 0, Kind: Handle}
	UVERBS_ATTR_DESTROY_MR_HANDLE = Attribute{ID: 0, Kind: Handle}
	UVERBS_ATTR_DESTROY_MW_HANDLE = Attribute{ID: 0, Kind: Handle}
	UVERBS_ATTR_DESTROY_AH_HANDLE = Attribute{ID: 0, Kind: Handle}

	UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE = Attribute{ID: 0, Kind: NewFD}
)

// The methods, by object.
var (
	UVERBS_METHOD_INVOKE_WRITE = Method{UVERBS_OBJECT_DEVICE, 0, "INVOKE_WRITE", []Attribute{
		UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}}
	UVERBS_METHOD_QUERY_PORT = Method{UVERBS_OBJECT_DEVICE, 2, "QUERY_PORT", []Attribute{
		UVERBS_ATTR_QUERY_PORT_PORT_NUM, UVERBS_ATTR_QUERY_PORT_RESP}}
	UVERBS_METHOD_GET_CONTEXT = Method{UVERBS_OBJECT_DEVICE, 3, "GET_CONTEXT", []Attribute{
		UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}}
	UVERBS_METHOD_QUERY_GID_TABLE = Method{UVERBS_OBJECT_DEVICE, 5, "QUERY_GID_TABLE", []Attribute{
		UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
		UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES}}
	UVERBS_METHOD_QUERY_GID_ENTRY = Method{UVERBS_OBJECT_DEVICE, 6, "QUERY_GID_ENTRY", []Attribute{
		UVERBS_ATTR_QUERY_GID_ENTRY_PORT, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
		UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY}}

	UVERBS_METHOD_CQ_CREATE = Method{UVERBS_OBJECT_CQ, 0, "CQ_CREATE", []Attribute{
		UVERBS_ATTR_CREATE_CQ_HANDLE, UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_ATTR_CREATE_CQ_USER_HANDLE,
		UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR,
		UVERBS_ATTR_CREATE_CQ_RESP_CQE, UVERBS_ATTR_CREATE_CQ_EVENT_FD, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT,
		MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX}}
	UVERBS_METHOD_CQ_DESTROY = Method{UVERBS_OBJECT_CQ, 1, "CQ_DESTROY", []Attribute{
		UVERBS_ATTR_DESTROY_CQ_HANDLE, UVERBS_ATTR_DESTROY_CQ_RESP}}

	UVERBS_METHOD_QP_CREATE = Method{UVERBS_OBJECT_QP, 0, "QP_CREATE", []Attribute{
		UVERBS_ATTR_CREATE_QP_HANDLE, UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE,
		UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_USER_HANDLE,
		UVERBS_ATTR_CREATE_QP_CAP, UVERBS_ATTR_CREATE_QP_TYPE, UVERBS_ATTR_CREATE_QP_FLAGS, UVERBS_ATTR_CREATE_QP_EVENT_FD,
		UVERBS_ATTR_CREATE_QP_RESP_CAP, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}}
	UVERBS_METHOD_QP_DESTROY = Method{UVERBS_OBJECT_QP, 1, "QP_DESTROY", []Attribute{
		UVERBS_ATTR_DESTROY_QP_HANDLE, UVERBS_ATTR_DESTROY_QP_RESP}}

	UVERBS_METHOD_SRQ_CREATE = Method{UVERBS_OBJECT_SRQ, 0, "SRQ_CREATE", []Attribute{
		UVERBS_ATTR_CREATE_SRQ_HANDLE, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE,
		UVERBS_ATTR_CREATE_SRQ_MAX_WR, UVERBS_ATTR_CREATE_SRQ_MAX_SGE, UVERBS_ATTR_CREATE_SRQ_LIMIT,
		UVERBS_ATTR_CREATE_SRQ_TYPE, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR,
		UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}}
	UVERBS_METHOD_SRQ_DESTROY = Method{UVERBS_OBJECT_SRQ, 1, "SRQ_DESTROY", []Attribute{
		UVERBS_ATTR_DESTROY_SRQ_HANDLE, UVERBS_ATTR_DESTROY_SRQ_RESP}}

	UVERBS_METHOD_PD_DESTROY    = Method{UVERBS_OBJECT_PD, 0, "PD_DESTROY", []Attribute{UVERBS_ATTR_DESTROY_PD_HANDLE}}
	UVERBS_METHOD_MR_DESTROY    = Method{UVERBS_OBJECT_MR, 1, "MR_DESTROY", []Attribute{UVERBS_ATTR_DESTROY_MR_HANDLE}}
	UVERBS_METHOD_REG_DMABUF_MR = Method{UVERBS_OBJECT_MR, 4, "REG_DMABUF_MR", []Attribute{
		UVERBS_ATTR_REG_DMABUF_MR_HANDLE, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, UVERBS_ATTR_REG_DMABUF_MR_OFFSET,
		UVERBS_ATTR_REG_DMABUF_MR_LENGTH, UVERBS_ATTR_REG_DMABUF_MR_IOVA, UVERBS_ATTR_REG_DMABUF_MR_FD,
		UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY}}
	UVERBS_METHOD_MW_DESTROY = Method{UVERBS_OBJECT_MW, 0, "MW_DESTROY", []Attribute{UVERBS_ATTR_DESTROY_MW_HANDLE}}
	UVERBS_METHOD_AH_DESTROY = Method{UVERBS_OBJECT_AH, 0, "AH_DESTROY", []Attribute{UVERBS_ATTR_DESTROY_AH_HANDLE}}

	UVERBS_METHOD_ASYNC_EVENT_ALLOC = Method{UVERBS_OBJECT_ASYNC_EVENT, 0, "ASYNC_EVENT_ALLOC", []Attribute{
		UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE}}
)

func (m *Method) attribute(id uint16) *Attribute {
	for i := range m.Attributes {
		if m.Attributes[i].ID == id {
			return &m.Attributes[i]
		}
	}
	return nil
}
