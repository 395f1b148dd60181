// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// wrapped gives an error of the layers below the meaning that programs for package net look for, and
// keeps its text.
type wrapped struct {
	error
	means error
}

func (w *wrapped) Unwrap() []error { return []error{w.error, w.means} }

// Timeout makes wrapped a net.Error.
func (w *wrapped) Timeout() bool { return errors.Is(w, os.ErrDeadlineExceeded) }

// Temporary is part of net.Error. It says the same as Timeout, as the errors of package net do.
func (w *wrapped) Temporary() bool { return w.Timeout() }

// also makes err, which keeps its text, what errors.Is looks for as what.
func also(err, what error) error {
	if errors.Is(err, what) {
		return err
	}
	return &wrapped{err, what}
}

// saysEnd reports whether err is that ctx has ended, by either of ctx's errors: the layers below return one or the other.
func saysEnd(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// endedBy gives err, if it says that ctx has ended, the meanings of both of ctx's errors: of ctx.Err, which says how it ended, and of
// context.Cause, which says why.
func endedBy(ctx context.Context, err error) error {
	if !saysEnd(ctx, err) {
		return err
	}
	err = also(also(err, ctx.Err()), context.Cause(ctx))
	if ctx.Err() == context.DeadlineExceeded {
		err = also(err, os.ErrDeadlineExceeded)
	}
	return err
}

// leftInOrder reports whether the peer has closed the connection, and not given a reason.
func leftInOrder(err error) bool {
	return errors.Is(err, sdr.ErrPeerClosed) && !errors.As(err, new(*oob.PeerError))
}

// translate gives err the meaning that package net's callers look for, by wrapped. closed says whether this end has closed the connection.
func translate(err error, closed bool) error {
	switch {
	case err == nil, err == io.EOF:
		return err
	case closed && !errors.Is(err, net.ErrClosed), errors.Is(err, operr.ErrClosed):
		return &wrapped{err, net.ErrClosed}
	case leftInOrder(err):
		return io.EOF
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded):
		return &wrapped{err, os.ErrDeadlineExceeded}
	}
	return err
}
