// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/qemu"
)

func TestParseAsGoTestExecCallsIt(t *testing.T) {
	c, rest, err := parse([]string{"-kernel", "6.12", "-env", "A=1", "-env", "B=2", "/tmp/x/verbs.test", "-test.v", "-test.run=X"})
	require.NoError(t, err)
	assert.Equal(t, "6.12", c.kernel)
	assert.Equal(t, list{"A=1", "B=2"}, c.env)
	assert.Equal(t, []string{"/tmp/x/verbs.test", "-test.v", "-test.run=X"}, rest)
}

func TestMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"no program given":          {},
		"-suite takes no program":   {"-suite", "short", "true"},
		`no suite "nightly"`:        {"-suite", "nightly"},
		"executable file not found": {"no-such-program"},
	} {
		assert.ErrorContains(t, command(context.Background(), args), want)
	}
}

func TestSuites(t *testing.T) {
	short, full := selectEntries("short"), selectEntries("full")
	assert.Less(t, len(short), len(full))
	limit := 0
	for _, e := range short {
		assert.DirExists(t, filepath.Join("..", "..", e.pkg))
		assert.Positive(t, e.limitSeconds, e.pkg)
		limit += e.limitSeconds
	}
	assert.LessOrEqual(t, limit, 600, "the VM's part of the test command is ten minutes")
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SDR_SOMETHING", "x")
	t.Setenv("UNRELATED", "y")
	env := environment(&config{env: list{"K=V"}})
	assert.Contains(t, env, "SDR_SOMETHING=x")
	assert.Contains(t, env, "SDR_VM=1")
	assert.Contains(t, env, "K=V")
	assert.NotContains(t, env, "UNRELATED=y")
}

func TestAccelIsRememberedForThisBoot(t *testing.T) {
	c := &config{cache: t.TempDir()}
	_, ok := rememberedAccel(c)
	assert.False(t, ok)
	require.NoError(t, rememberAccel(c, qemu.TCG))
	got, ok := rememberedAccel(c)
	assert.True(t, ok)
	assert.Equal(t, qemu.TCG, got)
	require.NoError(t, os.WriteFile(accelFile(c), []byte("another-boot kvm\n"), 0o644))
	_, ok = rememberedAccel(c)
	assert.False(t, ok, "an answer of another boot is void")
}

func TestAccelFlag(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the VM runs on amd64 hosts")
	}
	_, err := chooseAccel(context.Background(), &config{accel: "xen"}, nil)
	assert.ErrorContains(t, err, "it must be auto, kvm or tcg")
	got, err := chooseAccel(context.Background(), &config{accel: "tcg"}, nil)
	require.NoError(t, err)
	assert.Equal(t, qemu.TCG, got)
}
