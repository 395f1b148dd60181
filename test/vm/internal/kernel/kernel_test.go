// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseDepends(t *testing.T) {
	info := "license=GPL\x00depends=ib_core,ip6-udp-tunnel\x00retpoline=Y\x00\x00\x00"
	assert.Equal(t, []string{"ib_core", "ip6_udp_tunnel"}, parseDepends([]byte(info)))
	assert.Empty(t, parseDepends([]byte("depends=\x00name=crc32\x00")))
}

func TestModuleName(t *testing.T) {
	assert.Equal(t, "rdma_rxe", moduleName("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"))
	assert.Equal(t, "crc32_generic", moduleName("crypto/crc32-generic.ko.xz"))
}

func TestPayload(t *testing.T) {
	b := make([]byte, 0x4000)
	copy(b[headerMagic:], "HdrS")
	b[setupSects] = 1
	binary.LittleEndian.PutUint32(b[payloadOffset:], 0x100)
	binary.LittleEndian.PutUint32(b[payloadLength:], 16)
	copy(b[2*512+0x100:], "compressed")
	got, err := payload(b)
	require.NoError(t, err)
	assert.Equal(t, "compressed", string(got[:10]))

	binary.LittleEndian.PutUint32(b[payloadLength:], 0x4000)
	_, err = payload(b)
	assert.ErrorContains(t, err, "outside the file")
	_, err = payload(make([]byte, 0x4000))
	assert.ErrorContains(t, err, "not a bzImage")
}

func TestUnknownLine(t *testing.T) {
	_, err := Prepare(context.Background(), t.TempDir(), "2.4", nil, nil)
	assert.EqualError(t, err, `no kernel line "2.4": there are 6.1, 6.12`)
}
