// SPDX-License-Identifier: Apache-2.0

package verbs

import "github.com/sdr-rdma/go-sdr/verbs/internal/uapi"

// PD is a protection domain: what is made from one PD works together, and nothing else does.
type PD struct {
	object
	handle uint32
	// number is the device's own for it, where the driver tells.
	number uint32
}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	o, err := c.attach("PD")
	if err != nil {
		return nil, err
	}
	var in uapi.AllocPd
	var out uapi.AllocPdResp
	pd := &PD{object: o}
	call := uapi.NewWrite(uapi.IB_USER_VERBS_CMD_ALLOC_PD, &in, &out)
	c.provider.pd(pd, call)
	if err := c.do(call); err != nil {
		o.abandon()
		return nil, wrap("allocate PD", c.info.Name, err)
	}
	pd.handle = out.PdHandle
	c.publish(pd)
	return pd, nil
}

// Close deallocates the PD. All that was made from it must be closed before.
func (p *PD) Close() error {
	return p.close("deallocate PD", func() error {
		call := uapi.NewCall(&uapi.UVERBS_METHOD_PD_DESTROY)
		call.PutHandle(uapi.UVERBS_ATTR_DESTROY_PD_HANDLE, p.handle)
		return p.ctx.do(call)
	})
}
