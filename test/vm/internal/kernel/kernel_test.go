// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/debian"
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

// TestOwnImage: what a kernel of one's own is for is seen in the file, and what is none is refused before it is booted.
func TestOwnImage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kernel")
	for arch, begin := range map[string]string{ARM64: strings.Repeat("\x00", imageMagicAt) + imageMagic, AMD64: "\x7fELF\x02"} {
		require.NoError(t, os.WriteFile(file, []byte(begin), 0o644))
		k, err := Prepare(context.Background(), t.TempDir(), file, nil, nil)
		require.NoError(t, err)
		assert.Equal(t, &Kernel{Release: "kernel", Arch: arch, Image: file}, k)
	}
	require.NoError(t, os.WriteFile(file, []byte("MZ"), 0o644))
	_, err := Prepare(context.Background(), t.TempDir(), file, nil, nil)
	assert.ErrorContains(t, err, "neither an Image of arm64 nor a vmlinux of amd64")
	assert.ErrorContains(t, writeImage(context.Background(), ARM64, file, file+".out"), "no Image of arm64")
}

func TestUnknownLine(t *testing.T) {
	_, err := Prepare(context.Background(), t.TempDir(), "2.4", nil, nil)
	assert.EqualError(t, err, `no kernel line "2.4": there are 6.1, 6.12, 6.12-16k, newest`)
}

// TestLocate: image and modules of one package, and of split ones.
func TestLocate(t *testing.T) {
	for _, c := range []struct{ release, image, modules string }{
		{"6.1.0-50-amd64", "boot/vmlinuz-6.1.0-50-amd64", "lib/modules/6.1.0-50-amd64"},
		{"7.3.4+deb13-amd64", "usr/lib/modules/7.3.4+deb13-amd64/vmlinuz", "usr/lib/modules/7.3.4+deb13-amd64"},
	} {
		dir := t.TempDir()
		write := func(name string) {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("kernel/fs/ext4/ext4.ko\n"), 0o644))
		}
		write(c.image)
		write(c.modules + "/modules.builtin")
		write(c.modules + "/kernel/net/veth.ko.xz")
		release, image, tree, err := locate(dir)
		require.NoError(t, err)
		assert.Equal(t, c.release, release)
		assert.Equal(t, filepath.Join(dir, c.image), image)
		assert.True(t, tree.builtin["ext4"])
		assert.Equal(t, []string{"veth"}, tree.present([]string{"crc32_generic", "veth"}))

		write("boot/vmlinuz-9.9")
		_, _, _, err = locate(dir)
		assert.ErrorContains(t, err, "want one")
	}
}

// TestNewestExpires: the newest kernel of the cache is asked for again after some days, and taken all the same where nobody answers.
func TestNewestExpires(t *testing.T) {
	for _, c := range []struct {
		line       string
		age        time.Duration
		asks, says int
	}{{Newest, time.Hour, 0, 0}, {Newest, 8 * 24 * time.Hour, 1, 1}, {"6.1", 100 * 24 * time.Hour, 0, 0}} {
		cache, asked, said := t.TempDir(), 0, 0
		dir := folder(cache, c.line)
		require.NoError(t, os.Mkdir(dir, 0o755))
		file := filepath.Join(dir, "kernel.json")
		require.NoError(t, os.WriteFile(file, []byte(`{"release":"7.0"}`), 0o644))
		built := time.Now().Add(-c.age)
		require.NoError(t, os.Chtimes(file, built, built))
		k, err := Prepare(t.Context(), cache, c.line, func() (*debian.Archive, error) {
			asked++
			return nil, errors.New("no network\nat all")
		}, func(what string) {
			said++
			assert.Equal(t, "takes 7.0, the newest kernel on "+built.Format(time.DateOnly)+": no network", what)
		})
		require.NoError(t, err)
		assert.Equal(t, "7.0", k.Release)
		assert.Equal(t, [2]int{c.asks, c.says}, [2]int{asked, said}, "%+v", c)
	}
}
