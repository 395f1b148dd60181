// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package flexio

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Pointers to objects of the libraries.
type (
	process uintptr
	handler uintptr
	cq      uintptr
	mr      uintptr
)

// Structures of flexio.h.
type (
	appAttr struct {
		name    *byte
		elf     *byte
		size    uintptr
		section *byte // of the signature: empty
	}
	eventHandlerAttr struct {
		function     uintptr
		continuable  int32
		arg          uint64
		localStorage uint64
		affinity     int32 // kind
		affinityID   uint32
	}
	qmem struct {
		kind  int32
		daddr uint64
		umem  uint32
	}
	cqAttr struct {
		logDepth, elementType uint8
		thread                uintptr
		uar                   uint32
		uarBase               uintptr
		compression, period   int32
		periodTime, maxCount  uint16
		noArm, collapsed      bool
		ignoreOverrun, always uint8
		ring                  qmem
		record                uint64
	}
	// ibvMR is struct ibv_mr of infiniband/verbs.h.
	ibvMR struct {
		context, pd   uintptr
		addr          uintptr
		length        uintptr
		handle        uint32
		lkey, remoted uint32
	}
)

// library is the functions that are called, under the names that they have there.
type library struct {
	ibv_get_device_list  func(n *int32) uintptr
	ibv_free_device_list func(devices uintptr)
	ibv_get_device_name  func(device uintptr) string
	ibv_open_device      func(device uintptr) uintptr
	ibv_close_device     func(context uintptr) int32
	ibv_alloc_pd         func(context uintptr) uintptr
	ibv_dealloc_pd       func(pd uintptr) int32
	ibv_reg_mr           func(pd, addr, length uintptr, access int32) mr
	ibv_dereg_mr         func(mr) int32

	flexio_app_create               func(*appAttr, *uintptr) status
	flexio_app_destroy              func(app uintptr) status
	flexio_func_register            func(app uintptr, name string, f *uintptr) status
	flexio_process_create           func(context, app, attr uintptr, p *process) status
	flexio_process_destroy          func(process) status
	flexio_process_call             func(p process, f uintptr, result *uint64, arg uint64) status // variadic
	flexio_process_get_uar          func(process) uintptr
	flexio_uar_get_id               func(uar uintptr) uint32
	flexio_err_status_get           func(process) int32
	flexio_buf_dev_alloc            func(p process, size uintptr, daddr *uint64) status
	flexio_buf_dev_free             func(p process, daddr uint64) status
	flexio_host2dev_memcpy          func(p process, from *byte, size uintptr, daddr uint64) status
	flexio_window_create            func(p process, pd uintptr, window *uintptr) status
	flexio_window_destroy           func(window uintptr) status
	flexio_window_get_id            func(window uintptr) uint32
	flexio_event_handler_create     func(process, *eventHandlerAttr, *handler) status
	flexio_event_handler_destroy    func(handler) status
	flexio_event_handler_run        func(h handler, arg uint64) status
	flexio_event_handler_get_thread func(handler) uintptr
	flexio_event_handler_get_id     func(handler) uint32
	flexio_cq_create                func(p process, context uintptr, attr *cqAttr, q *cq) status
	flexio_cq_destroy               func(cq) status
	flexio_cq_get_cq_num            func(cq) uint32
}

// load opens the libraries and finds the functions.
func load(flexio, verbs string) (*library, error) {
	l := new(library)
	if err := bind(verbs, "ibv_", l); err != nil {
		return nil, err
	}
	return l, bind(flexio, "flexio_", l)
}

// bind finds the functions of l whose names begin with prefix.
func bind(file, prefix string, l *library) error {
	h, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("load %s: %w", file, err)
	}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		at, err := purego.Dlsym(h, name)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		purego.RegisterFunc(reflect.NewAt(v.Type().Field(i).Type, v.Field(i).Addr().UnsafePointer()).Interface(), at)
	}
	return nil
}

// status is flexio_status.
type status int32

func (s status) err(call string) error {
	if s == 0 {
		return nil
	}
	what := map[status]string{1: "failed", 2: "timed out", 3: "fatal error"}[s]
	if what == "" {
		what = "unknown status"
	}
	return fmt.Errorf("%s: %s (status %d)", call, what, s)
}

// Config says what to load, and where to.
type Config struct {
	// FlexIO and Verbs are the libraries' file names.
	FlexIO, Verbs string
	// Device is the RDMA device's name; empty: the first one.
	Device string
	// Name and ELF are the program for the DPA.
	Name string
	ELF  []byte
	// Window is host memory that the device stores to: whole pages, not the Go heap's.
	Window []byte
	// Functions are those of the program that are called or run.
	Functions []string
}

// A Process is a program on a DPA. Its methods may not be called concurrently, except Err.
type Process struct {
	l         *library
	context   uintptr
	pd        uintptr
	region    mr
	app       uintptr
	p         process
	window    uintptr
	functions map[string]uintptr
	handlers  []handler
	queues    []cq
	pinned    runtime.Pinner
}

// Open loads the libraries and makes a process that can reach the window.
func Open(c Config) (_ *Process, err error) {
	l, err := load(c.FlexIO, c.Verbs)
	if err != nil {
		return nil, err
	}
	p := &Process{l: l, functions: map[string]uintptr{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err = p.openDevice(c.Device); err != nil {
		return nil, err
	}
	const localWrite = 1
	at := uintptr(unsafe.Pointer(unsafe.SliceData(c.Window)))
	if p.region = l.ibv_reg_mr(p.pd, at, uintptr(len(c.Window)), localWrite); p.region == 0 {
		return nil, fmt.Errorf("ibv_reg_mr of %d bytes failed", len(c.Window))
	}
	if err = p.start(c); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Process) openDevice(name string) error {
	var n int32
	devices := p.l.ibv_get_device_list(&n)
	if devices == 0 {
		return errors.New("ibv_get_device_list failed")
	}
	defer p.l.ibv_free_device_list(devices)
	var have []string
	for _, d := range unsafe.Slice((*uintptr)(pointer(devices)), n) {
		have = append(have, p.l.ibv_get_device_name(d))
		if name != "" && name != have[len(have)-1] {
			continue
		}
		if p.context = p.l.ibv_open_device(d); p.context == 0 {
			return fmt.Errorf("ibv_open_device of %s failed", have[len(have)-1])
		}
		if p.pd = p.l.ibv_alloc_pd(p.context); p.pd == 0 {
			return errors.New("ibv_alloc_pd failed")
		}
		return nil
	}
	return fmt.Errorf("no RDMA device %q: there are %q", name, have)
}

// pointer is an address that a library has returned, which is not in the Go heap.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

func (p *Process) start(c Config) error {
	name, section := append([]byte(c.Name), 0), []byte{0}
	attr := &appAttr{&name[0], unsafe.SliceData(c.ELF), uintptr(len(c.ELF)), &section[0]}
	for _, b := range []*byte{attr.name, attr.elf, attr.section} {
		p.pinned.Pin(b)
	}
	if err := p.l.flexio_app_create(attr, &p.app).err("flexio_app_create"); err != nil {
		return err
	}
	for _, name := range c.Functions {
		var f uintptr
		if err := p.l.flexio_func_register(p.app, name, &f).err("flexio_func_register of " + name); err != nil {
			return err
		}
		p.functions[name] = f
	}
	if err := p.l.flexio_process_create(p.context, p.app, 0, &p.p).err("flexio_process_create"); err != nil {
		return err
	}
	return p.l.flexio_window_create(p.p, p.pd, &p.window).err("flexio_window_create")
}

// WindowID and MKey are what the device needs to reach the window.
func (p *Process) WindowID() uint32 { return p.l.flexio_window_get_id(p.window) }

// MKey is the memory key of the window's region.
func (p *Process) MKey() uint32 { return (*ibvMR)(pointer(uintptr(p.region))).lkey }

// Alloc takes memory of the device.
func (p *Process) Alloc(n int) (daddr uint64, err error) {
	err = p.l.flexio_buf_dev_alloc(p.p, uintptr(n), &daddr).err("flexio_buf_dev_alloc")
	return daddr, err
}

// Free gives memory of the device back.
func (p *Process) Free(daddr uint64) error {
	return p.l.flexio_buf_dev_free(p.p, daddr).err("flexio_buf_dev_free")
}

// Write copies into memory of the device.
func (p *Process) Write(daddr uint64, b []byte) error {
	return p.l.flexio_host2dev_memcpy(p.p, unsafe.SliceData(b), uintptr(len(b)), daddr).err("flexio_host2dev_memcpy")
}

// Call calls a function of the program and waits for it.
func (p *Process) Call(function string, arg uint64) (result uint64, err error) {
	err = p.l.flexio_process_call(p.p, p.functions[function], &result, arg).err("flexio_process_call of " + function)
	return result, err
}

// A Thread is an event handler and the completion queue whose events it has.
type Thread struct {
	p   *Process
	h   handler
	ID  uint32 // for flexio_dev_event_handler_activate
	CQN uint32
}

// NewThread makes a thread for a function, with a completion queue of 2^log entries whose ring and record are memory of
// the device.
func (p *Process) NewThread(function string, ring, record uint64, log uint8) (*Thread, error) {
	t := &Thread{p: p}
	attr := &eventHandlerAttr{function: p.functions[function]}
	if err := p.l.flexio_event_handler_create(p.p, attr, &t.h).err("flexio_event_handler_create"); err != nil {
		return nil, err
	}
	p.handlers = append(p.handlers, t.h)
	t.ID = p.l.flexio_event_handler_get_id(t.h)
	var q cq
	cqa := &cqAttr{
		logDepth: log, thread: p.l.flexio_event_handler_get_thread(t.h),
		uar: p.l.flexio_uar_get_id(p.l.flexio_process_get_uar(p.p)), ring: qmem{daddr: ring}, record: record,
	}
	if err := p.l.flexio_cq_create(p.p, 0, cqa, &q).err("flexio_cq_create"); err != nil {
		return nil, err
	}
	p.queues = append(p.queues, q)
	t.CQN = p.l.flexio_cq_get_cq_num(q)
	return t, nil
}

// Run has the thread's function called with arg at each event.
func (t *Thread) Run(arg uint64) error {
	return t.p.l.flexio_event_handler_run(t.h, arg).err("flexio_event_handler_run")
}

// Err says whether the process has failed.
func (p *Process) Err() error {
	if s := p.l.flexio_err_status_get(p.p); s != 0 {
		return fmt.Errorf("the DPA process has failed (flexio_err_status %d)", s)
	}
	return nil
}

// Close ends the process and releases all that was made, in reverse order.
func (p *Process) Close() (err error) {
	l := p.l
	for _, q := range slices.Backward(p.queues) {
		err = errors.Join(err, l.flexio_cq_destroy(q).err("flexio_cq_destroy"))
	}
	for _, h := range slices.Backward(p.handlers) {
		err = errors.Join(err, l.flexio_event_handler_destroy(h).err("flexio_event_handler_destroy"))
	}
	if p.window != 0 {
		err = errors.Join(err, l.flexio_window_destroy(p.window).err("flexio_window_destroy"))
	}
	if p.p != 0 {
		err = errors.Join(err, l.flexio_process_destroy(p.p).err("flexio_process_destroy"))
	}
	if p.app != 0 {
		err = errors.Join(err, l.flexio_app_destroy(p.app).err("flexio_app_destroy"))
	}
	for _, c := range []struct {
		have bool
		name string
		end  func() int32
	}{
		{p.region != 0, "ibv_dereg_mr", func() int32 { return l.ibv_dereg_mr(p.region) }},
		{p.pd != 0, "ibv_dealloc_pd", func() int32 { return l.ibv_dealloc_pd(p.pd) }},
		{p.context != 0, "ibv_close_device", func() int32 { return l.ibv_close_device(p.context) }},
	} {
		if c.have {
			if s := c.end(); s != 0 {
				err = errors.Join(err, fmt.Errorf("%s: error %d", c.name, s))
			}
		}
	}
	p.pinned.Unpin()
	*p = Process{l: l}
	return err
}
