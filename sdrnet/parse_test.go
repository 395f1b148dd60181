// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestWithPort(t *testing.T) {
	for in, want := range map[string]string{
		"host": "host:18515", "192.0.2.1": "192.0.2.1:18515", "::1": "[::1]:18515", "[::1]": "[::1]:18515", "[::1]:5": "[::1]:5", ":7": ":7",
		"": ":18515", "host:": "host:18515", "[::1]:": "[::1]:18515",
	} {
		require.Equal(t, want, withPort(in))
	}
}

// TestHelloOutOfRange: an end takes no MTU that devices don't have, nor lengths of buffers that it would divide by or allocate.
func TestHelloOutOfRange(t *testing.T) {
	for h, ok := range map[[2]units.Bytes]bool{
		{256, minBufferSize}: true, {4096, maxBufferSize}: true,
		{0, minBufferSize}: false, {128, minBufferSize}: false, {300, minBufferSize}: false, {4095, minBufferSize}: false,
		{4096, 0}: false, {4096, minBufferSize - 1}: false, {4096, maxBufferSize + 1}: false, {4096, 1<<32 - 1}: false,
	} {
		_, err := decodeHello(hello{mtu: h[0], buffer: h[1]}.encode())
		if ok {
			require.NoError(t, err, "%v", h)
		} else {
			require.ErrorIs(t, err, sdr.ErrMismatch, "%v", h)
		}
	}
}

// FuzzParsers: whatever a peer says while it connects or sends a file, and what is taken is said again in the same bytes.
func FuzzParsers(f *testing.F) {
	f.Add(hello{admission: true, mtu: 4096, buffer: defaultBufferSize, private: []byte("private")}.encode())
	for _, h := range []hello{
		{mtu: 0, buffer: defaultBufferSize}, {mtu: 128, buffer: defaultBufferSize}, {mtu: 4096, buffer: minBufferSize - 1}, {mtu: 4096, buffer: maxBufferSize + 1},
		{mtu: 4096, buffer: defaultBufferSize, private: make([]byte, maxPrivateData+1)},
	} {
		f.Add(h.encode())
	}
	for _, version := range []byte{helloVersion - 1, helloVersion + 1} {
		other := hello{mtu: 4096, buffer: defaultBufferSize}.encode()
		other[4] = version
		f.Add(other)
	}
	infos := encodeInfos([lanes][]byte{[]byte("the first"), nil})
	for n := range len(infos) + 1 { // whole, and cut anywhere
		f.Add(infos[:n])
	}
	f.Add(encodeInfos([lanes][]byte{[]byte("one"), []byte("two")}))
	file := FileInfo{Name: "name", Size: 5, Mode: 0o644, ModTime: time.Unix(1, 2)}.encode()
	f.Add(file)
	for _, at := range []int{0, 12, 16} { // mode, nanoseconds, size
		wrong := bytes.Clone(file)
		wrong[at] = 0xff
		f.Add(wrong)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil {
			require.True(t, h.mtu >= 256 && h.buffer >= minBufferSize && h.buffer <= maxBufferSize && len(h.private) <= int(maxPrivateData), "%+v", h)
			want := bytes.Clone(b)
			want[5] &= flagKernel | flagAdmission // other flags are ignored
			require.Equal(t, want, h.encode())
		}
		if infos, err := decodeInfos(b); err == nil {
			require.Equal(t, b, encodeInfos(infos))
		}
		if i, err := parseFileInfo(b); err == nil {
			require.GreaterOrEqual(t, i.Size, int64(0))
			require.Equal(t, b, i.encode())
		}
	})
}
