// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// MaxOutOfOrder is how many receives a QP of a type may have when the device takes them out of order (QPInitAttr.OutOfOrder); 0 where
// it can't.
func (c *Context) MaxOutOfOrder(t QPType) int {
	if p, ok := c.provider.(*mlx5Provider); ok {
		return p.maxOutOfOrder(t)
	}
	return 0
}

// maxOutOfOrder asks kernel and firmware, once. A queue of such receives has twice the places, so that a place isn't used again while
// one of before it is still open (ooo_recv_wrs_caps of rdma-core).
func (p *mlx5Provider) maxOutOfOrder(t QPType) int {
	p.order.Do(p.askOrder)
	if p.outOfOrder&(1<<t) == 0 {
		return 0
	}
	return int(p.resp.MaxRecvWr / 2)
}

// askOrder finds out which types of QPs may receive out of order. What fails is taken for no.
func (p *mlx5Provider) askOrder() {
	if !p.devx {
		return
	}
	var in uapi.ExQueryDevice
	var out uapi.ExQueryDeviceResp
	var driver uapi.Mlx5QueryDeviceResp
	query := uapi.NewWrite(uapi.IB_USER_VERBS_CMD_FLAG_EXTENDED|uapi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &in, &out)
	uapi.PutOut(query, uapi.UVERBS_ATTR_UHW_OUT, &driver)
	if p.ctx.do(query) != nil || driver.Flags&uapi.MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP == 0 {
		return
	}
	answer := make([]byte, mlx5.CapsAnswer)
	call := uapi.NewCall(&uapi.MLX5_IB_METHOD_DEVX_OTHER)
	uapi.PutInBytes(call, uapi.MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, mlx5.QueryCaps())
	uapi.PutOutSlice(call, uapi.MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, answer)
	if p.ctx.do(call) != nil {
		return
	}
	rc, uc, ud := mlx5.OutOfOrder(answer)
	for t, has := range map[QPType]bool{RC: rc, UC: uc, UD: ud} {
		if has {
			p.outOfOrder |= 1 << t
		}
	}
}

// modify asks for receives out of order on the way to INIT.
func (m *mlx5QP) modify(in *uapi.ModifyQp) *uapi.Call {
	if !m.outOfOrder || in.AttrMask&uint32(MaskState) == 0 || QPState(in.QpState) != Init {
		return modifyQP(in)
	}
	call := uapi.NewWrite(uapi.IB_USER_VERBS_CMD_FLAG_EXTENDED|uapi.IB_USER_VERBS_EX_CMD_MODIFY_QP, &uapi.ExModifyQp{Base: *in}, &uapi.ExModifyQpResp{})
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &uapi.Mlx5ModifyQp{CompMask: uapi.MLX5_IB_MODIFY_QP_OOO_DP})
	return call
}
