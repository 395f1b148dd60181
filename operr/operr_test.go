// SPDX-License-Identifier: Apache-2.0

package operr

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestError(t *testing.T) {
	e := &Error{Op: "close", Object: "qp 3", Err: ErrClosed, Detail: "twice", Fix: "close it once"}
	require.EqualError(t, e, "close qp 3: closed: twice (close it once)")
	require.EqualError(t, &Error{Op: "listen", Err: io.EOF}, "listen: EOF")
	require.ErrorIs(t, fmt.Errorf("send: %w", e), ErrClosed)
}

func TestNew(t *testing.T) {
	err := New("post", "qp 3", "%d bytes: %w", 7, io.ErrShortBuffer)
	require.EqualError(t, err, "post qp 3: 7 bytes: short buffer")
	require.ErrorIs(t, err, io.ErrShortBuffer)
}

func TestWrap(t *testing.T) {
	require.NoError(t, Wrap("open", "rxe0", nil))
	inner := Wrap("open", "rxe0", io.EOF)
	require.EqualError(t, inner, "open rxe0: EOF")
	require.Same(t, inner, Wrap("start", "device", inner), "what failed is said once")
	outer := fmt.Errorf("worker 1: %w", inner)
	require.Equal(t, outer, Wrap("start", "device", outer))
	var e *Error
	require.True(t, errors.As(outer, &e))
	require.Equal(t, "open", e.Op)
}
