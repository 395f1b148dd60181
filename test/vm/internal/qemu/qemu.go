// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package qemu starts one VM and reads what it says: the kernel's log, the jobs' output and the
// events of its init.
package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/kernel"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
)

// Program is the emulator's name.
func Program(arch string) string {
	if arch == kernel.ARM64 {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// debianPackage is what it is in.
func debianPackage(arch string) string {
	if arch == kernel.ARM64 {
		return "qemu-system-arm"
	}
	return "qemu-system-x86"
}

// Machine describes one VM.
type Machine struct {
	// Arch is the kernel's.
	Arch           string
	Kernel, Initrd string
	Accel          Accel
	MemoryMiB      int
	CPUs           int
	// Append is added to the kernel's command line.
	Append string
	// Cable, when not nil, is one of a pair of connected stream sockets: the VM has a network
	// interface whose packets go through it. MAC is that interface's address.
	Cable *os.File
	MAC   string
	// Output receives the jobs' output while they run.
	Output io.Writer
	// Event is called for each event, from one goroutine.
	Event func(vmjob.Event)
}

// Accel is how the guest's instructions are run.
type Accel string

const (
	KVM Accel = "kvm"
	TCG Accel = "tcg"
	// Count is TCG with one thread, whose guest's clock counts instructions, one nanosecond each: what
	// programs measure inside doesn't depend on what else the host does, and repeats.
	Count Accel = "count"
)

// The processors that are emulated.
const (
	// Emulated ERMS and PCLMUL make the copies and checksums of rxe twice as slow as plain loops.
	plainCPU = "max,-erms,-pclmulqdq"
	// That of Ampere's Altra: pages of 4, 16 and 64 KiB, and LSE's atomic instructions.
	armCPU = "neoverse-n1"
)

func (a Accel) args(emulated string) []string {
	switch a {
	case KVM:
		return []string{"-accel", "kvm", "-cpu", "host"}
	case Count:
		return []string{"-accel", "tcg,thread=single,tb-size=512", "-icount", "shift=0,sleep=off", "-cpu", emulated}
	}
	return []string{"-accel", "tcg,thread=multi,tb-size=512", "-cpu", emulated}
}

// firstExtraFile is the descriptor of the first of exec.Cmd's ExtraFiles.
const firstExtraFile = 3

const (
	kernelArgs      = "quiet panic=-1 nokaslr mitigations=off"
	kernelArgsAMD64 = "console=ttyS0 tsc=reliable no_timer_check " + kernelArgs
	kernelArgsARM64 = "console=ttyAMA0 " + kernelArgs
)

// Args is the command line of the VM; ports are the paths of the three serial ports.
func (m *Machine) args(ports [3]string) []string {
	var a []string
	for i, p := range ports {
		a = append(a, "-chardev", fmt.Sprintf("file,id=s%d,path=%s", i, p))
	}
	kernelArgs := kernelArgsAMD64
	if m.Arch == kernel.ARM64 {
		// The machine has one serial port, for the kernel. The others are ttyS1 and ttyS2 of a card, as they are called on amd64.
		kernelArgs = kernelArgsARM64
		a = append(a, "-M", "virt", "-serial", "chardev:s0", "-chardev", "null,id=s3", "-chardev", "null,id=s4",
			"-device", "pci-serial-4x,chardev1=s3,chardev2=s1,chardev3=s2,chardev4=s4")
		a = append(a, m.Accel.args(armCPU)...)
	} else {
		a = append(a, "-M", "q35", "-serial", "chardev:s0", "-serial", "chardev:s1", "-serial", "chardev:s2")
		a = append(a, m.Accel.args(plainCPU)...)
	}
	a = append(a, "-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.MemoryMiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.Kernel, "-initrd", m.Initrd, "-append", strings.TrimSpace(kernelArgs+" "+m.Append))
	if m.Cable != nil {
		a = append(a, "-netdev", fmt.Sprintf("socket,id=cable,fd=%d", firstExtraFile+len(ports)),
			"-device", "virtio-net-pci,romfile=,netdev=cable,mac="+m.MAC)
	}
	return a
}

// Run boots the VM and returns when it is off. Cancelling ctx ends it. The error says why init's
// last event did not come, with the end of the kernel's log.
func (m *Machine) Run(ctx context.Context) error {
	// The death signal of a child is tied to the thread that started it, so stay on one: then
	// QEMU can't outlive this process, however that ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var readers, writers [3]*os.File
	for i := range readers {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		defer w.Close()
		readers[i], writers[i] = r, w
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, Program(m.Arch), m.args([3]string{"/proc/self/fd/3", "/proc/self/fd/4", "/proc/self/fd/5"})...)
	cmd.ExtraFiles = writers[:]
	if m.Cable != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, m.Cable)
	}
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w (apt-get install %s)", err, debianPackage(m.Arch))
	}
	for _, w := range writers {
		w.Close()
	}
	var console tail
	done := false
	var output error
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&console, readers[0]) })
	wg.Go(func() { output = copyAll(m.Output, readers[1]) })
	wg.Go(func() { done = m.events(readers[2]) })
	wg.Wait()
	err := cmd.Wait()
	switch {
	case done && output != nil:
		return fmt.Errorf("the jobs' output: %w", output)
	case done:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("VM ended before its jobs: %w\n%s", context.Cause(ctx), console.String())
	case err != nil:
		return &CrashError{fmt.Sprintf("%s: %v: %s", Program(m.Arch), err, strings.TrimSpace(stderr.String()))}
	}
	return &CrashError{fmt.Sprintf("VM went down before its jobs had ended; the end of its console:\n%s%s", console.String(), stderr.String())}
}

// copyAll copies until the end, and reads on when nothing can be written any more: a VM whose output nobody takes stands still.
func copyAll(w io.Writer, r io.Reader) error {
	_, err := io.Copy(w, r)
	_, _ = io.Copy(io.Discard, r)
	return err
}

// CrashError says that the emulator or the guest's kernel died.
type CrashError struct{ what string }

func (e *CrashError) Error() string { return e.what }

// events passes events on and tells whether the last one came.
func (m *Machine) events(r io.Reader) (done bool) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		var e vmjob.Event
		if json.Unmarshal(s.Bytes(), &e) != nil {
			continue
		}
		m.Event(e)
		done = done || e.Kind == vmjob.Done || e.Kind == vmjob.Failed
	}
	return done
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

const tailSize = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 2*tailSize {
		t.b = append(t.b[:0], t.b[len(t.b)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ReplaceAll(string(t.b), "\r", "") }

// Installed tells whether the emulator can be started at all.
func Installed(arch string) error {
	if _, err := exec.LookPath(Program(arch)); err != nil {
		return fmt.Errorf("%s is missing: apt-get install %s xz-utils zstd", Program(arch), debianPackage(arch))
	}
	return nil
}
