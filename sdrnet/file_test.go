// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// A target is a file that RecvFile writes to, with errors at will.
type target struct {
	*os.File
	begin, write, keep error
	spoil              bool // a byte of the content differs
	began, kept        []sdrnet.FileInfo
}

func newTarget(t *testing.T) *target {
	f, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return &target{File: f}
}

func (f *target) Begin(i sdrnet.FileInfo) error { f.began = append(f.began, i); return f.begin }

func (f *target) Keep(i sdrnet.FileInfo) error { f.kept = append(f.kept, i); return f.keep }

func (f *target) WriteAt(b []byte, off int64) (int, error) {
	if f.write != nil {
		return 0, f.write
	}
	if f.spoil && off == 0 {
		b = append([]byte{b[0] + 1}, b[1:]...)
	}
	return f.File.WriteAt(b, off)
}

// TestFiles: files arrive as they were, one after another over one connection, with what was said about each.
func TestFiles(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Link: badLink(5)})
	ctx := testContext(t)
	changed := time.Date(1969, 2, 3, 4, 5, 6, 789_000_001, time.UTC)
	for _, c := range []struct {
		info    sdrnet.FileInfo
		content string
	}{
		{sdrnet.FileInfo{Name: "übung", Mode: 0o640, ModTime: changed}, strings.Repeat("0123456789abcdef\n", 70_000)},
		{sdrnet.FileInfo{Mode: fs.ModeSetuid | 0o755}, ""},
		{sdrnet.FileInfo{Name: strings.Repeat("x", 255), ModTime: changed}, "x"},
	} {
		c.info.Size = int64(len(c.content))
		errs := make(chan error, 1)
		var last units.Bytes
		go func() {
			errs <- a.SendFile(ctx, strings.NewReader(c.content), c.info, func(done, _ units.Bytes) { last = done })
		}()
		to := newTarget(t)
		got, err := b.RecvFile(ctx, to, nil)
		require.NoError(t, err)
		require.NoError(t, <-errs)
		require.EqualValues(t, c.info.Size, last, "progress")
		require.Equal(t, c.content, string(must(os.ReadFile(to.Name()))))
		require.Equal(t, []sdrnet.FileInfo{got}, to.began)
		require.Equal(t, []sdrnet.FileInfo{got}, to.kept)
		require.True(t, c.info.ModTime.Equal(got.ModTime), "%v", got.ModTime)
		got.ModTime, c.info.Mode = c.info.ModTime, c.info.Mode.Perm()
		require.Equal(t, c.info, got)
	}
}

// TestFileRefused: what can't be sent is said before anything is sent, and costs no message of the application.
func TestFileRefused(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	require.NoError(t, b.Send(ctx, []byte("for the application")))
	for says, info := range map[string]sdrnet.FileInfo{
		"its name has 256 bytes (give a name of at most 255 bytes)": {Name: strings.Repeat("x", 256)},
		"its size is -1":    {Size: -1},
		"its reader is nil": {Size: 1},
	} {
		err := a.SendFile(ctx, nil, info, nil)
		require.ErrorIs(t, err, sdr.ErrArgument)
		require.ErrorContains(t, err, says)
	}
	_, err := a.RecvFile(ctx, nil, nil)
	require.ErrorIs(t, err, sdr.ErrArgument)
	require.ErrorContains(t, err, "its FileTarget is nil (give one, such as NewFile makes)")
	require.Equal(t, "for the application", recvText(t, a))
	require.NoError(t, a.Send(ctx, []byte("still good")))
	require.Equal(t, "still good", recvText(t, b), "the connection stands, and the peer heard of no file")
}

// recvText takes a message.
func recvText(t *testing.T, c *sdrnet.Conn) string {
	m, err := c.Recv(testContext(t))
	require.NoError(t, err)
	defer m.Release()
	return string(m.Bytes())
}

// A talker is content during whose reading something is said.
type talker struct {
	io.ReaderAt
	say func()
}

func (r talker) ReadAt(b []byte, off int64) (int, error) {
	r.say()
	return r.ReaderAt.ReadAt(b, off)
}

// TestFileBesideMessages: messages that come while a file is under way are neither its answer nor its SHA-256, and stay in order for
// Recv.
func TestFileBesideMessages(t *testing.T) {
	for _, keep := range []error{nil, errors.New("the disk is full")} {
		a, b := pair(t, nil)
		ctx := testContext(t)
		long := strings.Repeat("long", 100_000) // in two buffers
		for _, text := range []string{"", "second", long} {
			require.NoError(t, b.Send(ctx, []byte(text)))
		}
		errs := make(chan error, 1)
		go func() {
			r := talker{strings.NewReader("x"), sync.OnceFunc(func() {
				if err := a.Send(ctx, []byte("beside the file")); err != nil {
					t.Error(err)
				}
			})}
			errs <- a.SendFile(ctx, r, sdrnet.FileInfo{Size: 1}, nil)
		}()
		to := newTarget(t)
		to.keep = keep
		_, err := b.RecvFile(ctx, to, nil)
		require.Equal(t, keep, err)
		if keep != nil {
			require.ErrorContains(t, <-errs, "the receiver failed: the disk is full")
		} else {
			require.NoError(t, <-errs)
			require.NoError(t, b.Send(ctx, []byte("after the file")))
			require.Equal(t, "beside the file", recvText(t, b))
		}
		for _, want := range []string{"", "second", long} {
			require.Equal(t, want, recvText(t, a))
		}
		if keep == nil {
			require.Equal(t, "after the file", recvText(t, a))
		}
	}
}

// TestFileBesideMany: a peer can't make this end keep more messages than it said, and none is lost.
func TestFileBesideMany(t *testing.T) {
	const size = 4 * units.KiB
	a, b := pair(t, &sdrnet.Config{BufferSize: size, MaxMessage: 2 * size})
	ctx := testContext(t)
	for _, text := range []string{"one", "two", "three", "four"} {
		require.NoError(t, b.Send(ctx, []byte(text)))
	}
	go func() { _, _ = b.RecvFile(ctx, newTarget(t), nil) }()
	err := a.SendFile(ctx, strings.NewReader("x"), sdrnet.FileInfo{Size: 1}, nil)
	require.ErrorIs(t, err, sdr.ErrTooLong)
	require.ErrorContains(t, err, "3 messages, which take more than the 8 KiB of Config.MaxMessage")
	for _, want := range []string{"one", "two", "three", "four"} {
		require.Equal(t, want, recvText(t, a))
	}
}

// A hashed is content that notices when it is read for its SHA-256: in a pass after so many others.
type hashed struct {
	io.ReaderAt
	passes int
	begun  func()
	late   int // reads after begun
}

func (r *hashed) ReadAt(b []byte, off int64) (int, error) {
	if r.passes < 0 {
		r.late++
	} else if off == 0 {
		if r.passes--; r.passes < 0 {
			r.begun()
		}
	}
	return r.ReaderAt.ReadAt(b, off)
}

// TestFileBesideHollow: messages beside a file count with the memory that was made for what their first pieces announced, not with the few
// bytes that came.
func TestFileBesideHollow(t *testing.T) {
	const pieces = 64
	cfg := &sdrnet.Config{BufferSize: 64 * units.KiB, MaxMessage: pieces * 64 * units.KiB}
	a, b := pair(t, cfg)
	ctx := testContext(t)
	sent := make(chan int, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		if a.SendOfFile(ctx, make([]byte, 24)) != nil || a.SendFrom(ctx, strings.NewReader(""), 0, nil) != nil {
			return
		}
		for ; ; n++ {
			for i := range uint32(pieces) {
				if a.SendPiece(ctx, 1, i == 0, pieces-1-i) != nil {
					return
				}
			}
		}
	}()
	_, err := b.RecvFile(ctx, newTarget(t), nil)
	require.ErrorIs(t, err, sdr.ErrTooLong)
	require.ErrorContains(t, err, "beside the file came 2 messages")
	require.LessOrEqual(t, <-sent, 3)
}

// TestFileGivenUpWhileHashed: to end the context ends the reading for the SHA-256, too, which takes as long as the file is, and the peer hears
// of it.
func TestFileGivenUpWhileHashed(t *testing.T) {
	content := make([]byte, 8*units.MiB)
	for _, sender := range []bool{true, false} {
		a, b := pair(t, nil)
		ctx := testContext(t)
		ending, end := context.WithCancel(ctx)
		defer end()
		to, from := newTarget(t), &hashed{ReaderAt: bytes.NewReader(content), passes: 1, begun: end}
		kept := &hashedTarget{target: to, hashed: hashed{ReaderAt: to.File, begun: end}}
		sendCtx, recvCtx, watched := ctx, ending, &kept.hashed
		if sender {
			sendCtx, recvCtx, watched = ending, ctx, from
			kept.begun = func() {}
		} else {
			from.begun = func() {}
		}
		sent := make(chan error, 1)
		go func() {
			sent <- a.SendFile(sendCtx, from, sdrnet.FileInfo{Size: int64(len(content))}, nil)
		}()
		_, err := b.RecvFile(recvCtx, kept, nil)
		ended := err
		if sender {
			require.ErrorAs(t, err, new(*oob.PeerError))
			ended = <-sent
		} else {
			<-sent
		}
		require.ErrorIs(t, ended, context.Canceled, "sender %t", sender)
		require.Error(t, err)
		require.Zero(t, watched.late, "reads of the file, sender %t", sender)
		require.Empty(t, to.kept)
	}
}

// A keepingTarget is a target that does something while it keeps the file.
type keepingTarget struct {
	*target
	keeping func()
}

func (f keepingTarget) Keep(i sdrnet.FileInfo) error { f.keeping(); return f.target.Keep(i) }

// TestFileKeptAsContextEnds: a sender hears that its file is kept though the receiver's context has ended meanwhile, or that the connection
// is closed if it has no room for that word.
func TestFileKeptAsContextEnds(t *testing.T) {
	for _, room := range []bool{true, false} {
		a, b := pair(t, &sdrnet.Config{Window: 1})
		ctx := testContext(t)
		sendCtx, giveUp := context.WithCancel(ctx)
		recvCtx, end := context.WithCancel(ctx)
		sent := make(chan error, 1)
		to := keepingTarget{newTarget(t), func() {
			if !room {
				for range 2 { // the second finds room once the sender waits for the word
					require.NoError(t, b.Send(ctx, nil))
				}
				giveUp()
				require.ErrorIs(t, <-sent, context.Canceled)
				full, stop := context.WithTimeout(ctx, 100*time.Millisecond)
				for b.Send(full, nil) == nil {
					continue
				}
				stop()
			}
			end()
		}}
		go func() {
			sent <- a.SendFile(sendCtx, strings.NewReader("kept"), sdrnet.FileInfo{Size: 4}, nil)
		}()
		_, err := b.RecvFile(recvCtx, to, nil)
		require.NoError(t, err)
		if room {
			require.NoError(t, <-sent)
		} else {
			_, err := b.Recv(ctx)
			require.ErrorIs(t, err, net.ErrClosed)
		}
		giveUp()
	}
}

// A hashedTarget is a target whose content is hashed.
type hashedTarget struct {
	*target
	hashed
}

func (f *hashedTarget) ReadAt(b []byte, off int64) (int, error) { return f.hashed.ReadAt(b, off) }

// A breakingTarget breaks off in the call that has a name.
type breakingTarget struct {
	*target
	in  string
	off func()
}

func (f breakingTarget) at(call string) {
	if f.in == call {
		f.off()
	}
}

func (f breakingTarget) Begin(i sdrnet.FileInfo) error { f.at("Begin"); return f.target.Begin(i) }
func (f breakingTarget) Keep(i sdrnet.FileInfo) error  { f.at("Keep"); return f.target.Keep(i) }

func (f breakingTarget) WriteAt(b []byte, off int64) (int, error) {
	f.at("WriteAt")
	return f.target.WriteAt(b, off)
}

func (f breakingTarget) ReadAt(b []byte, off int64) (int, error) {
	f.at("ReadAt")
	return f.target.ReadAt(b, off)
}

// A breakingReader breaks off when it is read for so many times.
type breakingReader struct {
	io.ReaderAt
	reads int
	off   func()
}

func (r *breakingReader) ReadAt(b []byte, off int64) (int, error) {
	if r.reads--; r.reads == 0 {
		r.off()
	}
	return r.ReaderAt.ReadAt(b, off)
}

// TestFileBreaksOff: code of the application that panics, or ends its goroutine, in the middle of a file leaves the other end nothing to wait
// for, and the panic is its caller's.
func TestFileBreaksOff(t *testing.T) {
	const content = "what a file has"
	panics := func() { panic("broken off") }
	for name, c := range map[string]struct {
		in   string // a call of the target
		read int    // a read of the reader: 1 is for SendFrom, 2 for the SHA-256
		off  func()
	}{
		"Begin": {in: "Begin", off: panics}, "WriteAt": {in: "WriteAt", off: panics}, "ReadAt": {in: "ReadAt", off: panics},
		"Keep": {in: "Keep", off: panics}, "Keep ends its goroutine": {in: "Keep", off: runtime.Goexit},
		"reader": {read: 1, off: panics}, "reader of the SHA-256": {read: 2, off: panics},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, nil)
			ctx := testContext(t)
			to := breakingTarget{newTarget(t), c.in, c.off}
			ends := []func() error{
				func() error {
					r := &breakingReader{strings.NewReader(content), c.read, c.off}
					return a.SendFile(ctx, r, sdrnet.FileInfo{Size: int64(len(content))}, nil)
				},
				func() error { _, err := b.RecvFile(ctx, to, nil); return err },
			}
			errs := make([]chan error, len(ends))
			for i, end := range ends {
				errs[i] = make(chan error, 1)
				go func() {
					err := errors.New("broken off")
					defer func() {
						if v := recover(); v != nil {
							err = fmt.Errorf("%v", v)
						}
						errs[i] <- err
					}()
					err = end()
				}()
			}
			breaks, waits := 0, 1
			if c.in != "" {
				breaks, waits = 1, 0
			}
			require.EqualError(t, <-errs[breaks], "broken off")
			err := <-errs[waits]
			require.NoError(t, ctx.Err())
			if c.read == 1 { // RecvTo may hear first that SendFrom has failed
				require.Error(t, err)
				return
			}
			require.ErrorIs(t, err, sdr.ErrPeerClosed)
			require.ErrorContains(t, err, "panicked, or its goroutine was ended")
		})
	}
}

// TestFilesFromSeveralGoroutines: calls over one connection take turns, at either end, so that no file gets another's content.
func TestFilesFromSeveralGoroutines(t *testing.T) {
	const files = 6
	a, b := pair(t, nil)
	ctx := testContext(t)
	errs := make(chan error, 2*files)
	kept := make(chan *target, files)
	content := func(name string) string { return strings.Repeat(name, 1000) }
	for i := range files {
		to := newTarget(t)
		go func() {
			text := content(strconv.Itoa(i))
			errs <- a.SendFile(ctx, strings.NewReader(text), sdrnet.FileInfo{Name: strconv.Itoa(i), Size: int64(len(text))}, nil)
		}()
		go func() {
			_, err := b.RecvFile(ctx, to, nil)
			errs <- err
			kept <- to
		}()
	}
	names := map[string]bool{}
	for range 2 * files {
		require.NoError(t, <-errs)
	}
	for range files {
		to := <-kept
		names[to.kept[0].Name] = true
		require.Equal(t, content(to.kept[0].Name), string(must(os.ReadFile(to.Name()))))
	}
	require.Len(t, names, files)
}

// TestWaitsForFile: a call that is given up while it waits for another's file leaves that alone.
func TestWaitsForFile(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	errs := make(chan error, 1)
	info := sdrnet.FileInfo{Size: 1}
	var waited []error
	none := newTarget(t)                                             // which gets nothing
	content := talker{strings.NewReader("x"), sync.OnceFunc(func() { // from when on both ends have begun
		short, cancel := context.WithCancel(ctx)
		cancel()
		waited = append(waited, a.SendFile(short, strings.NewReader("y"), info, nil))
		_, err := b.RecvFile(short, none, nil)
		waited = append(waited, err)
	})}
	go func() { errs <- a.SendFile(ctx, content, info, nil) }()
	_, err := b.RecvFile(ctx, newTarget(t), nil)
	require.NoError(t, err)
	require.NoError(t, <-errs)
	require.Len(t, waited, 2)
	for _, err := range waited {
		require.ErrorIs(t, err, context.Canceled)
	}
}

// TestFileGivenUpBefore: a SendFile whose context has ended before it sends nothing, and the Conn serves for the next.
func TestFileGivenUpBefore(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	before, _ := a.Stats()
	for range 20 { // select would choose at random
		require.ErrorIs(t, a.SendFile(ended, strings.NewReader("x"), sdrnet.FileInfo{Size: 1}, nil), context.Canceled)
	}
	after, _ := a.Stats()
	require.Equal(t, before.QP.MessagesSent, after.QP.MessagesSent)
	errs := make(chan error, 1)
	go func() { errs <- a.SendFile(ctx, strings.NewReader("y"), sdrnet.FileInfo{Size: 1}, nil) }()
	to := newTarget(t)
	_, err := b.RecvFile(ctx, to, nil)
	require.NoError(t, err)
	require.NoError(t, <-errs)
	require.Equal(t, "y", string(must(os.ReadFile(to.Name()))))
}

// TestTwoSenders: both ends send a file, and neither takes the other's for an answer.
func TestTwoSenders(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	errs := make(chan error, 1)
	go func() { _, err := a.RecvFile(ctx, newTarget(t), nil); errs <- err }()
	require.NoError(t, a.SendOfFile(ctx, []byte("not empty")))
	err := b.SendFile(ctx, strings.NewReader("x"), sdrnet.FileInfo{Size: 1}, nil)
	require.ErrorIs(t, err, sdr.ErrMismatch)
	require.ErrorContains(t, err, "use SendFile at one end and RecvFile at the other")
	require.NoError(t, <-errs)
}

// TestFileIsNoMessage: Recv and Read don't hand a file's particulars to the application.
func TestFileIsNoMessage(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	for range 2 {
		require.NoError(t, a.SendOfFile(ctx, make([]byte, 24)))
	}
	_, err := b.Recv(ctx)
	require.ErrorContains(t, err, "use SendFile at one end and RecvFile at the other")
	_, err = b.Stream().Read(make([]byte, 1))
	require.ErrorContains(t, err, "use SendFile at one end and RecvFile at the other")
}

// TestFileFails: what goes wrong with a file at one end is said at both, and such a file is not kept.
func TestFileFails(t *testing.T) {
	none := errors.New("no room left")
	const content = "the content"
	for _, c := range []struct {
		name         string
		target       target
		size         int64 // that the sender says
		sends, recvs string
		kept         int
	}{
		{"refused", target{begin: none}, 11, "the receiver failed: no room left", "no room left", 0},
		{"not written", target{write: none}, 11, "the receiver failed: no room left", "no room left", 0},
		{"not kept", target{keep: none}, 11, "the receiver failed: no room left", "no room left", 1},
		{"spoilt", target{spoil: true}, 11, "the receiver failed: receive file: the SHA-256 of the copy differs", "the SHA-256 of the copy differs", 0},
		{"shorter", target{}, 12, "unexpected EOF", "the sender failed: read 12 bytes at 0: unexpected EOF", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, nil)
			ctx := testContext(t)
			to := newTarget(t)
			c.target.File = to.File
			errs := make(chan error, 1)
			go func() {
				errs <- a.SendFile(ctx, strings.NewReader(content), sdrnet.FileInfo{Size: c.size}, nil)
				_ = a.Close()
			}()
			_, err := b.RecvFile(ctx, &c.target, nil)
			require.ErrorContains(t, err, c.recvs)
			require.Len(t, c.target.kept, c.kept)
			err = <-errs
			require.ErrorContains(t, err, c.sends)
			require.Equal(t, strings.HasPrefix(c.sends, "the receiver"), errors.As(err, new(*oob.PeerError)), "%v", err)
			_, err = b.Recv(ctx)
			require.ErrorIs(t, err, net.ErrClosed, "RecvFile closes what it has failed on")
		})
	}
}

// TestFileGivenUpOnTheWay: why a sender gives a file up of which a part is there is what RecvFile fails with, although that the stream is aborted
// arrives before.
func TestFileGivenUpOnTheWay(t *testing.T) {
	const size = 20 << 20
	stop := errors.New("the user has pressed stop")
	for range 5 {
		a, b := pair(t, nil)
		ctx, cancel := context.WithCancelCause(testContext(t))
		errs := make(chan error, 1)
		go func() {
			errs <- a.SendFile(ctx, bytes.NewReader(make([]byte, size)), sdrnet.FileInfo{Size: size}, func(done, _ units.Bytes) {
				if done > 0 {
					cancel(stop)
				}
			})
		}()
		_, err := b.RecvFile(testContext(t), newTarget(t), nil)
		require.EqualError(t, err, "the sender failed: "+stop.Error())
		require.ErrorIs(t, err, sdr.ErrPeerClosed)
		require.ErrorAs(t, err, new(*oob.PeerError))
		require.ErrorIs(t, <-errs, stop)
	}
}

// A meter is a target that notes how far it was written.
type meter struct {
	*target
	end int64
}

func (m *meter) WriteAt(b []byte, off int64) (int, error) {
	m.end = max(m.end, off+int64(len(b)))
	return m.target.WriteAt(b, off)
}

// TestLongerThanSaid: a target that has agreed to a file of some size gets no byte beyond it, whatever the peer's stream says.
func TestLongerThanSaid(t *testing.T) {
	const sent = 20 << 20
	for _, said := range []int64{0, 3, sent - 1} {
		a, b := pair(t, nil)
		ctx := testContext(t)
		info := make([]byte, 24)
		binary.BigEndian.PutUint64(info[16:], uint64(said))
		go func() {
			_ = a.SendOfFile(ctx, info)
			_ = a.SendFrom(ctx, bytes.NewReader(make([]byte, sent)), sent, nil)
			sum := sha256.Sum256(make([]byte, sent))
			_ = a.SendOfFile(ctx, sum[:])
		}()
		to := &meter{target: newTarget(t)}
		_, err := b.RecvFile(ctx, to, nil)
		require.ErrorIs(t, err, sdr.ErrMismatch)
		require.ErrorContains(t, err, fmt.Sprintf("the peer sends more than the %d bytes that it said", said))
		require.LessOrEqual(t, to.end, said)
		require.Empty(t, to.kept)
	}
}

// TestNoFile: a peer that says something else, or leaves in the middle, gives no file.
func TestNoFile(t *testing.T) {
	const info = "\x00\x00\x01\xa4\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03name"
	for _, c := range []struct{ name, message, says string }{
		{"nothing", "", "the peer says nothing of a file: use SendFile at one end"},
		{"a long name", info + strings.Repeat("x", 252), "use SendFile at one end"},
		{"no permissions", "\xff" + info[1:], "mode 37700000644"},
		{"negative", info[:16] + "\xff" + info[17:], "bytes, mode 644"},
		{"no time", info[:12] + "\x3b\x9a\xca\x00" + info[16:], "1000000000 ns"},
		{"half", info, io.ErrUnexpectedEOF.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, nil)
			ctx := testContext(t)
			require.NoError(t, a.SendOfFile(ctx, []byte(c.message)))
			require.NoError(t, a.Close())
			to := newTarget(t)
			_, err := b.RecvFile(ctx, to, nil)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.name == "half", errors.Is(err, sdr.ErrPeerClosed), "%v", err)
			require.Empty(t, to.kept)
		})
	}
	a, b := pair(t, nil)
	require.NoError(t, a.Send(testContext(t), []byte(info)))
	_, err := b.RecvFile(testContext(t), newTarget(t), nil)
	require.ErrorContains(t, err, "one end uses files and the other messages")
}

// TestNoChecksum: what comes instead of a file's SHA-256, such as the answer to a file that travels the other way, is not compared with it.
func TestNoChecksum(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	go func() {
		_ = a.SendOfFile(ctx, make([]byte, 24)) // a file of no bytes
		_ = a.SendFrom(ctx, strings.NewReader(""), 0, nil)
		_ = a.SendOfFile(ctx, nil)
	}()
	to := newTarget(t)
	_, err := b.RecvFile(ctx, to, nil)
	require.ErrorIs(t, err, sdr.ErrMismatch)
	require.ErrorContains(t, err, "0 bytes came where its SHA-256 was due")
	require.ErrorContains(t, err, "another Conn for files that travel the other way")
	require.Empty(t, to.kept)
}

// TestShorterThanSaid: a sender can't hand over less than it said, although it comes with the right SHA-256.
func TestShorterThanSaid(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	go func() {
		_ = a.SendOfFile(ctx, append(make([]byte, 23), 4)) // a file of four bytes
		_ = a.SendFrom(ctx, bytes.NewReader([]byte("abc")), 3, nil)
		_ = a.SendOfFile(ctx, []byte("\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad"))
	}()
	to := newTarget(t)
	_, err := b.RecvFile(ctx, to, nil)
	require.ErrorContains(t, err, "differs")
	require.Empty(t, to.kept)
}

// TestValidName: a sender's name leads nowhere else.
func TestValidName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "/etc/x", "a/b", ".bashrc", "a\x1b[2J", "a\n", "\xff", strings.Repeat("x", 256)} {
		require.False(t, sdrnet.FileInfo{Name: name}.ValidName(), "%q", name)
	}
	for _, name := range []string{"übung 1.tar", "x", strings.Repeat("x", 255)} {
		require.True(t, sdrnet.FileInfo{Name: name}.ValidName(), "%q", name)
	}
}
