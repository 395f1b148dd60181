// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// A Side is one side of a measurement: it gets what Command was told, in JSON, and the pipe to the other side.
type Side func(ctx context.Context, spec []byte, turns net.Conn) error

// Serve makes this process a side, if Command began it as one, and ends it when that returns. In every other process it does nothing, so
// that main, and TestMain, of a program with sides begin with it.
func Serve(program string, s Side) {
	if len(os.Args) != 3 || os.Args[1] != argument {
		return
	}
	if err := s.serve([]byte(os.Args[2])); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (s Side) serve(spec []byte) error {
	pipe, err := net.FileConn(os.NewFile(turnsFD, "turns"))
	if err != nil {
		return err
	}
	defer pipe.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return s(ctx, spec, pipe)
}

// Measure is the rest of main. Where measure misses goals, fails or is interrupted it ends the process, with status 1, 2 or 130; advice says
// what to do about ErrPrivilege.
func Measure(program, advice string, measure func(ctx context.Context, args []string) (missed int, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	missed, err := measure(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, ErrPrivilege):
		fmt.Fprintf(os.Stderr, "%s: %v: %s\n", program, err, advice)
		os.Exit(2)
	case err != nil && ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted: %v\n", program, err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(2)
	case missed > 0:
		os.Exit(1)
	}
}
