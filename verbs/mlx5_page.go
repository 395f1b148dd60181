// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// mlx5Page is a mapped doorbell page.
type mlx5Page struct {
	ctx    *Context
	mem    []byte
	index  uint32
	handle uint32
	page   mlx5.Page
	// flame is the size of each of the two buffers of a BlueFlame page, 0 of other pages.
	flame int
}

// doorbells returns the context's doorbell page. It is one that the processor doesn't combine writes to: a store to
// it is whole and in order, so that all queues share it without a lock.
func (p *mlx5Provider) doorbells() (*mlx5Page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil {
		var err error
		if p.page, err = p.newPage(uapi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC); err != nil {
			return nil, err
		}
	}
	return p.page, nil
}

// blueFlame makes a page of a queue pair's own, which the processor combines writes to, or returns the context's where there is none:
// the kernel refuses it on machines that can't combine writes (EOPNOTSUPP), and firmware that has no more of them (EAGAIN, from
// MLX5_CMD_STAT_NO_RES_ERR by cmd_status_to_err of the kernel).
func (p *mlx5Provider) blueFlame() (*mlx5Page, error) {
	if p.resp.BfRegSize < 2*mlx5.BlockSize || p.resp.BfRegSize > mlx5.MaxFlames {
		return p.doorbells()
	}
	page, err := p.newPage(uapi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAGAIN) {
		return p.doorbells()
	}
	if err != nil {
		return nil, err
	}
	page.flame = int(p.resp.BfRegSize / 2)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flames = append(p.flames, page)
	return page, nil
}

// freeBlueFlame gives a page of blueFlame back; the context's own stays.
func (p *mlx5Provider) freeBlueFlame(page *mlx5Page) error {
	if page.flame == 0 {
		return nil
	}
	p.mu.Lock()
	p.flames = slices.DeleteFunc(p.flames, func(f *mlx5Page) bool { return f == page })
	p.mu.Unlock()
	return page.free()
}

func (p *mlx5Provider) newPage(kind uint64) (*mlx5Page, error) {
	var offset uint64
	var length, index uint32
	call := uapi.NewCall(&uapi.MLX5_IB_METHOD_UAR_OBJ_ALLOC)
	call.PutNew(uapi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
	call.PutConst(uapi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, kind)
	uapi.PutOut(call, uapi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset)
	uapi.PutOut(call, uapi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length)
	uapi.PutOut(call, uapi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &index)
	if err := p.ctx.do(call); err != nil {
		return nil, fmt.Errorf("allocate doorbell page: %w", err)
	}
	page := &mlx5Page{ctx: p.ctx, index: index, handle: call.Result(uapi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)}
	if length < mlx5PageSize {
		return nil, errors.Join(fmt.Errorf("%w: doorbell page of %d bytes", unix.EOPNOTSUPP, length), page.free())
	}
	mem, err := unix.Mmap(p.ctx.fd, int64(offset), int(length), unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map doorbell page: %w", err), page.free())
	}
	page.mem, page.page = mem, mlx5.NewPage(mem)
	return page, nil
}

func (m *mlx5Page) unmap() error {
	if m.mem == nil {
		return nil
	}
	mem := m.mem
	m.mem = nil
	return unix.Munmap(mem)
}

// free gives the page back. The context's own is given back by closing the device.
func (m *mlx5Page) free() error {
	call := uapi.NewCall(&uapi.MLX5_IB_METHOD_UAR_OBJ_DESTROY)
	call.PutHandle(uapi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, m.handle)
	return errors.Join(m.unmap(), m.ctx.do(call))
}
