// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	compiler  = "riscv64-linux-gnu-gcc"
	nm        = "riscv64-linux-gnu-nm"
	crossLibc = "/usr/riscv64-linux-gnu/lib/libc.a"

	// stuck is when a program that should have ended is killed.
	stuck = 5 * time.Minute
)

// target is the DPA's instruction set and memory model; the handler may use nothing else.
var target = []string{
	"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror",
	"-march=rv64imac_zbs", "-mabi=lp64", "-mcmodel=medany", "-ffreestanding",
}

func needTools(t *testing.T) {
	t.Helper()
	for _, name := range []string{compiler, nm} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s isn't installed: apt-get install gcc-riscv64-linux-gnu", name)
		}
	}
	if _, err := os.Stat(crossLibc); err != nil {
		t.Skipf("%s isn't installed: apt-get install libc6-dev-riscv64-cross", crossLibc)
	}
	emulator(t)
}

func emulator(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"qemu-riscv64", "qemu-riscv64-static"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("qemu-riscv64 isn't installed: apt-get install qemu-user")
	return ""
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// emulated is a run of a program on a hart with Zbs; extra goes to the emulator.
func emulated(t *testing.T, extra []string, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	t.Cleanup(cancel)
	all := append([]string{"-cpu", "rv64,zbs=true"}, extra...)
	return exec.CommandContext(ctx, emulator(t), append(append(all, program), args...)...)
}

// compileHandler compiles handler.c, with old replaced by changed if old isn't empty.
func compileHandler(t *testing.T, old, changed string) (object string) {
	t.Helper()
	needTools(t)
	source, err := os.ReadFile("src/handler.c")
	require.NoError(t, err)
	text := string(source)
	if old != "" {
		require.Equal(t, 1, strings.Count(text, old), "the mutation's text must be in handler.c once: %s", old)
		text = strings.Replace(text, old, changed, 1)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "handler.c")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	object = filepath.Join(dir, "handler.o")
	args := append([]string{"-Isrc", "-c", file, "-o", object}, target...)
	if old != "" {
		args = append(args, "-Wno-error") // a variable may be left unused
	}
	output(t, compiler, args...)
	return object
}

// link makes a program for qemu-user of a compiled handler.
func link(t *testing.T, object string) (program string) {
	t.Helper()
	// The C library's ABI passes floating-point numbers in registers, the DPA has none. The handler passes
	// none, so that only the flag in its header keeps the two from being linked.
	elf, err := os.ReadFile(object)
	require.NoError(t, err)
	const flagsOffset, floatABI, floatABIDouble = 48, 0x6, 0x4 // e_flags; RISC-V ELF psABI, "File Header"
	flags := binary.LittleEndian.Uint32(elf[flagsOffset:])
	require.Zero(t, flags&floatABI, "the handler is compiled for a hart without floating point")
	binary.LittleEndian.PutUint32(elf[flagsOffset:], flags|floatABIDouble)
	linkable := object + "64d.o"
	require.NoError(t, os.WriteFile(linkable, elf, 0o600))
	program = filepath.Join(filepath.Dir(object), "qemu")
	output(t, compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "src/qemu.c", linkable, "-o", program)
	return program
}

// TestHandlerLinksTheABIOnly: what the handler needs from outside is what abi.h names.
func TestHandlerLinksTheABIOnly(t *testing.T) {
	object := compileHandler(t, "", "")
	needs := strings.Fields(strings.ReplaceAll(output(t, nm, "--undefined-only", object), " U ", " "))
	require.Equal(t, []string{"sdr_abi_cq_arm", "sdr_abi_host_flush", "sdr_abi_host_store", "sdr_abi_reschedule"}, needs)
	require.Empty(t, strings.Fields(output(t, nm, "--defined-only", "--extern-only", "--format=just-symbols", object))[4:],
		"it exports four functions")
}

// TestHandlerNeedsZbs: the compiler has used the instructions that set the target apart, so a hart without
// them traps.
func TestHandlerNeedsZbs(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	cmd := exec.Command(emulator(t), "-cpu", "rv64,zbs=false", program, "count", "128", "16", "0")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out)+err.Error(), "llegal instruction")
}
