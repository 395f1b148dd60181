// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usernotif

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	targetEnv = "SDR_FAKEVERBS_TARGET"
	fakePath  = "/dev/no-such-file"
)

func TestMain(m *testing.M) {
	Init()
	if os.Getenv(targetEnv) != "" {
		target()
		return
	}
	os.Exit(m.Run())
}

// target is the program of the tests: it says what it sees of a file that doesn't exist.
func target() {
	var st unix.Stat_t
	err := unix.Stat(fakePath, &st)
	fmt.Println("stat", err, st.Mode&unix.S_IFMT == unix.S_IFCHR, unix.Major(st.Rdev), unix.Minor(st.Rdev))
	fd, err := unix.Open(fakePath, unix.O_RDWR, 0)
	fmt.Println("open", err)
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	fmt.Println("mmap", err)
	copy(mem[8:], "doorbell")
	word := [8]byte{'w', 'o', 'r', 'd'}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), rdmaIoctl, uintptr(unsafe.Pointer(&word)))
	fmt.Println("ioctl", e, string(word[:]))
	_, _, e = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), rdmaIoctl, 0)
	fmt.Println("ioctl", e)
	_, err = unix.Open("/dev/null", unix.O_RDONLY, 0)
	fmt.Println("other", err)
}

// TestCalls: a program that is linked statically gets our answers, and the kernel's to everything else.
func TestCalls(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), targetEnv+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	l, err := Start(cmd)
	require.NoError(t, err)
	defer l.Close()
	file, err := NewShared("file", 4096)
	require.NoError(t, err)
	defer file.Close()
	for {
		c, err := l.Receive()
		if errors.Is(err, ErrEnded) {
			break
		}
		require.NoError(t, err)
		switch {
		case c.Op == Open && c.Path == fakePath:
			err = c.GiveFile(file.FD())
		case c.Op == Stat && c.Path == fakePath:
			err = c.GiveStat(&unix.Stat_t{Mode: unix.S_IFCHR | 0o600, Rdev: unix.Mkdev(12, 34)})
		case c.Op == Ioctl:
			word := make([]byte, 8)
			if err = c.Memory.Read(c.Arg, word); err != nil {
				err = c.Fail(unix.EFAULT)
				break
			}
			require.NoError(t, c.Memory.Write(c.Arg, bytes.ToUpper(word)))
			err = c.Return()
		default:
			err = c.Continue()
		}
		require.NoError(t, err)
	}
	require.NoError(t, cmd.Wait(), out.String())
	assert.Equal(t, strings.Join([]string{"stat <nil> true 12 34", "open <nil>", "mmap <nil>", "ioctl errno 0 WORD\x00\x00\x00\x00",
		"ioctl bad address", "other <nil>", ""}, "\n"), out.String())
	doorbell := file.Take(8)
	assert.Equal(t, "doorbell", string(doorbell[:]))
	assert.Zero(t, file.Take(8), "taken once")
}

func TestProgramThatIsNotThere(t *testing.T) {
	cmd := exec.Command("/no/such/program")
	var out bytes.Buffer
	cmd.Stderr = &out
	_, err := Start(cmd)
	if err == nil { // the filter is installed before the program is executed
		err = cmd.Wait()
	}
	require.Error(t, err)
}
