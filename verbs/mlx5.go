// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/verbs/internal/addr"
	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// mlx5Provider is that of ConnectX-4 and later, and of BlueField: its queues are memory of ours, and doorbells are
// rung in a page of the device.
type mlx5Provider struct {
	ctx  *Context
	req  uapi.Mlx5AllocUcontextReq
	resp uapi.Mlx5AllocUcontextResp
	// devx tells that the context may give firmware commands.
	devx bool
	// outOfOrder has a bit for each QPType whose receives may be taken out of order, when order has asked.
	outOfOrder uint8
	order      sync.Once

	// users are the QPs by their user index, which completions carry. Changed under mu.
	users table.Table[mlx5QP]

	mu sync.Mutex
	// page is the doorbell page that queues share, nil until the first CQ is made.
	page *mlx5Page
	// flames are the pages of queue pairs of their own.
	flames []*mlx5Page
	// records are free doorbell records, recordPages the memory of all.
	records     []mlx5Record
	recordPages [][]byte
}

func newMlx5Provider(c *Context, devx bool) provider {
	return &mlx5Provider{ctx: c, devx: devx}
}

// mlx5Record is a doorbell record and its address.
type mlx5Record struct {
	mlx5.Record
	addr uint64
}

// Completions with a user index instead of a queue's number.
const mlx5CQEVersion = 1

func (p *mlx5Provider) context(call *uapi.Call) {
	// How many doorbell registers the process wants is for kernels that give them at open.
	p.req = uapi.Mlx5AllocUcontextReq{TotalNumBfregs: 16, NumLowLatencyBfregs: 4, MaxCqeVersion: mlx5CQEVersion,
		LibCaps: uapi.MLX5_LIB_CAP_4K_UAR | uapi.MLX5_LIB_CAP_DYN_UAR}
	if p.devx {
		p.req.Flags = uapi.MLX5_IB_ALLOC_UCTX_DEVX
	}
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &p.req)
	uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &p.resp)
}

func (p *mlx5Provider) opened() error {
	if p.resp.CqeVersion != mlx5CQEVersion {
		return fmt.Errorf("%w: completions of version %d; ConnectX-4 and later have version 1", unix.EOPNOTSUPP, p.resp.CqeVersion)
	}
	return nil
}

// pd asks for the PD's number (struct mlx5_ib_alloc_pd_resp), which memory keys made by firmware commands name.
func (*mlx5Provider) pd(p *PD, call *uapi.Call) {
	uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &p.number)
}

func (p *mlx5Provider) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	if p.page != nil {
		errs = append(errs, p.page.unmap())
		p.page = nil
	}
	for _, f := range p.flames { // of queue pairs that the kernel wouldn't destroy
		errs = append(errs, f.unmap())
	}
	p.flames = nil
	for _, m := range p.recordPages {
		errs = append(errs, FreeBuffer(m))
	}
	p.records, p.recordPages = nil, nil
	return errors.Join(errs...)
}

// The size of a page, and the distance of doorbell records: one a cache line.
const (
	mlx5PageSize     = 4096
	mlx5RecordStride = 64
	mlx5RecordSize   = 8
)

// record takes a doorbell record, zeroed.
func (p *mlx5Provider) record() (mlx5Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records) == 0 {
		mem, err := AllocBuffer(mlx5PageSize)
		if err != nil {
			return mlx5Record{}, err
		}
		p.recordPages = append(p.recordPages, mem)
		for b := range slices.Chunk(mem, mlx5RecordStride) {
			p.records = append(p.records, mlx5Record{mlx5.NewRecord(b[:mlx5RecordSize]), addr.Of(b)})
		}
	}
	last := len(p.records) - 1
	r := p.records[last]
	p.records = p.records[:last]
	r.Clear()
	return r, nil
}

func (p *mlx5Provider) giveBack(r mlx5Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
}

// maxMlx5Users is the number of user indices: 24 bits, all ones meaning none.
const maxMlx5Users = 1<<24 - 1

// addUser gives a QP the lowest free index.
func (p *mlx5Provider) addUser(q *mlx5QP) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.users.Free()
	if i == maxMlx5Users {
		return unix.ENOMEM
	}
	q.user = i
	p.users.Set(i, q)
	return nil
}

func (p *mlx5Provider) removeUser(i uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users.Set(i, nil)
}

// user finds the QP of a completion, nil when it is gone.
func (p *mlx5Provider) user(i uint32) *mlx5QP { return p.users.Get(i) }

// roundUp is the next power of two, n itself when it is one.
func roundUp(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}

// mlx5Memory is a queue's memory with its doorbell record.
type mlx5Memory struct {
	p      *mlx5Provider
	mem    []byte
	record mlx5Record
}

func (p *mlx5Provider) allocate(size int) (m mlx5Memory, err error) {
	m.p = p
	if m.mem, err = AllocBuffer((size + mlx5PageSize - 1) &^ (mlx5PageSize - 1)); err != nil {
		return m, err
	}
	if m.record, err = p.record(); err != nil {
		return m, errors.Join(err, FreeBuffer(m.mem))
	}
	return m, nil
}

func (m *mlx5Memory) free() error {
	m.p.giveBack(m.record)
	return FreeBuffer(m.mem)
}

// mlx5AH is an address handle: the kernel resolves the MAC address, the rest is in each request.
type mlx5AH struct {
	resp   uapi.Mlx5CreateAhResp
	vector mlx5.AddressVector
}

func (p *mlx5Provider) ah(a *AH, attr *AHAttr) (part, error) {
	port, err := p.ctx.QueryPort(attr.Port)
	if err != nil {
		return nil, err
	}
	if port.LinkLayer != LinkEthernet {
		return nil, fmt.Errorf("%w: address handles of mlx5 are for RoCE", unix.EOPNOTSUPP)
	}
	return &mlx5AH{vector: mlx5.AddressVector{SLRate: attr.SL & 7 << 1, UDPPort: udpPort(attr.FlowLabel, a.id), TrafficClass: attr.TrafficClass,
		HopLimit: attr.hopLimit(), GIDIndex: uint8(attr.SGIDIndex), FlowLabel: attr.FlowLabel, GID: attr.DGID}}, nil
}

// udpPort is the source port of RoCEv2 packets: derived from the flow label, as the kernel does for connected QPs
// (rdma_flow_label_to_udp_sport); without one, some port that other address handles are unlikely to have.
func udpPort(flowLabel uint32, id uint64) uint16 {
	const first, low, high = 0xc000, 0x03fff, 0xfc000
	if flowLabel == 0 {
		return first | uint16(id*2654435761>>16)&low
	}
	return first | uint16(flowLabel&low^flowLabel&high>>14)
}

func (a *mlx5AH) fill(call *uapi.Call) { uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &a.resp) }

func (a *mlx5AH) made() error {
	a.vector.MAC = a.resp.Dmac
	return nil
}

func (*mlx5AH) free() error { return nil }
