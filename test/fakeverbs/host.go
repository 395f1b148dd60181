// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs/internal/usernotif"
)

// Init must be the first call of main, and of TestMain: programs are started through another process of
// the calling one.
func Init() { usernotif.Init() }

// uverbsMajor and uverbsMinor are the device number of the first file in /dev/infiniband.
const (
	uverbsMajor = 231
	uverbsMinor = 192
)

const (
	devPrefix = "/dev/infiniband/uverbs"
	sysPrefix = "/sys/class/infiniband"
)

// Port describes a device, which has one port.
type Port struct {
	// Name is the device's, such as fake0; librxe knows its own by names that begin with "rxe".
	Name string
	// Driver is whose device it is; the zero value is MLX5.
	Driver Driver
	// Addr is the IPv4 address that its GID is made of.
	Addr netip.Addr
	// RoCE puts the port on the network: it is UDP port 4791 of Addr, which must be one of this machine's and the port free. Else
	// the devices of a host are connected by a wire of their own.
	RoCE bool
	// Sink has the device complete every send request without doing it: any key and any address will do.
	Sink bool
	// Placement is how long after it has looked at the memory key the device writes a packet's data: one whose changes of keys are
	// no fence.
	Placement time.Duration
	// NoDEVX is a device whose firmware takes no commands from programs: it has no indirect memory keys.
	NoDEVX bool
	// Fault, when set, is asked before each call on the device whether it fails, and how.
	Fault func() unix.Errno
}

// Host is a machine with fake devices.
type Host struct {
	// Log, when set, is told of each call that a program makes on a device.
	Log func(format string, args ...any)
	// Posted, when set, is told of each doorbell that brought send requests, while the program may go on:
	// what was stored in the register and in the record, and the blocks of the queue. Of a queue pair's first, it
	// also has the receive queue's record and requests, or the whole shared receive queue. Set it before the first program starts.
	Posted func(Posted)

	// Fate, when set, is asked for each message of an unreliable QP, or packet on the machine's network, what becomes of it. Set it
	// before the first program starts.
	Fate func() Fate

	sys     string
	mu      sync.Mutex
	devices []*Device
	wire    wire
}

// Posted is what a doorbell brought.
type Posted struct {
	QPN            uint32
	UD             bool
	Doorbell       [8]byte
	Record         uint32
	Blocks         []byte
	ReceiveRecord  uint32
	ReceiveEntries []byte
	// Register is the offset in the page of the register that was written to. BlueFlame is how many bytes the doorbell of before in the
	// page had brought along in its register, which must be the beginning of its blocks; -1 when it brought others.
	Register, BlueFlame int
}

// NewHost makes a host with these devices. Close it after its programs have ended.
func NewHost(ports ...Port) (*Host, error) {
	if err := check(ports); err != nil {
		return nil, err
	}
	sys, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return nil, err
	}
	h := &Host{sys: sys}
	for i, p := range ports {
		d := newDevice(h, i, p)
		h.devices = append(h.devices, d)
		err := d.writeSysfs(filepath.Join(sys, "class"))
		if err == nil && p.RoCE {
			d.port, err = newRocePort(p.Addr)
		}
		if err != nil {
			h.undo()
			return nil, err
		}
	}
	for _, d := range h.devices {
		go d.run()
	}
	return h, nil
}

// check finds devices that there can't be: their names are those of folders.
func check(ports []Port) error {
	names := map[string]bool{}
	for _, p := range ports {
		switch {
		case p.Name == "" || p.Name != filepath.Base(p.Name) || p.Name == "." || p.Name == "..":
			return fmt.Errorf("device %q: it needs a name such as fake0", p.Name)
		case names[p.Name]:
			return fmt.Errorf("device %s: there are two of that name", p.Name)
		case !p.Addr.Is4():
			return fmt.Errorf("device %s: %v is no IPv4 address", p.Name, p.Addr)
		}
		names[p.Name] = true
	}
	return nil
}

// undo releases what NewHost has made before it failed.
func (h *Host) undo() {
	for _, d := range h.devices {
		if d.port != nil {
			d.port.close()
		}
	}
	os.RemoveAll(h.sys)
}

// Close stops the devices.
func (h *Host) Close() {
	for _, d := range h.devices {
		d.stop()
	}
	os.RemoveAll(h.sys)
}

// Device returns the device of that number.
func (h *Host) Device(i int) *Device { return h.devices[i] }

func (h *Host) logf(format string, args ...any) {
	if h.Log != nil {
		h.Log(format, args...)
	}
}

// A Program is a command that runs on a host.
type Program struct {
	cmd   *exec.Cmd
	serve sync.WaitGroup
	err   error
}

// Start starts a command that sees the host's devices. Its ExtraFiles must be empty.
func (h *Host) Start(cmd *exec.Cmd) (*Program, error) {
	l, err := usernotif.Start(cmd)
	if err != nil {
		return nil, err
	}
	p := &Program{cmd: cmd}
	p.serve.Add(1)
	go func() {
		defer p.serve.Done()
		defer l.Close()
		p.err = h.serve(l)
	}()
	return p, nil
}

// Wait waits until the program has ended, with the children that it has left, and what it had open on the
// devices is gone.
func (p *Program) Wait() error {
	err := p.cmd.Wait()
	p.serve.Wait()
	return errors.Join(err, p.err)
}

// serve answers a program's calls until it ends.
func (h *Host) serve(l *usernotif.Listener) error {
	var opened []*context
	defer func() {
		for _, c := range opened {
			c.device.release(c)
		}
	}()
	for {
		call, err := l.Receive()
		if errors.Is(err, usernotif.ErrEnded) {
			return nil
		}
		if err != nil {
			return err
		}
		var answered error
		switch call.Op {
		case usernotif.Open:
			var c *context
			if c, answered = h.open(call); c != nil {
				opened = append(opened, c)
			}
		case usernotif.Stat:
			answered = h.stat(call)
		case usernotif.Ioctl:
			answered = h.ioctl(call)
		case usernotif.Write:
			answered = h.write(call)
		}
		if answered != nil {
			h.logf("%s", answered)
		}
	}
}

// device finds the device of a file in /dev/infiniband.
func (h *Host) device(path string) *Device {
	var i int
	if n, _ := fmt.Sscanf(path, devPrefix+"%d", &i); n == 1 && i < len(h.devices) && path == fmt.Sprint(devPrefix, i) {
		return h.devices[i]
	}
	return nil
}

func (h *Host) open(call *usernotif.Call) (*context, error) {
	if strings.HasPrefix(call.Path, sysPrefix) {
		fd, err := unix.Open(h.redirect(call.Path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		var e unix.Errno
		if errors.As(err, &e) {
			return nil, call.Fail(e)
		}
		defer unix.Close(fd)
		return nil, call.GiveFile(fd)
	}
	d := h.device(call.Path)
	if d == nil {
		return nil, call.Continue()
	}
	c, err := d.open(call.Memory.PID)
	if err != nil {
		return nil, errors.Join(err, call.Fail(unix.ENOMEM))
	}
	h.logf("open %s", call.Path)
	return c, call.GiveFile(c.file.FD())
}

// redirect is where a path of /sys/class is on this machine.
func (h *Host) redirect(path string) string {
	return filepath.Join(h.sys, strings.TrimPrefix(path, "/sys"))
}

func (h *Host) stat(call *usernotif.Call) error {
	path := call.Path
	if strings.HasPrefix(path, sysPrefix) {
		var st unix.Stat_t
		if err := unix.Stat(h.redirect(path), &st); err != nil {
			return call.Fail(unix.ENOENT)
		}
		return call.GiveStat(&st)
	}
	d := h.device(path)
	if path == "" {
		if c := h.context(call); c != nil {
			d = c.device
		}
	}
	if d == nil {
		return call.Continue()
	}
	return call.GiveStat(&unix.Stat_t{Mode: unix.S_IFCHR | 0o666, Nlink: 1, Rdev: unix.Mkdev(uverbsMajor, uverbsMinor+uint32(d.index))})
}

// context finds what a file descriptor of the caller is.
func (h *Host) context(call *usernotif.Call) *context {
	var st unix.Stat_t
	path := fmt.Sprintf("/proc/%d/fd/%d", call.Memory.PID, call.FD)
	if err := unix.Stat(path, &st); err != nil {
		h.logf("%s: %v", path, err)
		return nil
	}
	for _, d := range h.devices {
		if c := d.context(usernotif.FileID{Dev: st.Dev, Ino: st.Ino}); c != nil {
			return c
		}
	}
	return nil
}

func (h *Host) ioctl(call *usernotif.Call) error {
	c := h.context(call)
	if c == nil {
		h.logf("ioctl on file %d of %d, which is no device", call.FD, call.Memory.PID)
		return call.Continue()
	}
	e := c.ioctl(call)
	if e != 0 {
		return call.Fail(e)
	}
	return call.Return()
}

func (h *Host) write(call *usernotif.Call) error {
	c := h.context(call)
	if c == nil {
		return call.Continue()
	}
	if e := c.write(call); e != 0 {
		return call.Fail(e)
	}
	return call.Written()
}
