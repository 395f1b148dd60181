// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	greeting = "filecopy 5" // what both ends say while they connect
	stdio    = "-"          // stdin at the sender, stdout at the receiver
)

func send(ctx context.Context, cfg *sdrnet.Config, to, path string) error {
	f, info, err := openOriginal(path)
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
	f, err := newTarget(out)
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
func openOriginal(path string) (f *os.File, info sdrnet.FileInfo, err error) {
	if path != stdio {
		f, err = os.Open(path)
	} else if f, err = spoolFile(); err == nil {
		_, err = io.Copy(f, os.Stdin)
	}
	if err != nil {
		return nil, info, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: give one, whose size is known", path)
	}
	if err != nil {
		return nil, info, err
	}
	if info = sdrnet.FileInfoOf(fi); path == stdio {
		info.Name = ""
	}
	return f, info, nil
}

// A target is where a copy goes. Close removes it unless it was kept.
type target interface {
	sdrnet.FileTarget
	Name() string
	Close() error
}

func newTarget(out string) (target, error) {
	if out != stdio {
		return sdrnet.CreateFile(out)
	}
	f, err := spoolFile()
	return spool{f}, err
}

// A spool passes a file on to stdout when it is whole.
type spool struct{ *os.File }

func (spool) Begin(sdrnet.FileInfo) error { return nil }

func (spool) Name() string { return stdio }

func (s spool) Keep(info sdrnet.FileInfo) error {
	_, err := io.Copy(os.Stdout, io.NewSectionReader(s, 0, info.Size))
	return err
}

// spoolFile makes a file without a name, of which nothing is left when the process ends.
func spoolFile() (*os.File, error) {
	f, err := os.CreateTemp("", "filecopy")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
