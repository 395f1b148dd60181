// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// System is where devices are looked for. The zero value is the running system; tests and tools
// that look at another tree set both roots.
type System struct {
	// Sys is the mount point of sysfs; empty means /sys.
	Sys string
	// Dev is the folder of the uverbs device files; empty means /dev/infiniband.
	Dev string
}

func (s System) sys(elem ...string) string {
	root := s.Sys
	if root == "" {
		root = "/sys"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

func (s System) dev(name string) string {
	root := s.Dev
	if root == "" {
		root = "/dev/infiniband"
	}
	return filepath.Join(root, name)
}

// DeviceInfo is what sysfs tells about an RDMA device. Open is not needed for it.
type DeviceInfo struct {
	// Name of the RDMA device, such as rxe0 or mlx5_0.
	Name string
	// Uverbs is the name of its device file, such as uverbs0.
	Uverbs string
	// ABIVersion of the device's driver.
	ABIVersion int
	// NodeType is the kernel's words: "1: CA" for channel adapters, RoCE ones included.
	NodeType string
	// NodeGUID and SysImageGUID as set by the driver.
	NodeGUID, SysImageGUID GUID
	// Firmware version; empty for soft devices.
	Firmware string
	// Driver is the driver of the PCI function, or "rxe" for a soft device on a netdev.
	Driver string
	// Netdev is the network interface of a soft device; empty for others (their GID tables name it).
	Netdev string
	// Ports is the number of ports.
	Ports int
}

// Devices lists the RDMA devices of the running system, by name.
func Devices() ([]DeviceInfo, error) { return System{}.Devices() }

// Open opens the device of that name.
func Open(name string) (*Context, error) { return System{}.Open(name) }

// Devices lists the devices, by name. A device whose sysfs entries can't be read or make no sense
// is left out, and the error says why; the list is valid all the same. Without any RDMA support in
// the kernel the list is empty.
func (s System) Devices() ([]DeviceInfo, error) {
	entries, err := os.ReadDir(s.sys("class", "infiniband_verbs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Op: "list", Object: "devices", Err: err}
	}
	var list []DeviceInfo
	var bad []error
	for _, e := range entries {
		// The class has an attribute of its own, abi_version.
		if !strings.HasPrefix(e.Name(), "uverbs") {
			continue
		}
		d, err := s.readDevice(e.Name())
		if errors.Is(err, fs.ErrNotExist) && !exists(s.sys("class", "infiniband_verbs", e.Name())) {
			continue // unplugged while we looked
		}
		if err != nil {
			bad = append(bad, &Error{Op: "look at", Object: "device " + e.Name(), Err: err})
			continue
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b DeviceInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, errors.Join(bad...)
}

// Lookup finds one device by name. The error is ErrNoDevice and lists the devices that exist.
func (s System) Lookup(name string) (DeviceInfo, error) {
	all, bad := s.Devices()
	var names []string
	for _, d := range all {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	e := &Error{Op: "open device", Object: name, Err: errors.Join(ErrNoDevice, bad)}
	switch {
	case len(names) > 0:
		e.Fix = "there are " + strings.Join(names, ", ")
	case exists(s.sys("class", "infiniband")) || bad != nil:
		e.Fix = "load ib_uverbs (modprobe ib_uverbs) and add a device, for example: rdma link add rxe0 type rxe netdev eth0"
	default:
		e.Fix = "this kernel has no RDMA loaded: for an adapter modprobe -a ib_uverbs mlx5_ib, for Soft-RoCE modprobe -a ib_uverbs rdma_rxe, then: rdma link add rxe0 type rxe netdev eth0"
	}
	if bad == nil {
		e.Err = ErrNoDevice
	}
	return DeviceInfo{}, e
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s System) readDevice(uverbs string) (DeviceInfo, error) {
	r := reader{dir: s.sys("class", "infiniband_verbs", uverbs)}
	d := DeviceInfo{Uverbs: uverbs, Name: r.text("ibdev"), ABIVersion: r.number("abi_version")}
	if r.err != nil {
		return DeviceInfo{}, r.err
	}
	if d.Name == "" || d.Name != filepath.Base(d.Name) || d.Name == ".." {
		return DeviceInfo{}, fmt.Errorf("ibdev holds no device name: %q", d.Name)
	}
	r.dir = s.sys("class", "infiniband", d.Name)
	d.NodeType = r.text("node_type")
	d.NodeGUID = r.guid("node_guid")
	d.SysImageGUID = r.guid("sys_image_guid")
	d.Firmware = r.optional("fw_ver")
	d.Netdev = r.optional("parent")
	d.Driver = driver(r.dir, d.Netdev)
	ports, err := os.ReadDir(filepath.Join(r.dir, "ports"))
	if r.err == nil && err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.err = err
	}
	d.Ports = len(ports)
	return d, r.err
}

// driver names the kernel driver: that of the PCI function; of the soft devices, rxe alone says
// which netdev is its parent.
func driver(dir, parent string) string {
	if link, err := os.Readlink(filepath.Join(dir, "device", "driver")); err == nil {
		return filepath.Base(link)
	}
	if parent != "" {
		return "rxe"
	}
	return ""
}

// reader reads attributes of one folder; the first error sticks.
type reader struct {
	dir string
	err error
}

// maxAttribute is more than any attribute read here; sysfs itself ends at a page.
const maxAttribute = 4096

func (r *reader) read(name string) (string, error) {
	f, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, maxAttribute)
	n, err := f.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(string(b[:n])), nil
}

func (r *reader) text(name string) string {
	s, err := r.read(name)
	if err != nil && r.err == nil {
		r.err = err
	}
	return s
}

// optional is for attributes that not all devices have.
func (r *reader) optional(name string) string {
	s, _ := r.read(name)
	return s
}

func (r *reader) number(name string) int {
	s := r.text(name)
	n, err := strconv.Atoi(s)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: not a number: %q", filepath.Join(r.dir, name), s)
	}
	return n
}

func (r *reader) guid(name string) GUID {
	s := r.text(name)
	if r.err != nil {
		return GUID{}
	}
	g, err := parseGUID(s)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", filepath.Join(r.dir, name), err)
	}
	return g
}

// openFix says what an errno of open(2) on a uverbs file means.
func openFix(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return "the device file is missing: load ib_uverbs (modprobe ib_uverbs); in a container, pass /dev/infiniband in"
	case errors.Is(err, unix.EACCES):
		return "no permission for the device file: add the user to its group, or chmod 0666 it as rdma-core's udev rule does"
	case errors.Is(err, unix.EPERM):
		return "the device is in another network namespace (rdma system show; rdma dev set NAME netns NS), or the container's device policy forbids it"
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return "the device was removed"
	}
	return ""
}
