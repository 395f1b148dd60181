// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func message(kind uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, make([]byte, unix.NLMSG_HDRLEN-len(b))...)
	b = append(b, body...)
	return append(b, make([]byte, align4(len(b))-len(b))...)
}

func attribute(kind uint16, v []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.NLA_HDRLEN+len(v)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), v...)
	return append(b, make([]byte, align4(len(b))-len(b))...)
}

const (
	getMessage    = rdmaNLDev<<nldevTypeShift | nldevGet
	resGetMessage = rdmaNLDev<<nldevTypeShift | nldevResGet
)

func parseAllLinks(b []byte) ([]LinkInfo, error) { return parseAll(b, getMessage, parseLink) }

func linkMessage(name string) []byte {
	var b []byte
	for _, a := range [][]byte{
		attribute(nldevIndex, binary.NativeEndian.AppendUint32(nil, 3)), attribute(nldevName, append([]byte(name), 0)),
		attribute(nldevPort, binary.NativeEndian.AppendUint32(nil, 1)), attribute(nldevFirmware, []byte{0}),
		attribute(nldevNodeGUID, binary.NativeEndian.AppendUint64(nil, 0x505a02fffe111111)), attribute(99, []byte("later kernels")),
	} {
		b = append(b, a...)
	}
	return message(getMessage, b)
}

func TestParseLinks(t *testing.T) {
	b := append(append(linkMessage("rxe1"), linkMessage("rxe0")...), message(unix.NLMSG_DONE, make([]byte, 4))...)
	assert.True(t, ended(b))
	assert.False(t, ended(linkMessage("rxe1")))
	list, err := parseAllLinks(b)
	require.NoError(t, err)
	want := LinkInfo{Index: 3, Name: "rxe0", NodeGUID: GUID{0x50, 0x5a, 0x02, 0xff, 0xfe, 0x11, 0x11, 0x11}, Ports: 1}
	require.Len(t, list, 2)
	assert.Equal(t, "rxe1", list[0].Name)
	assert.Equal(t, want, list[1])

	no := int32(-int(unix.EPERM))
	_, err = parseAllLinks(message(unix.NLMSG_ERROR, binary.NativeEndian.AppendUint32(nil, uint32(no))))
	assert.ErrorIs(t, err, unix.EPERM)
}

// TestMalformedLinks: nothing that comes makes the parser read beyond it.
func TestMalformedLinks(t *testing.T) {
	good := linkMessage("rxe0")
	for name, b := range map[string][]byte{
		"no name":        message(getMessage, nil),
		"half a header":  good[:7],
		"cut":            good[:len(good)-4],
		"length 0":       append(make([]byte, 4), good[4:]...),
		"short index":    message(getMessage, attribute(nldevIndex, []byte{1})),
		"attribute cut":  message(getMessage, []byte{200, 0, 1, 0}),
		"attribute of 0": message(getMessage, []byte{0, 0, 1, 0}),
		"short error":    message(unix.NLMSG_ERROR, nil),
	} {
		_, err := parseAllLinks(b)
		assert.ErrorIs(t, err, errNetlink, name)
	}
}

func FuzzParseLinks(f *testing.F) {
	f.Add(linkMessage("rxe0"))
	f.Add(message(unix.NLMSG_DONE, make([]byte, 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		ended(b)
		if list, err := parseAllLinks(b); err == nil {
			for _, l := range list {
				assert.NotEmpty(t, l.Name)
			}
		}
	})
}

// TestLinksOfThisHost: with RDMA or without, listing is no error.
func TestLinksOfThisHost(t *testing.T) {
	list, err := Links()
	require.NoError(t, err)
	t.Log(list)
}
