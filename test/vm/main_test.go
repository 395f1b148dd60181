// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/kernel"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/qemu"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
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
		"-mtu 700: it must be 1280": {"-mtu", "700", "true"},
		"-mtu 70000":                {"-mtu", "70000", "true"},
		"-cpus 0":                   {"-cpus", "0", "true"},
		"-mem 1":                    {"-mem", "1", "true"},
		"-timeout -1s":              {"-timeout", "-1s", "true"},
		"bench has no tests":        {"-suite", "bench", "-run", "TestX"},
		"are for a -suite":          {"-run", "TestX", "true"},
		"missing closing ):":        {"-suite", "short", "-list", "-run", "("},
		"-env SDR_X: it must be":    {"-env", "SDR_X", "true"},
	} {
		assert.ErrorContains(t, command(context.Background(), args), want)
	}
}

func TestSuites(t *testing.T) {
	short, full := selectEntries(shortSuite, ""), selectEntries(fullSuite, "")
	assert.Less(t, len(short), len(full))
	smoke := selectEntries(smokeSuite, "")
	assert.Less(t, len(smoke), len(short))
	for _, e := range smoke {
		assert.Equal(t, e.smoke, e.run, e.pkg)
		assert.False(t, e.full || e.pair, e.pkg)
	}
	raced := selectEntries(raceSuite, "")
	assert.Len(t, raced, 3, "verbs, backend/uc and backend/rc")
	for _, e := range raced {
		assert.Equal(t, e.race, e.run, e.pkg)
	}
	limit := 0
	for _, e := range short {
		assert.DirExists(t, filepath.Join("..", "..", e.pkg))
		assert.Positive(t, e.limitSeconds, e.pkg)
		limit += e.limitSeconds
	}
	assert.LessOrEqual(t, limit, 600, "the VM's part of the test command is ten minutes")
}

// TestChosenTestsExist: each part of what a suite chooses from a package's tests chooses some.
func TestChosenTestsExist(t *testing.T) {
	ofCases := regexp.MustCompile(`/\([^)]*\)`)
	for _, e := range suite {
		files, err := filepath.Glob(filepath.Join("..", "..", e.pkg, "*_test.go"))
		require.NoError(t, err)
		var names []string
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				names = append(names, string(m[1]))
			}
		}
		for part := range strings.SplitSeq(ofCases.ReplaceAllString(e.smoke+"|"+e.race, ""), "|") {
			if part != "" && !e.program {
				assert.True(t, slices.ContainsFunc(names, regexp.MustCompile(part).MatchString), "%s of %s", part, e.pkg)
			}
		}
	}
}

// TestRunChoosesTests: -run holds for every package of a suite, whatever that runs by itself, and leaves out what is no test.
func TestRunChoosesTests(t *testing.T) {
	for _, name := range []string{shortSuite, fullSuite, smokeSuite, pairSuite, raceSuite} {
		for _, e := range selectEntries(name, "") {
			own := e.flags(&config{suite: name})
			if e.run == "" {
				assert.NotContains(t, fmt.Sprint(own), "-test.run", "%s of %s", e.pkg, name)
			} else {
				assert.Contains(t, own, "-test.run="+e.run, "%s of %s", e.pkg, name)
			}
		}
		chosen := selectEntries(name, "TestX")
		require.NotEmpty(t, chosen)
		for _, e := range chosen {
			assert.False(t, e.program || e.bench, e.pkg)
			flags := e.flags(&config{suite: name, run: "TestX"})
			assert.Contains(t, flags, "-test.run=TestX", "%s of %s", e.pkg, name)
			if e.run != "" {
				assert.NotContains(t, flags, "-test.run="+e.run, "%s of %s", e.pkg, name)
			}
		}
	}
}

// Two VMs print at a time: each line stays whole and tells whose it is.
func TestMarker(t *testing.T) {
	var out bytes.Buffer
	one, two := &prefixer{out: &out}, &prefixer{out: &out, mark: "[VM 2] "}
	for _, w := range []struct {
		m    *prefixer
		text string
	}{{one, "--- PA"}, {two, "a\nb"}, {one, "SS: TestX\n"}, {two, "c\n\n"}} {
		n, err := w.m.Write([]byte(w.text))
		require.NoError(t, err)
		require.Equal(t, len(w.text), n)
	}
	assert.Equal(t, "[VM 2] a\n--- PASS: TestX\n[VM 2] bc\n[VM 2] \n", out.String())
}

func TestPairEnds(t *testing.T) {
	b := &suiteBuild{config: &config{mtu: 4200}}
	base := bootJobs{manifest: vmjob.Manifest{Network: network(b.config), Jobs: []vmjob.Job{{Name: "x", Env: []string{"A=1"}}}}}
	for i, want := range []string{"SDR_PAIR_PEER=10.8.0.2,fd00:8::2", "SDR_PAIR_PEER=10.8.0.1,fd00:8::1"} {
		e := b.pairEnd(base, i, nil)
		assert.Nil(t, e.manifest.Network)
		assert.Equal(t, 4200, e.manifest.Uplink.MTU)
		assert.Contains(t, e.manifest.Jobs[0].Env, want)
		assert.Contains(t, e.manifest.Jobs[0].Env, fmt.Sprintf("SDR_PAIR=%d", i))
	}
	assert.Equal(t, []string{"A=1"}, base.manifest.Jobs[0].Env, "the ends share nothing")
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
	assert.ErrorContains(t, err, "it must be auto, kvm, tcg or count")
	got, err := chooseAccel(context.Background(), &config{accel: "tcg"}, nil)
	require.NoError(t, err)
	assert.Equal(t, qemu.TCG, got)
	foreign := &prepared{kernel: &kernel.Kernel{Arch: kernel.ARM64}}
	got, err = chooseAccel(context.Background(), &config{accel: "auto"}, foreign)
	require.NoError(t, err)
	assert.Equal(t, qemu.TCG, got)
	_, err = chooseAccel(context.Background(), &config{accel: "kvm", kernel: "6.12-16k"}, foreign)
	assert.EqualError(t, err, "-accel kvm: kernel 6.12-16k is for arm64, this host is amd64")
}

// TestKernelThatDiesEarly: a VM that goes down before its init has said anything is started again, twice; one whose jobs have begun is not.
func TestKernelThatDiesEarly(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	starts := filepath.Join(dir, "starts")
	p := &prepared{kernel: &kernel.Kernel{Arch: kernel.AMD64}, init: "/bin/true", accel: qemu.TCG}
	for says, want := range map[string]int{"": mostBoots, `{"kind":"booted"}`: 1} {
		// The third serial port, which events come from, is descriptor 5.
		script := "#!/bin/sh\necho >> " + starts + "\necho '" + says + "' >&5\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, qemu.Program(kernel.AMD64)), []byte(script), 0o755))
		var died *qemu.CrashError
		_, err := boot(context.Background(), &config{accel: "tcg"}, p, bootJobs{limit: time.Minute})
		require.ErrorAs(t, err, &died)
		lines, err := os.ReadFile(starts)
		require.NoError(t, err)
		require.Len(t, lines, want, "%q", says)
		require.NoError(t, os.Remove(starts))
	}
}
