// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// argument makes a program one side of a measurement: the next argument is what that
// side is told, in JSON, and descriptor turnsFD the pipe to the other side.
const (
	argument = "-host"
	turnsFD  = 3
)

// A Favour is what a process is given before others of the machine.
type Favour uint8

// The favours.
const (
	// None: it runs at the normal priority, whatever this process's is.
	None Favour = iota
	// Nice: at a nice value of -20, once it has called UseNice.
	Nice
	// RealTime: before all that has no real-time priority (SCHED_RR), but after a link.
	RealTime
)

const niceValue = -20

// Roomy are Sysctls that favour TCP: windows that don't limit, a warm connection that
// stays warm, and cold ones that inherit nothing.
var Roomy = map[string]string{
	"net/ipv4/tcp_rmem":                  "4096 131072 67108864",
	"net/ipv4/tcp_wmem":                  "4096 131072 67108864",
	"net/ipv4/tcp_no_metrics_save":       "1",
	"net/ipv4/tcp_slow_start_after_idle": "0",
	"net/ipv6/conf/all/disable_ipv6":     "1",
}

// Command runs this program as one side of a measurement, that is told spec (Serve). Ending ctx
// asks it to end.
func Command(ctx context.Context, spec any, turns *os.File, favour Favour) (*exec.Cmd, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"chrt", "-o", "0", program, argument, string(text)}
	switch favour {
	case Nice:
		args = append([]string{"nice", "-n", fmt.Sprint(niceValue)}, args...)
	case RealTime:
		args[1], args[2] = "-r", "1"
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) } // it ends what it started itself
	cmd.WaitDelay = 3 * time.Second
	cmd.ExtraFiles = []*os.File{turns}
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Setsid: true}
	return cmd, nil
}

// Pipe is two ends for two processes.
func Pipe() (ends [2]*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ends, err
	}
	for i, fd := range fds {
		ends[i] = os.NewFile(uintptr(fd), "turns")
	}
	return ends, nil
}

// UseNice lets this session's processes win against others where the kernel divides
// processor time among sessions first: their own nice value, from the command nice,
// counts only among themselves there.
func UseNice() {
	_ = os.WriteFile("/proc/self/autogroup", []byte(fmt.Sprint(niceValue)), 0) // not in all kernels
}
