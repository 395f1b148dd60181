// SPDX-License-Identifier: Apache-2.0

// Package oobtest has strangers that talk to an out-of-band port by hand: package oob's own Conns behave.
package oobtest

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
)

// Hello is the first frame of a peer of package oob (docs/wire.md): sixteen bytes.
const Hello = "SDRx\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// Flood connects so many peers to addr, that say hello and send four messages and a blob of the longest kind right behind it, as far as they
// are taken, and returns when all of it is or after half a second. On a busy host more may be taken later: the peers go on, and their connections
// stay, until the test ends.
func Flood(t *testing.T, addr string, peers int) {
	t.Helper()
	const part = 64 << 10 // for all payloads, so that what a test measures of its own heap is hardly the flood
	zeros := make([]byte, part)
	var flood net.Buffers
	long := func(kind, number byte) {
		header := []byte{'S', 'D', 'R', 'x', 1, kind, 0, 0, 0, 0, 0, number}
		flood = append(flood, binary.BigEndian.AppendUint32(header, uint32(oob.DefaultMaxBlob)))
		for range oob.DefaultMaxBlob / part {
			flood = append(flood, zeros)
		}
	}
	for number := range byte(4) {
		long(3, number+1)
	}
	long(2, 1)
	var writes sync.WaitGroup
	t.Cleanup(writes.Wait) // once the connections are closed
	for range peers {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		_, err = nc.Write([]byte(Hello)) // there is room for it, so that on a busy host, too, who listens hears of all
		require.NoError(t, err)
		own := slices.Clone(flood) // which WriteTo consumes
		writes.Go(func() { _, _ = own.WriteTo(nc) })
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		writes.Wait()
	}()
	select {
	case <-taken:
	case <-time.After(500 * time.Millisecond):
	}
}
