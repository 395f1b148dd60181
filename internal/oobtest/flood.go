// SPDX-License-Identifier: Apache-2.0

// Package oobtest has strangers that talk to an out-of-band port by hand: package oob's own Conns behave.
package oobtest

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
)

// Hello is the first frame of a peer of package oob (docs/wire.md): sixteen bytes.
const Hello = "SDRx\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// Flood connects so many peers to addr, that say hello and send four messages and a blob of the longest kind right behind it, as far as they
// are taken within half a second. The connections stay until the test ends.
func Flood(t *testing.T, addr string, peers int) {
	t.Helper()
	var flood []byte
	long := func(kind, number byte) {
		flood = append(flood, 'S', 'D', 'R', 'x', 1, kind, 0, 0, 0, 0, 0, number)
		flood = append(binary.BigEndian.AppendUint32(flood, uint32(oob.DefaultMaxBlob)), make([]byte, oob.DefaultMaxBlob)...)
	}
	for number := range byte(4) {
		long(3, number+1)
	}
	long(2, 1)
	var writes sync.WaitGroup
	for range peers {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		_, err = nc.Write([]byte(Hello)) // there is room for it, so that on a busy host, too, who listens hears of all
		require.NoError(t, err)
		require.NoError(t, nc.SetDeadline(time.Now().Add(500*time.Millisecond)))
		writes.Go(func() { _, _ = nc.Write(flood) })
	}
	writes.Wait()
}
