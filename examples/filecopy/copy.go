// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	greeting = "filecopy 5" // what both ends say while they connect
	stdio    = "-"          // stdin at the sender, stdout at the receiver
)

func send(ctx context.Context, cfg *sdrnet.Config, to, path string) error {
	f, info, err := openOriginal(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := sdrnet.Dial(ctx, to, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	if err = c.SendFile(ctx, f, info, progress("sending")); err == nil {
		summary(os.Stdout, c, "sent", path, info.Size, begun)
	}
	return err
}

func recv(ctx context.Context, cfg *sdrnet.Config, listen, out string) error {
	f, err := newTarget(ctx, out)
	if err != nil {
		return err
	}
	defer f.Close()
	cfg.Link.Seed++ // so that the directions have different faults
	c, err := waitForSender(ctx, cfg, listen)
	if err != nil {
		return err
	}
	begun, to := time.Now(), os.Stdout
	if out == stdio {
		to = os.Stderr
	}
	info, err := c.RecvFile(ctx, f, progress("receiving"))
	if err != nil {
		return err
	}
	summary(to, c, "received", f.Name(), info.Size, begun)
	return c.Close()
}

// waitForSender returns the first connection of a filecopy. Whoever else comes is turned away, by sdrnet or here.
func waitForSender(ctx context.Context, cfg *sdrnet.Config, listen string) (*sdrnet.Conn, error) {
	l, err := sdrnet.Listen(listen, cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	fmt.Fprintf(os.Stderr, "waiting for a sender on %v\n", l.Addr())
	for {
		c, err := l.Accept(ctx)
		if err != nil || string(c.PeerPrivateData()) == greeting {
			return c, err
		}
		fmt.Fprintf(os.Stderr, "turned a peer away: %v, which is no filecopy of this release\n", c.RemoteAddr())
		_ = c.CloseWithReason("this is a filecopy receiver, which expects a sender of the same release")
	}
}

// progress says now and then how far a file has got.
func progress(doing string) sdrnet.Progress {
	var last time.Time
	return func(done, total units.Bytes) {
		if time.Since(last) >= 2*time.Second {
			last = time.Now()
			fmt.Fprintf(os.Stderr, "filecopy: %s: %v of %v\n", doing, done, total)
		}
	}
}

// summary says what was done and what it took, and at the sender how many packets had to go again.
func summary(w io.Writer, c *sdrnet.Conn, did, path string, size int64, begun time.Time) {
	n, took := units.Bytes(size), time.Since(begun)
	_, file := c.Stats()
	fmt.Fprintf(w, "%s %s: %v in %.2f s (%v), SHA-256 agrees", did, path, n, took.Seconds(), units.RateOf(n, took))
	if file.Units.Sent > 0 {
		fmt.Fprintf(w, ", %d of %d packets repeated", file.Units.Retransmitted, file.Units.Sent)
	}
	fmt.Fprintln(w)
}

// openOriginal opens a regular file, or for stdio one that holds what stdin had to its end: the receiver wants to know
// how much comes.
func openOriginal(ctx context.Context, path string) (*os.File, sdrnet.FileInfo, error) {
	if path != stdio {
		return openFile(path)
	}
	s, err := newSpool(ctx)
	if err != nil {
		return nil, sdrnet.FileInfo{}, err
	}
	if err := s.fill(); err != nil {
		return nil, sdrnet.FileInfo{}, err
	}
	fi, err := s.Stat()
	if err != nil {
		return nil, sdrnet.FileInfo{}, err
	}
	info := sdrnet.FileInfoOf(fi)
	info.Name = ""
	return s.File, info, nil
}

// openFile doesn't wait for the other end of a pipe (O_NONBLOCK).
func openFile(path string) (*os.File, sdrnet.FileInfo, error) {
	const pipeIt = "send what it says to its end by filecopy send - < "
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, sdrnet.FileInfo{}, err
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, sdrnet.FileInfo{}, err
	case fi.IsDir():
		return nil, sdrnet.FileInfo{}, fmt.Errorf("%s is a folder: pipe it: tar c %s | filecopy send --to HOST -", path, path)
	case !fi.Mode().IsRegular():
		return nil, sdrnet.FileInfo{}, fmt.Errorf("%s is not a regular file, whose size is known: %s%s", path, pipeIt, path)
	}
	if n, _ := f.ReadAt(make([]byte, 1), fi.Size()); n > 0 { // as files of the kernel have that say they are empty
		return nil, sdrnet.FileInfo{}, fmt.Errorf("%s has more than the %v that are its size: %s%s", path, units.Bytes(fi.Size()), pipeIt, path)
	}
	return f, sdrnet.FileInfoOf(fi), nil
}

// A target is where a copy goes. Close removes it unless it was kept.
type target interface {
	sdrnet.FileTarget
	Name() string
	Close() error
}

func newTarget(ctx context.Context, out string) (target, error) {
	if out != stdio {
		return sdrnet.CreateFile(out)
	}
	return newSpool(ctx)
}
