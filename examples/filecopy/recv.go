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
	s, err := waitForSender(ctx, listen)
	if err != nil {
		return err
	}
	e, err := connect(ctx, o, s, receiver)
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

// waitForSender returns the first sender. Whoever reaches the port and speaks something else is
// reported and turned away.
func waitForSender(ctx context.Context, listen string) (*oob.Conn, error) {
	l, err := oob.Listen(ctx, listen, oob.Config{Logger: slog.Default()})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	fmt.Fprintf(os.Stderr, "waiting for a sender on %v\n", l.Addr())
	return l.Accept(ctx)
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
	if err == nil {
		err = checkHash(ctx, box, f, size)
	}
	if err == nil {
		err = f.commit()
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

// checkHash compares what is on disk with what the sender read.
func checkHash(ctx context.Context, box *mailbox, f *temporary, size units.Bytes) error {
	theirs, err := box.recv(ctx)
	if err != nil {
		return err
	}
	ours, err := hashFile(f, size)
	if err != nil {
		return err
	}
	if !bytes.Equal(ours, theirs) {
		return errors.New("the SHA-256 of the copy differs from the original's: did the file change meanwhile? Nothing was kept")
	}
	return nil
}
