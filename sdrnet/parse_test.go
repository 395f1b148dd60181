// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWithPort(t *testing.T) {
	for in, want := range map[string]string{
		"host": "host:18515", "192.0.2.1": "192.0.2.1:18515", "::1": "[::1]:18515", "[::1]": "[::1]:18515", "[::1]:5": "[::1]:5", ":7": ":7",
		"": ":18515",
	} {
		require.Equal(t, want, withPort(in))
	}
}

// FuzzParsers: whatever a peer says while it connects or sends a file, and what is taken is said again in the same bytes.
func FuzzParsers(f *testing.F) {
	f.Add(hello{mtu: 4096, buffer: defaultBufferSize, private: []byte("private")}.encode())
	for _, h := range []hello{
		{mtu: 0, buffer: defaultBufferSize}, {mtu: 128, buffer: defaultBufferSize}, {mtu: 4096, buffer: minBufferSize - 1}, {mtu: 4096, buffer: maxBufferSize + 1},
		{mtu: 4096, buffer: defaultBufferSize, private: make([]byte, maxPrivateData+1)},
	} {
		f.Add(h.encode())
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
			want[5] &= flagKernel // other flags are ignored
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
