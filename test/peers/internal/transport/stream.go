// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
	"time"
)

// A stream is an endpoint over a connection that carries bytes: the transfer is
// written in one call, and the receiver answers its last byte with one byte.
type stream struct {
	buf  []byte
	conn io.ReadWriteCloser
	// open makes a connection, release frees what isn't part of one.
	open    func(context.Context) (io.ReadWriteCloser, error)
	release func() error
	version string
}

func (s *stream) Buffer() []byte { return s.buf }

func (s *stream) Connect(ctx context.Context) (err error) {
	if err := s.hangUp(); err != nil {
		return err
	}
	s.conn, err = s.open(ctx)
	return err
}

func (s *stream) hangUp() error {
	c := s.conn
	if s.conn = nil; c == nil {
		return nil
	}
	return c.Close()
}

func (s *stream) Expect(int) error { return nil }

func (s *stream) Send(ctx context.Context, n int) (time.Duration, error) {
	var ack [1]byte
	c := s.conn
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	begun := time.Now()
	if _, err := c.Write(s.buf[:n]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, ack[:]); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

func (s *stream) Receive(ctx context.Context, n int) error {
	c := s.conn
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if _, err := io.ReadFull(c, s.buf[:n]); err != nil {
		return err
	}
	_, err := c.Write([]byte{1})
	return err
}

func (s *stream) Version() string { return s.version }

func (s *stream) Notes() string { return "" }

func (s *stream) Close() error {
	err := s.hangUp()
	if e := s.release(); err == nil {
		err = e
	}
	return err
}
