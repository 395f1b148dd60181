// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	version     = 4
	defaultPort = "18515"
	// verdictTime is how long a sender that has failed waits to hear why the receiver has.
	verdictTime = 2 * time.Second
)

// An offer is what a sender says while it connects. The file follows, then its hash. The receiver answers with an empty
// message when it has a copy, or closes with the reason why it hasn't.
type offer struct {
	Filecopy int    // version
	Name     string // "" of what comes from stdin
	Mode     fs.FileMode
	Changed  time.Time
}

func send(ctx context.Context, cfg *sdrnet.Config, to, path string) error {
	f, fi, err := openOriginal(path)
	if f != nil {
		defer f.discard()
	}
	if err != nil {
		return err
	}
	o := offer{version, filepath.Base(path), fi.Mode().Perm(), fi.ModTime()}
	if path == stdio {
		o.Name = ""
	}
	if cfg.PrivateData, err = json.Marshal(o); err != nil {
		return err
	}
	c, err := sdrnet.Dial(ctx, withPort(to), cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	if err = c.SendFile(ctx, f, fi.Size(), progress("sending")); err == nil {
		var sum []byte
		if sum, err = hashFile(f, fi.Size()); err == nil {
			err = c.Send(ctx, sum)
		}
	}
	if err != nil { // the receiver may know better why
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, verdictTime)
		defer cancel()
	}
	_, verdict := c.Recv(ctx)
	if said := (*oob.PeerError)(nil); errors.As(verdict, &said) {
		return fmt.Errorf("the receiver failed: %s", said.Reason)
	}
	if err == nil {
		err = verdict
	}
	if err == nil {
		summary(os.Stdout, c, "sent", path, fi.Size(), begun)
	}
	return err
}

func recv(ctx context.Context, cfg *sdrnet.Config, listen, out string) error {
	f, err := newCopy(out)
	if err != nil {
		return err
	}
	defer f.discard()
	cfg.Link.Seed++ // so that the directions have different faults
	c, o, err := waitForSender(ctx, cfg, listen)
	if err != nil {
		return err
	}
	begun := time.Now()
	size, err := recvContent(ctx, c, o, f)
	if err != nil {
		_ = c.CloseWithReason(err.Error())
		return err
	}
	to := os.Stdout
	if out == stdio {
		to = os.Stderr
	}
	summary(to, c, "received", f.final, size, begun)
	_ = c.Send(ctx, nil) // a sender that is gone needn't be told
	return c.Close()
}

// waitForSender returns the first connection that makes an offer. Whoever else comes is turned away, by sdrnet or here.
func waitForSender(ctx context.Context, cfg *sdrnet.Config, listen string) (c *sdrnet.Conn, o offer, err error) {
	l, err := sdrnet.Listen(withPort(listen), cfg)
	if err != nil {
		return nil, o, err
	}
	defer l.Close()
	fmt.Fprintf(os.Stderr, "waiting for a sender on %v\n", l.Addr())
	for {
		o = offer{}
		if c, err = l.Accept(ctx); err != nil || json.Unmarshal(c.PeerPrivateData(), &o) == nil && o.Filecopy == version {
			return c, o, err
		}
		fmt.Fprintf(os.Stderr, "turned a peer away: %v, which makes no offer\n", c.RemoteAddr())
		_ = c.CloseWithReason("this is a filecopy receiver, which expects a sender of the same release")
	}
}

// recvContent receives the file and its hash, compares that with what is on disk, and gives the file its name.
func recvContent(ctx context.Context, c *sdrnet.Conn, o offer, f *file) (size int64, err error) {
	if err = f.called(o.Name); err != nil {
		return 0, err
	}
	if size, err = c.RecvFile(ctx, f, progress("receiving")); err != nil {
		return 0, err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	sum, err := hashFile(f, size)
	if err == nil && !bytes.Equal(sum, m.Bytes()) {
		err = errors.New("the SHA-256 of the copy differs from the original's: did the file change meanwhile? Nothing was kept")
	}
	if err != nil {
		return 0, err
	}
	return size, f.deliver(o.Mode, o.Changed)
}

// withPort adds the default port to an address without one.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), defaultPort)
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

// summary says what was done and what it took.
func summary(w io.Writer, c *sdrnet.Conn, did, path string, size int64, begun time.Time) {
	n, took := units.Bytes(size), time.Since(begun)
	_, file := c.Stats()
	fmt.Fprintf(w, "%s %s: %v in %.2f s (%v), SHA-256 agrees, %d of %d packets repeated\n",
		did, path, n, took.Seconds(), units.RateOf(n, took), file.Units.Retransmitted, file.Units.Sent)
}
