// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// A spool is a file without a name, of which nothing is left when the process ends. It holds what stdin had until its end has come, and
// what stdout gets until all of it has.
type spool struct {
	*os.File
	ctx context.Context // ends waiting for stdin and stdout
}

func newSpool(ctx context.Context) (*spool, error) {
	f, err := os.CreateTemp("", "filecopy")
	if err != nil {
		return nil, fmt.Errorf("%w: set TMPDIR to a folder in which files can be made", err)
	}
	return &spool{f, ctx}, os.Remove(f.Name())
}

// fill reads stdin to its end.
func (s *spool) fill() error {
	return noRoom(s.copy(s.File, os.Stdin))
}

// copy ends with its context, although nothing ends a read or write that waits for a terminal or a pipe: that is left to the end of the
// process.
func (s *spool) copy(dst io.Writer, src io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(dst, src)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// noRoom adds to the error of a disk that is full, or of a limit, how to choose another.
func noRoom(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w: set TMPDIR to a folder with room for all of it", err)
	}
	return err
}

// Begin takes the room that the file needs, so that its sender hears at once where there is less. What can't be reserved is written without.
func (s *spool) Begin(info sdrnet.FileInfo) error {
	switch err := unix.Fallocate(int(s.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size); err {
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
		return noRoom(fmt.Errorf("make room for %v: %w", units.Bytes(info.Size), err))
	}
	return nil
}

func (s *spool) Name() string { return stdio }

func (s *spool) WriteAt(b []byte, off int64) (int, error) {
	n, err := s.File.WriteAt(b, off)
	return n, noRoom(err)
}

// Keep passes the file on to stdout.
func (s *spool) Keep(info sdrnet.FileInfo) error {
	return s.copy(os.Stdout, io.NewSectionReader(s.File, 0, info.Size))
}
