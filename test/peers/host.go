// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/point"
)

// hostArgument makes this program one side of a measurement: the next argument
// is the point.Spec, descriptor 3 the pipe to the other side.
const hostArgument = "-host"

func serveHost(spec string) error {
	var s point.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	if s.Favoured {
		favour()
	}
	pipe, err := net.FileConn(os.NewFile(3, "turns"))
	if err != nil {
		return err
	}
	defer pipe.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return point.Serve(ctx, &s, pipe, os.Stdin, os.Stdout)
}

// favour lets this session's processes win against others where the kernel divides
// processor time among sessions first: their own nice value, from the command nice,
// counts only among themselves there.
func favour() {
	_ = os.WriteFile("/proc/self/autogroup", []byte(fmt.Sprint(hostNice)), 0) // not in all kernels
}

// pipe is two ends for two processes.
func pipe() (ends [2]*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ends, err
	}
	for i, fd := range fds {
		ends[i] = os.NewFile(uintptr(fd), "turns")
	}
	return ends, nil
}
