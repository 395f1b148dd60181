// SPDX-License-Identifier: Apache-2.0

package verbs

// WC is a work completion (struct ibv_wc). When Status is not WCSuccess, only WRID, Status, QPN
// and VendorErr mean anything.
type WC struct { // the fields lie as in uapi.Wc, of which Poll makes one copy
	// WRID is the ID of the work request.
	WRID   uint64
	Status WCStatus
	Opcode WCOpcode
	// VendorErr is a code of the device for a failure.
	VendorErr uint32
	// ByteLen is the number of bytes received.
	ByteLen uint32
	// Imm is the immediate data, in the host's order, when Flags has WCWithImm.
	Imm uint32
	// QPN is the number of the local QP.
	QPN uint32
	// SrcQP is the number of the sender's QP (UD).
	SrcQP     uint32
	Flags     WCFlags
	PKeyIndex uint16
	SLID      uint16
	SL        uint8
	// DLIDPathBits is meaningful on InfiniBand.
	DLIDPathBits uint8
}

// WCStatus tells how a work request ended (enum ibv_wc_status).
type WCStatus uint32

// Status of completions.
const (
	WCSuccess           WCStatus = 0
	WCLocalLengthErr    WCStatus = 1
	WCLocalQPOpErr      WCStatus = 2
	WCLocalEECOpErr     WCStatus = 3
	WCLocalProtErr      WCStatus = 4
	WCFlushErr          WCStatus = 5
	WCMWBindErr         WCStatus = 6
	WCBadRespErr        WCStatus = 7
	WCLocalAccessErr    WCStatus = 8
	WCRemoteInvalReqErr WCStatus = 9
	WCRemoteAccessErr   WCStatus = 10
	WCRemoteOpErr       WCStatus = 11
	WCRetryExceededErr  WCStatus = 12
	WCRNRRetryExceeded  WCStatus = 13
	WCLocalRDDViolation WCStatus = 14
	WCRemoteInvalRDReq  WCStatus = 15
	WCRemoteAborted     WCStatus = 16
	WCInvalidEECN       WCStatus = 17
	WCInvalidEECState   WCStatus = 18
	WCFatalErr          WCStatus = 19
	WCRespTimeoutErr    WCStatus = 20
	WCGeneralErr        WCStatus = 21
	WCTagMatchErr       WCStatus = 22
	WCTagMatchPartial   WCStatus = 23
)

// String gives the words of ibv_wc_status_str.
func (s WCStatus) String() string {
	return name(s, []string{"success", "local length error", "local QP operation error", "local EE context operation error",
		"local protection error", "Work Request Flushed Error", "memory management operation error", "bad response error",
		"local access error", "remote invalid request error", "remote access error", "remote operation error",
		"transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
		"remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state", "fatal error",
		"response timeout error", "general error", "TM error", "TM software rendezvous"}, "WCStatus")
}

// WCOpcode tells what has completed (enum ibv_wc_opcode).
type WCOpcode uint32

// Opcodes of completions; those of receives have bit 7.
const (
	WCSend          WCOpcode = 0
	WCRDMAWrite     WCOpcode = 1
	WCRDMARead      WCOpcode = 2
	WCCompSwap      WCOpcode = 3
	WCFetchAdd      WCOpcode = 4
	WCBindMW        WCOpcode = 5
	WCLocalInv      WCOpcode = 6
	WCFlush         WCOpcode = 8
	WCAtomicWrite   WCOpcode = 9
	WCRecv          WCOpcode = 128
	WCRecvRDMAWrite WCOpcode = 129 // with immediate
	WCDriver1       WCOpcode = 135 // an update of an Mkey (mlx5)
)

func (o WCOpcode) String() string {
	switch o {
	case WCRecv:
		return "RECV"
	case WCRecvRDMAWrite:
		return "RECV_RDMA_WITH_IMM"
	case WCDriver1:
		return "DRIVER1"
	}
	return name(o, []string{"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV",
		8: "FLUSH", 9: "ATOMIC_WRITE"}, "WCOpcode")
}

// WCFlags say which parts of a completion are valid (enum ibv_wc_flags).
type WCFlags uint32

// Completion flags.
const (
	// WCWithGRH: the first 40 bytes of a UD receive hold a global route header.
	WCWithGRH WCFlags = 1 << 0
	// WCWithImm: Imm is valid.
	WCWithImm WCFlags = 1 << 1
	// WCWithInv: the peer's request invalidated a local key, which is in Imm as it came.
	WCWithInv WCFlags = 1 << 3
)
