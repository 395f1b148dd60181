// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/dpa/device/internal/headers"
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

// An object is a compiled source file of the device, and where.
type object string

// compileHandler compiles handler.c, with old replaced by changed if old isn't empty.
func compileHandler(t *testing.T, old, changed string) object {
	t.Helper()
	return compile(t, "handler.c", old, changed)
}

// compile compiles a source file for the DPA.
func compile(t *testing.T, name, old, changed string, more ...string) object {
	t.Helper()
	needTools(t)
	source, err := os.ReadFile(filepath.Join("src", name))
	require.NoError(t, err)
	text := string(source)
	if old != "" {
		require.Equal(t, 1, strings.Count(text, old), "the mutation's text must be in %s once: %s", name, old)
		text = strings.Replace(text, old, changed, 1)
	}
	args := slices.Concat(target, more)
	if old != "" {
		args = append(args, "-Wno-error") // a variable may be left unused
	}
	return build(t, name, text, args...)
}

// built has the objects that were compiled, by their text and how: most tests want the same.
var built sync.Map

// build compiles a text, or finds what was made of it before.
func build(t *testing.T, name, text string, args ...string) object {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".c")+".o")
	key := strings.Join(append(args, text), "\x00")
	if elf, ok := built.Load(key); ok {
		require.NoError(t, os.WriteFile(out, elf.([]byte), 0o600))
		return object(out)
	}
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	output(t, compiler, append([]string{"-Isrc", "-c", file, "-o", out}, args...)...)
	elf, err := os.ReadFile(out)
	require.NoError(t, err)
	built.Store(key, elf)
	return object(out)
}

// link makes the program qemu.c of a compiled handler.
func link(t *testing.T, handler object) (program string) {
	t.Helper()
	return linkWith(t, "qemu.c", handler, compile(t, "control.c", "", ""))
}

// linkWith makes a program for qemu-user of a source file and what was compiled for the DPA.
func linkWith(t *testing.T, source string, objects ...object) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	text, err := os.ReadFile(filepath.Join("src", source))
	require.NoError(t, err)
	main := build(t, source, string(text), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
	args := []string{"-static", "-pthread", string(main), "-o", program}
	for _, o := range objects {
		args = append(args, o.linkable(t))
	}
	output(t, compiler, args...)
	return program
}

// linkable is the object as one that a C library can be linked with. The library's ABI passes floating-point
// numbers in registers, the DPA has none. The object's functions pass none, so that only the flag in its header
// keeps the two apart.
func (o object) linkable(t *testing.T) string {
	t.Helper()
	elf, err := os.ReadFile(string(o))
	require.NoError(t, err)
	const flagsOffset, floatABI, floatABIDouble = 48, 0x6, 0x4 // e_flags; RISC-V ELF psABI, "File Header"
	flags := binary.LittleEndian.Uint32(elf[flagsOffset:])
	require.Zero(t, flags&floatABI, "it is compiled for a hart without floating point")
	binary.LittleEndian.PutUint32(elf[flagsOffset:], flags|floatABIDouble)
	out := string(o) + "64d.o"
	require.NoError(t, os.WriteFile(out, elf, 0o600))
	return out
}

// symbols are an object's, of the kind that an option of nm selects.
func (o object) symbols(t *testing.T, option string) []string {
	t.Helper()
	return strings.Fields(output(t, nm, option, "--extern-only", "--format=just-symbols", string(o)))
}

// TestHandlerLinksTheABIOnly: what the device's code needs from outside is what abi.h names.
func TestHandlerLinksTheABIOnly(t *testing.T) {
	handler, control := compileHandler(t, "", ""), compile(t, "control.c", "", "")
	require.Equal(t, []string{"sdr_activate", "sdr_handle", "sdr_open", "sdr_set_length"}, handler.symbols(t, "--defined-only"))
	require.Equal(t, []string{"sdr_abi_cq_arm", "sdr_abi_reschedule", "sdr_abi_window", "sdr_abi_window_writeback"}, handler.symbols(t, "--undefined-only"))
	require.Equal(t, []string{"sdr_control"}, control.symbols(t, "--defined-only"))
	require.Equal(t, []string{"sdr_abi_activate", "sdr_abi_window", "sdr_abi_window_writeback", "sdr_open", "sdr_set_length"}, control.symbols(t, "--undefined-only"))
}

// TestHandlerNeedsZbs: the compiler has used the instructions that set the target apart, so a hart without
// them traps.
func TestHandlerNeedsZbs(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	cmd := exec.Command(emulator(t), "-cpu", "rv64,zbs=false", program, "count", "128", "16", "64", "1", "64")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out)+err.Error(), "llegal instruction")
}

// flexioHeaders says by which option a compiler finds FlexIO's header name: in the folder FLEXIO_INCLUDE, which must have it, or
// where it is installed, or else in testdata, among our declarations of what is used of it.
func flexioHeaders(t *testing.T, name string) (option string) {
	t.Helper()
	dir, err := headers.Find(name, "testdata/flexio")
	require.NoError(t, err)
	if dir == "testdata/flexio" {
		t.Logf("compiled against declarations of ours: no FlexIO in %s; set %s to the folder that has %s", headers.Installed, headers.Variable, name)
		return "-I" + dir
	}
	t.Logf("compiled against FlexIO's %s in %s", name, dir)
	return "-isystem" + dir // what they are warned of is not ours to mend
}

// TestFlexIOShim compiles the shim for the DPA against FlexIO's headers, where they are and dpacc's intrinsics with
// them; elsewhere against declarations of ours, which prove that it is complete and no more.
func TestFlexIOShim(t *testing.T) {
	// dpacc knows its intrinsics, this compiler doesn't: ours stand in for them unless there are others.
	shim := compile(t, "flexio.c", "", "", flexioHeaders(t, "libflexio-dev/flexio_dev.h"), "-idirafter", "testdata/flexio")
	require.Equal(t, []string{
		"sdr_abi_activate", "sdr_abi_cq_arm", "sdr_abi_reschedule", "sdr_abi_window", "sdr_abi_window_writeback", "sdr_event", "sdr_rpc",
	}, shim.symbols(t, "--defined-only"))
	require.Subset(t, shim.symbols(t, "--undefined-only"), []string{"sdr_activate", "sdr_control"})
}
