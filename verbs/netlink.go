// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Numbers of rdma_netlink.h.
const (
	rdmaNLDev       = 5
	nldevTypeShift  = 10
	nldevResGet     = 9
	nldevName       = 2
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

// text is a string attribute.
func text(v []byte) string {
	s, _, _ := strings.Cut(string(v), "\x00")
	return s
}

func shortAttribute(kind uint16, v []byte, want int) error {
	return fmt.Errorf("%w: attribute %d has %d bytes, want %d", errNetlink, kind, len(v), want)
}
