// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// LinkInfo is what the kernel's netlink interface tells about an RDMA device. It lists devices that
// have no uverbs file, too, because ib_uverbs isn't loaded, and those that this network namespace may
// use and no others.
type LinkInfo struct {
	// Index is the kernel's number for the device, which its renaming doesn't change.
	Index uint32
	// Name of the RDMA device, such as rxe0.
	Name string
	// Firmware version; empty for soft devices.
	Firmware string
	// NodeGUID and SysImageGUID as set by the driver.
	NodeGUID, SysImageGUID GUID
	// Ports is the number of ports.
	Ports int
}

// Links lists the RDMA devices by netlink (RDMA_NLDEV_CMD_GET), by name. It needs no privilege. Without
// RDMA in the kernel the list is empty.
func Links() ([]LinkInfo, error) {
	list, err := dump(nldevGet, parseLink)
	slices.SortFunc(list, func(x, y LinkInfo) int { return strings.Compare(x.Name, y.Name) })
	return list, wrap("list devices", "netlink", err)
}

// Numbers of rdma_netlink.h.
const (
	rdmaNLDev       = 5
	nldevTypeShift  = 10
	nldevGet        = 1
	nldevResGet     = 9
	nldevIndex      = 1
	nldevName       = 2
	nldevPort       = 3 // of a device: the number of its last port
	nldevFirmware   = 5
	nldevNodeGUID   = 6
	nldevSysGUID    = 7
	nldevSummary    = 15 // nested: entries
	nldevEntry      = 16 // nested: a name and a number, and more in later kernels
	nldevEntryName  = 17
	nldevEntryCount = 18
	nlaType         = 0x3fff // the rest of an attribute's type are flags
)

// dump asks for all objects of a command and parses each message. Without RDMA in the kernel there are
// none.
func dump[T any](command uint16, parse func([]byte) (T, error)) ([]T, error) {
	kind := rdmaNLDev<<nldevTypeShift | command
	b, err := receive(kind)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseAll(b, kind, parse)
}

// receive makes a dump request and returns the kernel's messages.
func receive(kind uint16) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	req := make([]byte, unix.NLMSG_HDRLEN)
	binary.NativeEndian.PutUint32(req, uint32(len(req)))
	binary.NativeEndian.PutUint16(req[4:], kind)
	binary.NativeEndian.PutUint16(req[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var all []byte
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, buf[:n]...)
		if ended(all) {
			return all, nil
		}
	}
}

// ended tells whether the last message of a dump is there, or one that can't be read.
func ended(b []byte) bool {
	for len(b) > 0 {
		h, _, rest, err := nextMessage(b)
		if err != nil || h == unix.NLMSG_DONE || h == unix.NLMSG_ERROR {
			return true
		}
		b = rest
	}
	return false
}

var errNetlink = errors.New("the kernel's answer can't be read")

// nextMessage splits off a netlink message.
func nextMessage(b []byte) (kind uint16, body, rest []byte, err error) {
	if len(b) < unix.NLMSG_HDRLEN {
		return 0, nil, nil, errNetlink
	}
	n := int(binary.NativeEndian.Uint32(b))
	if n < unix.NLMSG_HDRLEN || n > len(b) {
		return 0, nil, nil, errNetlink
	}
	return binary.NativeEndian.Uint16(b[4:]), b[unix.NLMSG_HDRLEN:n], b[min(align4(n), len(b)):], nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// parseAll parses the messages of one kind in a dump.
func parseAll[T any](b []byte, want uint16, parse func([]byte) (T, error)) (list []T, err error) {
	for len(b) > 0 {
		kind, body, rest, err := nextMessage(b)
		switch {
		case err != nil:
			return nil, err
		case kind == unix.NLMSG_ERROR:
			if len(body) < 4 {
				return nil, errNetlink
			}
			return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
		case kind == want:
			v, err := parse(body)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		b = rest
	}
	return list, nil
}

// attributes calls set for each attribute. A value may be nested attributes.
func attributes(b []byte, set func(kind uint16, value []byte) error) error {
	for len(b) > 0 {
		if len(b) < unix.NLA_HDRLEN {
			return errNetlink
		}
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.NLA_HDRLEN || n > len(b) {
			return errNetlink
		}
		kind, value := binary.NativeEndian.Uint16(b[2:])&nlaType, b[unix.NLA_HDRLEN:n]
		b = b[min(align4(n), len(b)):]
		if err := set(kind, value); err != nil {
			return err
		}
	}
	return nil
}

// parseLink reads the attributes of one device.
func parseLink(b []byte) (l LinkInfo, err error) {
	if err := attributes(b, l.set); err != nil {
		return l, err
	}
	if l.Name == "" {
		return l, fmt.Errorf("%w: a device without a name", errNetlink)
	}
	return l, nil
}

func (l *LinkInfo) set(kind uint16, v []byte) error {
	want := 0
	switch kind {
	case nldevIndex, nldevPort:
		want = 4
	case nldevNodeGUID, nldevSysGUID:
		want = 8
	}
	if len(v) < want {
		return shortAttribute(kind, v, want)
	}
	switch kind {
	case nldevIndex:
		l.Index = binary.NativeEndian.Uint32(v)
	case nldevName:
		l.Name = text(v)
	case nldevPort:
		l.Ports = int(binary.NativeEndian.Uint32(v))
	case nldevFirmware:
		l.Firmware = text(v)
	case nldevNodeGUID: // numbers in the host's order
		binary.BigEndian.PutUint64(l.NodeGUID[:], binary.NativeEndian.Uint64(v))
	case nldevSysGUID:
		binary.BigEndian.PutUint64(l.SysImageGUID[:], binary.NativeEndian.Uint64(v))
	}
	return nil
}

// text is a string attribute.
func text(v []byte) string {
	s, _, _ := strings.Cut(string(v), "\x00")
	return s
}

func shortAttribute(kind uint16, v []byte, want int) error {
	return fmt.Errorf("%w: attribute %d has %d bytes, want %d", errNetlink, kind, len(v), want)
}
