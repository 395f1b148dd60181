// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usernotif

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchEnv has Init take over a process of this program.
const launchEnv = "SDR_FAKEVERBS_LAUNCH"

// rdmaIoctl is RDMA_VERBS_IOCTL of rdma_user_ioctl.h.
const rdmaIoctl = 0xc0181b01

// Init must be called first of all in main and in TestMain: a program is started through another process
// of the calling one, which installs the filter and becomes the program. In that process Init does not
// return.
func Init() {
	path := os.Getenv(launchEnv)
	if path == "" {
		return
	}
	os.Unsetenv(launchEnv)
	err := become(path, os.Args)
	fmt.Fprintln(os.Stderr, "fakeverbs:", path+":", err)
	os.Exit(127)
}

// become installs the filter in this thread, hands the listener to the parent and executes the program.
func become(path string, argv []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	code := filter()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, seccompSetModeFilter,
		seccompFilterFlagNewListener|seccompFilterFlagWaitKillable, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return fmt.Errorf("install filter (needs Linux 5.19): %w", e)
	}
	if err := unix.Sendmsg(3, []byte{1}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return fmt.Errorf("hand listener over: %w", err)
	}
	unix.CloseOnExec(3)
	unix.CloseOnExec(int(fd))
	return unix.Exec(path, argv, os.Environ())
}

// filter is the program over struct seccomp_data: nr at 0, arch at 4, the low halves of args[1] at 24 and of args[2] at 32.
func filter() []unix.SockFilter {
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jeq := func(k uint32, t, f uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: t, Jf: f, K: k}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	return []unix.SockFilter{
		load(4),
		jeq(auditArch, 0, 10),
		load(0),
		jeq(unix.SYS_OPENAT, 9, 0),
		jeq(sysFstatat, 8, 0),
		jeq(unix.SYS_FSTAT, 7, 0),
		jeq(unix.SYS_WRITE, 3, 0),
		jeq(unix.SYS_IOCTL, 0, 4),
		load(24),
		jeq(rdmaIoctl, 3, 2),
		load(32),
		jeq(WriteSize, 1, 0),
		ret(seccompRetAllow),
		ret(seccompRetUserNotif),
	}
}

// Start starts cmd under the filter. Its Path, Args, Env and files are used as they are, except that its
// ExtraFiles must be empty. The caller answers the program's calls with Receive until ErrEnded, and waits
// for cmd as always.
func Start(cmd *exec.Cmd) (*Listener, error) {
	if len(cmd.ExtraFiles) > 0 {
		return nil, errors.New("usernotif: ExtraFiles is taken")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "listener"), os.NewFile(uintptr(pair[1]), "listener")
	defer ours.Close()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, launchEnv+"="+cmd.Path)
	cmd.Path = "/proc/self/exe"
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	l, err := receiveListener(pair[0])
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("usernotif: %w", err)
	}
	return l, nil
}

func receiveListener(socket int) (*Listener, error) {
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return nil, errors.New("the program was not started")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("the program sent no listener")
	}
	return &Listener{fd: fds[0]}, nil
}
