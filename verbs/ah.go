// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// AHAttr says how packets reach a destination (struct ibv_ah_attr). On RoCE the destination is
// always a GID.
type AHAttr struct {
	// DGID is the destination's GID; SGIDIndex that of the local port's GID to use.
	DGID      GID
	SGIDIndex int
	// Port is the local port, from 1.
	Port int
	// HopLimit is the TTL of the packets. 0 is taken as 64: a packet with 0 goes nowhere.
	HopLimit     uint8
	TrafficClass uint8
	// FlowLabel, 20 bits, also chooses the UDP source port of RoCEv2 packets; 0 lets the device choose.
	FlowLabel uint32
	// SL, DLID, SrcPathBits and StaticRate are for InfiniBand.
	SL          uint8
	DLID        uint16
	SrcPathBits uint8
	StaticRate  uint8
}

const defaultHopLimit = 64

func (a *AHAttr) hopLimit() uint8 {
	if a.HopLimit == 0 {
		return defaultHopLimit
	}
	return a.HopLimit
}

// dest is the form in which QPs take it.
func (a *AHAttr) dest() uapi.QpDest {
	return uapi.QpDest{
		Dgid: a.DGID, FlowLabel: a.FlowLabel, Dlid: a.DLID, SgidIndex: uint8(a.SGIDIndex), HopLimit: a.hopLimit(),
		TrafficClass: a.TrafficClass, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: global(a.DGID), PortNum: uint8(a.Port),
	}
}

// problem is what of the address the device doesn't have, or the kernel would be told as another one, because its field has eight bits.
func (a *AHAttr) problem(c *Context) string {
	switch {
	case tooWide(a.SGIDIndex):
		return noGID(a.Port, a.SGIDIndex)
	case a.Port < 1 || a.Port > int(c.attr.PhysPorts):
		return c.noPort(a.Port)
	}
	return ""
}

func tooWide(n int) bool { return n != int(uint8(n)) }

// noGID is the advice for a GID index that isn't in use.
func noGID(port, index int) string {
	return fmt.Sprintf("GID index %d of port %d is empty: choose one that GIDTable lists", index, port)
}

// lacksGID tells whether a GID index is known not to be in use.
func (c *Context) lacksGID(port, index int) bool {
	_, err := c.QueryGID(port, index)
	return err != nil && !errors.Is(err, ErrRemoved)
}

// noPort is the advice for a port that the device doesn't have.
func (c *Context) noPort(port int) string {
	return fmt.Sprintf("port %d: the device has ports 1 to %d", port, c.attr.PhysPorts)
}

func global(g GID) uint8 {
	if g.IsZero() {
		return 0
	}
	return 1
}

func ahAttr(d *uapi.QpDest) AHAttr {
	return AHAttr{
		DGID: d.Dgid, SGIDIndex: int(d.SgidIndex), Port: int(d.PortNum), HopLimit: d.HopLimit, TrafficClass: d.TrafficClass,
		FlowLabel: d.FlowLabel, SL: d.Sl, DLID: d.Dlid, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate,
	}
}

// AH is an address handle: the destination of datagrams.
type AH struct {
	object
	handle uint32
	part   part
}

// CreateAH makes an address handle.
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	o, err := p.ctx.attach("AH", &p.object)
	if err != nil {
		return nil, err
	}
	if f := attr.problem(p.ctx); f != "" {
		o.abandon()
		return nil, &Error{Op: "create AH", Object: fmt.Sprintf("%s, to %v", p.ctx.info.Name, attr.DGID), Err: unix.EINVAL, Fix: f}
	}
	in := uapi.CreateAh{UserHandle: o.id, PdHandle: p.handle, Attr: uapi.AhAttr{
		Dgid: attr.DGID, FlowLabel: attr.FlowLabel, SgidIndex: uint8(attr.SGIDIndex), HopLimit: attr.hopLimit(),
		TrafficClass: attr.TrafficClass, Dlid: attr.DLID, Sl: attr.SL, SrcPathBits: attr.SrcPathBits,
		StaticRate: attr.StaticRate, IsGlobal: global(attr.DGID), PortNum: uint8(attr.Port),
	}}
	var out uapi.CreateAhResp
	ah := &AH{object: o}
	if ah.part, err = p.ctx.provider.ah(ah, &attr); err == nil {
		call := uapi.NewWrite(uapi.IB_USER_VERBS_CMD_CREATE_AH, &in, &out)
		ah.part.fill(call)
		err = p.ctx.do(call)
	}
	ah.handle = out.AhHandle
	if err == nil {
		if err = ah.part.made(); err != nil {
			_ = ah.destroy()
		}
	}
	if err != nil {
		o.abandon()
		e := &Error{Op: "create AH", Object: fmt.Sprintf("%s, to %v", p.ctx.info.Name, attr.DGID), Err: err, Fix: pathFix(err)}
		if p.ctx.lacksGID(attr.Port, attr.SGIDIndex) {
			e.Fix = noGID(attr.Port, attr.SGIDIndex)
		}
		return nil, e
	}
	p.ctx.publish(ah)
	return ah, nil
}

// Close destroys the handle. Datagrams that are posted must have completed.
func (a *AH) Close() error { return a.close("destroy AH", a.destroy) }

func (a *AH) destroy() error {
	call := uapi.NewCall(&uapi.UVERBS_METHOD_AH_DESTROY)
	call.PutHandle(uapi.UVERBS_ATTR_DESTROY_AH_HANDLE, a.handle)
	return a.ctx.do(call)
}
