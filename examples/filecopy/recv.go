// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

func recv(ctx context.Context, o *options, listen, out string) error {
	f, err := newTemporary(out)
	if err != nil {
		return err
	}
	defer f.discard()
	e, err := waitForSender(ctx, o, listen)
	if err != nil {
		return err
	}
	defer e.close()
	begun := time.Now()
	size, err := recvFile(ctx, e, f)
	if err != nil {
		return err
	}
	summary(e, "received", out, size, time.Since(begun))
	return nil
}

// waitForSender connects to the first sender that it can be done with. Whoever else reaches the port is
// told why not, and reported when it got that far, and the next may come.
func waitForSender(ctx context.Context, o *options, listen string) (*endpoint, error) {
	l, err := oob.Listen(ctx, listen, oob.Config{Logger: slog.Default()})
	if err != nil {
		return nil, err
	}
	b := newLobby(l)
	defer b.close()
	fmt.Fprintf(os.Stderr, "waiting for a sender on %v\n", l.Addr())
	for {
		s, err := b.next(ctx)
		if err != nil {
			return nil, err
		}
		peer := s.RemoteAddr()
		e, err := connect(ctx, o, s, receiver)
		if err == nil || ctx.Err() != nil || errors.As(err, new(ownError)) {
			return e, err
		}
		slog.Warn("turned a sender away, waiting for the next", "peer", peer, "err", err)
	}
}

// recvFile receives content and hash, gives the file its name, and tells the sender how it went.
func recvFile(ctx context.Context, e *endpoint, f *temporary) (units.Bytes, error) {
	box, err := newMailbox(e)
	if err != nil {
		return 0, err
	}
	defer box.close()
	m := meter{what: "receiving"}
	size, err := e.conn.RecvTo(ctx, f, m.update)
	m.end()
	var original trailer
	if err == nil {
		original, err = checkHash(ctx, box, f, size)
	}
	if err == nil {
		err = f.commit(original.mode)
	}
	verdict := verdictOK
	if err != nil {
		verdict = err.Error()
	}
	// A sender that is gone can't be told, and needn't be.
	telling, cancel := context.WithTimeout(context.Background(), verdictTime)
	defer cancel()
	_ = box.send(telling, []byte(verdict))
	return size, err
}

// checkHash compares what is on disk with what the sender read, and returns what it said of it.
func checkHash(ctx context.Context, box *mailbox, f *temporary, size units.Bytes) (t trailer, err error) {
	b, err := box.recv(ctx)
	if err != nil {
		return t, err
	}
	if err := t.parse(b); err != nil {
		return t, err
	}
	ours, err := hashFile(f, size)
	if err != nil {
		return t, err
	}
	if !bytes.Equal(ours, t.sum) {
		return t, errors.New("the SHA-256 of the copy differs from the original's: did the file change meanwhile? Nothing was kept")
	}
	return t, nil
}
