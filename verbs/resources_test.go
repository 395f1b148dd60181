// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nldevEntryMax is in the entries of Linux 7.
const nldevEntryMax = 118

func number(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }

// resourceMessage is what the kernel says of a device with one QP and three CQs.
func resourceMessage(name string, limits bool) []byte {
	entry := func(kind string, n uint64) []byte {
		b := slices.Concat(attribute(nldevEntryName, append([]byte(kind), 0)), attribute(nldevEntryCount, number(n)))
		if limits {
			b = append(b, attribute(nldevEntryMax, number(1<<20))...)
		}
		return attribute(nldevEntry, b)
	}
	return message(resGetMessage, slices.Concat(attribute(1, []byte{1, 0, 0, 0}), attribute(nldevName, append([]byte(name), 0)),
		attribute(nldevSummary, slices.Concat(entry("qp", 1), entry("cq", 3)))))
}

func TestParseResources(t *testing.T) {
	for _, limits := range []bool{false, true} { // Linux 6, 7
		b := slices.Concat(resourceMessage("rxe0", limits), otherMessage(), message(unix.NLMSG_DONE, make([]byte, 4)))
		list, err := parseAllResources(b)
		require.NoError(t, err)
		assert.Equal(t, []resources{{device: "rxe0", counts: map[string]uint64{"qp": 1, "cq": 3}}}, list)
	}
}

func TestMalformedResources(t *testing.T) {
	for name, b := range map[string][]byte{
		"summary cut": attribute(nldevSummary, []byte{9, 0, 16, 0}),
		"entry cut":   attribute(nldevSummary, attribute(nldevEntry, []byte{2})),
		"short count": attribute(nldevSummary, attribute(nldevEntry, attribute(nldevEntryCount, []byte{1, 2, 3}))),
	} {
		_, err := parseResources(b)
		assert.ErrorIs(t, err, errNetlink, name)
	}
}

func FuzzParseResources(f *testing.F) {
	f.Add(resourceMessage("rxe0", true))
	f.Add(message(unix.NLMSG_DONE, make([]byte, 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		ended(b)
		list, err := parseAllResources(b)
		if err != nil {
			assert.Empty(t, list)
		}
	})
}

func TestResourcesOfNoDevice(t *testing.T) {
	_, err := Resources("no such device")
	assert.ErrorIs(t, err, ErrNoDevice)
}
