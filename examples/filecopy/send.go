// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// The receiver's last message.
const verdictOK = "ok"

// verdictTime is how long to wait for the receiver to say why it gave up.
const verdictTime = 2 * time.Second

func send(ctx context.Context, o *options, to, path string) error {
	f, size, err := openSource(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := oob.Dial(ctx, to, oob.Config{})
	if err != nil {
		return err
	}
	// A receiver that doesn't take it says why not to what follows.
	_ = s.Send(ctx, []byte(greeting))
	e, err := connect(ctx, o, s, sender)
	if err != nil {
		return err
	}
	defer e.close()
	begun := time.Now()
	if err := sendFile(ctx, e, f, size); err != nil {
		return err
	}
	summary(e, "sent", path, size, time.Since(begun))
	return nil
}

func openSource(path string) (*os.File, units.Bytes, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: give one, whose size is known", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, units.Bytes(fi.Size()), nil
}

// sendFile sends content and hash, and returns when the receiver has the file under its final name.
func sendFile(ctx context.Context, e *endpoint, f *os.File, size units.Bytes) error {
	in, err := newMailbox(e)
	if err != nil {
		return err
	}
	defer in.close()
	verdict := make(chan error, 1)
	waiting, enough := context.WithCancel(context.Background())
	defer func() { // before the memory goes
		enough()
		for range verdict { // closed when nobody reads it any more
		}
	}()
	go func() { defer close(verdict); verdict <- recvVerdict(waiting, in) }()

	if err := sendContent(ctx, e, f, size); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// The receiver may know better what went wrong; or it only noticed that we gave up.
		select {
		case v := <-verdict:
			if errors.As(v, new(*refusal)) {
				return fmt.Errorf("%w (here: %w)", v, err)
			}
		case <-time.After(verdictTime):
		}
		return err
	}
	select {
	case v := <-verdict:
		return v
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendContent sends the file, and behind it the trailer.
func sendContent(ctx context.Context, e *endpoint, f *os.File, size units.Bytes) error {
	out, err := newMailbox(e)
	if err != nil {
		return err
	}
	defer out.close()
	var after trailer
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	after.mode = fi.Mode()
	hashed := make(chan error, 1)
	go func() {
		b, err := hashFile(f, size)
		after.sum = b
		hashed <- err
	}()
	m := meter{what: "sending"}
	err = e.conn.SendFrom(ctx, f, size, m.update)
	m.end()
	if err != nil {
		return err
	}
	if err := <-hashed; err != nil {
		return err
	}
	return out.send(ctx, after.encode())
}

// A refusal is why the receiver has no file.
type refusal struct{ reason string }

func (r *refusal) Error() string { return "the receiver failed: " + r.reason }

func recvVerdict(ctx context.Context, in *mailbox) error {
	b, err := in.recv(ctx)
	if err != nil {
		return err
	}
	if string(b) != verdictOK {
		return &refusal{fmt.Sprintf("%q", b)}
	}
	return nil
}
