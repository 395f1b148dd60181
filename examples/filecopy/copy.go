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

	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	version = 3
	// offerTime is how long a guest may take to make an offer: anybody can reach the receiver's port.
	offerTime = 5 * time.Second
	// maxGuests is how many may be taking their time.
	maxGuests = 64
	// verdictTime is how long the ends wait to tell, or hear, why the receiver has no file.
	verdictTime = 2 * time.Second
)

// An offer is what a sender says first. The file follows, then its hash. The receiver answers once, with why it has no
// copy, or with nothing.
type offer struct {
	Filecopy int    // version
	Name     string // "" of what comes from stdin
	Mode     fs.FileMode
	Changed  time.Time
}

func send(ctx context.Context, cfg *sdrnet.Config, to, path string) error {
	f, fi, err := openSource(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name := filepath.Base(path)
	if path == stdio {
		name = ""
	}
	c, err := sdrnet.Dial(ctx, withPort(to), cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	verdict := make(chan error, 1)
	go func() { verdict <- hearVerdict(c) }() // ends with c
	patience := ctx
	if err = sendContent(ctx, c, f, fi, name); err != nil { // the receiver may know better why
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, verdictTime)
		defer cancel()
	}
	select {
	case v := <-verdict:
		if err == nil || errors.As(v, new(refusal)) {
			err = errors.Join(v, err)
		}
	case <-patience.Done():
		err = errors.Join(err, ctx.Err())
	}
	if err == nil {
		summary(os.Stdout, c, "sent", path, fi.Size(), time.Since(begun))
	}
	return err
}

func sendContent(ctx context.Context, c *sdrnet.Conn, f *os.File, fi fs.FileInfo, name string) error {
	b, err := json.Marshal(offer{version, name, fi.Mode().Perm(), fi.ModTime()})
	if err != nil {
		return err
	}
	if err := c.Send(ctx, b); err != nil {
		return err
	}
	var sum []byte
	hashed := make(chan error, 1)
	go func() {
		var err error
		sum, err = hashFile(f, fi.Size())
		hashed <- err
	}()
	m := meter{what: "sending"}
	err = c.SendFile(ctx, f, fi.Size(), m.update)
	m.end()
	if err = errors.Join(err, <-hashed); err != nil {
		return err
	}
	return c.Send(ctx, sum)
}

// defaultPort is where a receiver waits unless told otherwise.
const defaultPort = "18515"

// withPort adds the default port to an address without one.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), defaultPort)
}

// A refusal is why the receiver has no copy, in its words.
type refusal string

func (r refusal) Error() string { return fmt.Sprintf("the receiver failed: %q", string(r)) }

func hearVerdict(c *sdrnet.Conn) error {
	m, err := c.Recv(context.Background())
	if err != nil {
		return err
	}
	defer m.Release()
	if len(m.Bytes()) > 0 {
		return refusal(m.Bytes())
	}
	return nil
}

// tellVerdict tells the sender why there is no copy, unless err is nil. One that is gone needn't be told.
func tellVerdict(c *sdrnet.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), verdictTime)
	defer cancel()
	text := ""
	if err != nil {
		text = err.Error()
	}
	_ = c.Send(ctx, []byte(text))
}

func recv(ctx context.Context, cfg *sdrnet.Config, listen, out string) error {
	f, err := newTemporary(out)
	if err != nil {
		return err
	}
	defer f.discard()
	g, err := waitForSender(ctx, cfg, listen)
	if err != nil {
		return err
	}
	defer g.Close()
	begun := time.Now()
	size, err := recvContent(ctx, g, f)
	tellVerdict(g.Conn, err)
	if err == nil {
		to := os.Stdout
		if out == stdio {
			to = os.Stderr
		}
		summary(to, g.Conn, "received", f.final, size, time.Since(begun))
	}
	return err
}

// recvContent receives the file and its hash, compares that with what is on disk, and gives the file its name.
func recvContent(ctx context.Context, g *guest, f *temporary) (int64, error) {
	if err := f.called(g.Name); err != nil {
		return 0, err
	}
	p := meter{what: "receiving"}
	size, err := g.RecvFile(ctx, f, p.update)
	p.end()
	if err != nil {
		return 0, err
	}
	m, err := g.Recv(ctx)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	ours, err := hashFile(f, size)
	if err == nil && !bytes.Equal(ours, m.Bytes()) {
		err = errors.New("the SHA-256 of the copy differs from the original's: did the file change meanwhile? Nothing was kept")
	}
	if err != nil {
		return 0, err
	}
	return size, f.deliver(&g.offer)
}

// A guest is a connection, and what it offers.
type guest struct {
	*sdrnet.Conn
	offer
}

// waitForSender returns the first connection that makes an offer. Whoever else comes is turned away and reported, by
// sdrnet or here, and delays nobody.
func waitForSender(ctx context.Context, cfg *sdrnet.Config, listen string) (*guest, error) {
	l, err := sdrnet.Listen(withPort(listen), cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	fmt.Fprintf(os.Stderr, "waiting for a sender on %v\n", l.Addr())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	guests, places := make(chan *guest), make(chan struct{}, maxGuests)
	go func() {
		for {
			places <- struct{}{}
			c, err := l.Accept(ctx)
			if err != nil {
				cancel(err)
				return
			}
			go func() {
				g := &guest{Conn: c}
				err := g.greet(ctx)
				if err == nil {
					select {
					case guests <- g:
						return
					case <-ctx.Done():
						err = errors.New("the receiver has another sender")
					}
				}
				cfg.Logger.Warn("turned a peer away", "peer", c.RemoteAddr(), "err", err)
				tellVerdict(c, err)
				_ = c.Close()
				<-places
			}()
		}
	}()
	select {
	case g := <-guests:
		return g, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *guest) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	m, err := g.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Release()
	if json.Unmarshal(m.Bytes(), &g.offer) != nil || g.Filecopy != version {
		return errors.New("this is a filecopy receiver, which expects a sender of the same release")
	}
	return nil
}

// summary says what was done and what it took.
func summary(w io.Writer, c *sdrnet.Conn, did, path string, size int64, took time.Duration) {
	n := units.Bytes(size)
	_, file := c.Stats()
	fmt.Fprintf(w, "%s %s: %v in %.2f s (%v), SHA-256 agrees, %d of %d packets repeated\n",
		did, path, n, took.Seconds(), units.RateOf(n, took), file.Units.Retransmitted, file.Units.Sent)
}
