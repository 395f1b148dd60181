// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// contextCalls are calls that wait until their context ends.
var contextCalls = map[string]func(t *testing.T, ctx context.Context) error{
	"Dial": func(t *testing.T, ctx context.Context) error {
		l, err := net.Listen("tcp", "127.0.0.1:0") // says nothing
		require.NoError(t, err)
		defer l.Close()
		_, err = sdrnet.Dial(ctx, l.Addr().String(), nil)
		return err
	},
	"Accept": func(t *testing.T, ctx context.Context) error {
		_, err := listen(t, nil).Accept(ctx)
		return err
	},
	"Recv": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		_, err := a.Recv(ctx)
		return err
	},
	"Recv behind another": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		first := make(chan error)
		go func() { _, err := a.Recv(ctx); first <- err }()
		_, err := a.Recv(ctx)
		require.ErrorIs(t, <-first, ctx.Err())
		return err
	},
	"Send": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, &sdrnet.Config{Window: 1})
		require.NoError(t, a.Send(testContext(t), nil))
		return a.Send(ctx, nil)
	},
	"Send of many buffers": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, &sdrnet.Config{Window: 2})
		return a.Send(ctx, make([]byte, 1<<20))
	},
	"SendFile": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		return a.SendFile(ctx, strings.NewReader("x"), sdrnet.FileInfo{Size: 1}, nil)
	},
	"SendMemory": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		return a.SendMemory(ctx, must(a.Alloc(1)), 0, 1, sdrnet.SendOptions{})
	},
	"RecvMemory": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		_, err := a.RecvMemory(ctx, must(a.Alloc(1)), 0, 1)
		return err
	},
	"SendFrom": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		return a.SendFrom(ctx, strings.NewReader("x"), 1, nil)
	},
	"RecvTo": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		_, err := a.RecvTo(ctx, newTarget(t), nil)
		return err
	},
	"RecvFile": func(t *testing.T, ctx context.Context) error {
		a, _ := pair(t, nil)
		_, err := a.RecvFile(ctx, newTarget(t), nil)
		return err
	},
}

// TestContextEnds: a call that its context ended says so with both of the context's errors, and as programs for package net ask for it,
// whether that happened during the call or before it.
func TestContextEnds(t *testing.T) {
	cause := errors.New("not that important")
	for name, call := range contextCalls {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				name     string
				make     func() (context.Context, context.CancelFunc)
				deadline bool
			}{
				{"deadline", func() (context.Context, context.CancelFunc) {
					return context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
				}, true},
				{"deadline without a cause", func() (context.Context, context.CancelFunc) {
					return context.WithTimeout(t.Context(), 50*time.Millisecond)
				}, true},
				{"cancelled before", func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancelCause(t.Context())
					cancel(cause)
					return ctx, func() {}
				}, false},
			} {
				ctx, cancel := c.make()
				err := call(t, ctx)
				require.ErrorIs(t, err, ctx.Err(), c.name)
				require.ErrorIs(t, err, context.Cause(ctx), c.name)
				require.Equal(t, c.deadline, errors.Is(err, os.ErrDeadlineExceeded), "%s: %v", c.name, err)
				var timeout net.Error
				require.Equal(t, c.deadline, errors.As(err, &timeout) && timeout.Timeout(), "%s: %v", c.name, err)
				cancel()
			}
		})
	}
}

// TestOneShape: what is wrong with arguments, and what a peer does wrong, is said in the shape of all packages.
func TestOneShape(t *testing.T) {
	second := func(_ any, err error) error { return err }
	ctx := testContext(t)
	bad := &sdrnet.Config{Window: -1}
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	folder, err := sdrnet.CreateFile(t.TempDir())
	require.NoError(t, err)
	defer folder.Close()
	a, b := pair(t, nil)
	require.NoError(t, a.SendOfFile(ctx, nil))
	require.NoError(t, b.Send(ctx, nil))
	for name, err := range map[string]error{
		"Config.Validate":       bad.Validate(),
		"Listen":                second(sdrnet.Listen("127.0.0.1:0", bad)),
		"Listen, address":       second(sdrnet.Listen("127.0.0.1:99999", nil)),
		"Listen, certificate":   second(sdrnet.Listen("127.0.0.1:0", &sdrnet.Config{TLS: &tls.Config{}})),
		"Dial":                  second(sdrnet.Dial(ctx, "127.0.0.1:1", bad)),
		"Dial, address":         second(sdrnet.Dial(ctx, "127.0.0.1:99999", nil)),
		"Conn.Alloc":            second(a.Alloc(0)),
		"CreateFile":            second(sdrnet.CreateFile(pipe)),
		"CreateFile, no path":   second(sdrnet.CreateFile("")),
		"CreateFile, no folder": second(sdrnet.CreateFile(t.TempDir() + "/none/copy")),
		"NewFile.Begin":         folder.Begin(sdrnet.FileInfo{}),
		"NewFile.Begin, ../x":   folder.Begin(sdrnet.FileInfo{Name: "../x"}),
		"SendFrom":              a.SendFrom(ctx, nil, -1, nil),
		"SendFile":              a.SendFile(ctx, nil, sdrnet.FileInfo{Size: -1}, nil),
		"RecvFile of no file":   second(b.RecvFile(ctx, newTarget(t), nil)),
		"RecvFile of a message": second(a.RecvFile(ctx, newTarget(t), nil)),
	} {
		var e *operr.Error
		require.ErrorAs(t, err, &e, name)
		require.NotEmpty(t, e.Op, name)
		require.NotEmpty(t, e.Object, name)
	}
}
