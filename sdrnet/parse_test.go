// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
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
	f.Add(encodeInfos([lanes][]byte{[]byte("one"), []byte("two")}))
	f.Add(FileInfo{Name: "name", Size: 5, Mode: 0o644, ModTime: time.Unix(1, 2)}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil && b[5]&^flagKernel == 0 {
			require.Equal(t, b, h.encode())
		}
		if infos, err := decodeInfos(b); err == nil {
			require.Equal(t, b, encodeInfos(infos))
		}
		if i, err := parseFileInfo(b); err == nil {
			require.Equal(t, b, i.encode())
		}
	})
}
