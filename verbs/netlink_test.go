// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
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

const resGetMessage = rdmaNLDev<<nldevTypeShift | nldevResGet

// otherMessage answers another question.
func otherMessage() []byte {
	return message(resGetMessage+1, attribute(nldevName, []byte("no answer to this\x00")))
}

func parseAllResources(b []byte) ([]resources, error) {
	return parseAll(b, resGetMessage, parseResources)
}

func TestEnds(t *testing.T) {
	answers := append(resourceMessage("rxe1", false), resourceMessage("rxe0", true)...)
	assert.False(t, ended(answers))
	assert.True(t, ended(append(answers, message(unix.NLMSG_DONE, make([]byte, 4))...)))
	no := int32(-int(unix.EPERM))
	refusal := message(unix.NLMSG_ERROR, binary.NativeEndian.AppendUint32(nil, uint32(no)))
	assert.True(t, ended(refusal))
	_, err := parseAllResources(refusal)
	assert.ErrorIs(t, err, unix.EPERM)
}

// TestMalformedMessages: nothing that comes makes the parser read beyond it.
func TestMalformedMessages(t *testing.T) {
	good := resourceMessage("rxe0", false)
	for name, b := range map[string][]byte{
		"half a header":  good[:7],
		"cut":            good[:len(good)-4],
		"length 0":       append(make([]byte, 4), good[4:]...),
		"attribute cut":  message(resGetMessage, []byte{200, 0, 1, 0}),
		"attribute of 0": message(resGetMessage, []byte{0, 0, 1, 0}),
		"short error":    message(unix.NLMSG_ERROR, nil),
	} {
		_, err := parseAllResources(b)
		assert.ErrorIs(t, err, errNetlink, name)
	}
}
