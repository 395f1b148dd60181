// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A FileInfo is what SendFile says about a file beside its content.
type FileInfo struct {
	Name    string      // its last path element, at most 255 bytes (NAME_MAX); "" if it has none
	Size    int64       // bytes
	Mode    fs.FileMode // its permissions; SendFile sends no other bits
	ModTime time.Time   // to the nanosecond
}

// FileInfoOf is the FileInfo of what os.Stat or os.File.Stat returned.
func FileInfoOf(fi fs.FileInfo) FileInfo {
	return FileInfo{Name: fi.Name(), Size: fi.Size(), Mode: fi.Mode().Perm(), ModTime: fi.ModTime()}
}

// ValidName reports whether Name may be given to a file in a folder of the receiver's choice: a peer can say anything. It is one path
// element of 1 to 255 bytes of printable UTF-8 that doesn't begin with a dot, so that it neither hides nor leads elsewhere.
func (i FileInfo) ValidName() bool {
	unfit := func(r rune) bool { return r == '/' || r == unicode.ReplacementChar || !unicode.IsPrint(r) }
	return i.Name != "" && len(i.Name) <= maxName && i.Name[0] != '.' && !strings.ContainsFunc(i.Name, unfit)
}

// A FileTarget is where RecvFile puts a file. Its methods are called one at a time.
type FileTarget interface {
	// Begin is called first. Its error refuses the file.
	Begin(FileInfo) error
	// WriteAt gets the content, in any order of time, and nothing beyond FileInfo.Size; ReadAt returns it, to be compared with the
	// peer's.
	io.WriterAt
	io.ReaderAt
	// Keep is called last, once what ReadAt returned has the peer's SHA-256. The peer learns that the file has arrived when Keep has
	// returned nil.
	Keep(FileInfo) error
}

// A file travels as a message with its FileInfo, one transfer of SendFrom, and a message with its SHA-256. An empty message comes back
// when it was kept, or else the reason with which RecvFile has closed the connection. These messages have a kind of their own (kindFile),
// by which both ends tell them from those of Send, which may be under way in either direction.
//
//	info  mode 4 | changed: seconds 8, nanoseconds 4 | size 8 | name           network byte order
const (
	infoSize = 24
	maxName  = 255
	// oneWay is what to do when what comes isn't what a file has next.
	oneWay = "use SendFile at one end and RecvFile at the other, and another Conn for files that travel the other way meanwhile"
	// reasonTime is how long a SendFile or RecvFile that has failed waits to hear why the peer's has, and a RecvFile whose context has ended for
	// SendFile to hear that the file is kept.
	reasonTime = 2 * time.Second
)

func (i FileInfo) encode() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, infoSize+len(i.Name)), uint32(i.Mode.Perm()))
	b = binary.BigEndian.AppendUint64(b, uint64(i.ModTime.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(i.ModTime.Nanosecond()))
	b = binary.BigEndian.AppendUint64(b, uint64(i.Size))
	return append(b, i.Name...)
}

func parseFileInfo(b []byte) (FileInfo, error) {
	if len(b) < infoSize || len(b) > infoSize+maxName {
		return FileInfo{}, operr.New("receive", "file", "%w: the peer says nothing of a file: %s", sdr.ErrMismatch, oneWay)
	}
	nanoseconds := binary.BigEndian.Uint32(b[12:])
	i := FileInfo{
		Name:    string(b[infoSize:]),
		Size:    int64(binary.BigEndian.Uint64(b[16:])),
		Mode:    fs.FileMode(binary.BigEndian.Uint32(b)),
		ModTime: time.Unix(int64(binary.BigEndian.Uint64(b[4:])), int64(nanoseconds)),
	}
	if i.Size < 0 || i.Mode != i.Mode.Perm() || nanoseconds >= 1e9 {
		return FileInfo{}, operr.New("receive", "file", "%w: the peer says that a file has %d bytes, mode %o, %d ns", sdr.ErrMismatch, i.Size, i.Mode, nanoseconds)
	}
	return i, nil
}

// SendFile sends a file of info.Size bytes, which it reads from r, with what info says about it, to the peer's RecvFile. It returns when
// the peer has compared the SHA-256 of its copy and kept it. If the peer couldn't, the error says why and is an *oob.PeerError.
//
// It uses messages beside one SendFrom: while it runs, nobody else may call Recv at either end. What the peer sends meanwhile stays, in
// order, for later calls of Recv; it fails the file when it takes more memory than Config.MaxMessage. Calls from several goroutines take
// turns. A file that travels the other way at the same time needs a Conn of its own. Ending ctx gives the file up at
// both ends. When it fails for a reason of this end, it closes c with that, which is what RecvFile fails with there. After any other error the Conn is
// of no more use, and should be closed, unless the error is sdr.ErrArgument, or ctx has ended before the call's turn: then nothing was sent, and
// RecvFile goes on waiting for a file.
func (c *Conn) SendFile(ctx context.Context, r io.ReaderAt, info FileInfo, p Progress) error {
	if err := info.check(r); err != nil {
		return err
	}
	if err := c.sendsFile.take(ctx, c.closing); err != nil {
		return c.sendError(endedBy(ctx, err))
	}
	defer c.sendsFile.give()
	returned := false
	defer c.closeUnwound("the reader or Progress of SendFile", &returned)
	err := c.sendWhole(ctx, r, info, p)
	returned = true
	return endedBy(ctx, err)
}

// closeUnwound closes c where a call of the application's code hasn't returned: it panicked, or ended its goroutine. The peer, which waits for the rest
// of a file, hears why.
func (c *Conn) closeUnwound(whose string, returned *bool) {
	if !*returned {
		_ = c.CloseWithReason(whose + " panicked, or its goroutine was ended")
	}
}

// sendWhole sends a file and waits for the receiver's word.
func (c *Conn) sendWhole(ctx context.Context, r io.ReaderAt, info FileInfo, p Progress) error {
	err := c.sendFile(ctx, r, info, p)
	switch {
	case saysEnd(ctx, err), failedHere(err): // the receiver can't know, and waits for more: of whatever failed it may have got all
		_ = c.CloseWithReason(err.Error())
		return err
	case err != nil: // it may know better why
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reasonTime)
		defer cancel()
	}
	m, answer := c.recvOfFile(ctx, false)
	switch said := peerSays("receiver", answer); {
	case said != nil:
		return said
	case err != nil:
		return err
	case answer != nil:
		return midFile(answer)
	}
	defer m.Release()
	if len(m.Bytes()) > 0 {
		return &sdr.OpError{Op: "send", Object: "file", Err: sdr.ErrMismatch, Detail: fmt.Sprintf("the peer sends a file, too, or answers with %d bytes", len(m.Bytes())),
			Fix: oneWay}
	}
	return nil
}

// failedHere reports whether err, of a call that sends, is something that the peer doesn't know better: neither that the peer gave up or left, nor
// that it stands still.
func failedHere(err error) bool {
	for _, theirs := range []error{sdr.ErrCompleted, sdr.ErrPeerClosed, sdr.ErrPeerDead, sdr.ErrNoProgress, sdr.ErrClosed} {
		if errors.Is(err, theirs) {
			return false
		}
	}
	return err != nil
}

// recvOfFile receives what the peer says about a file, with start that one begins.
func (c *Conn) recvOfFile(ctx context.Context, start bool) (*Message, error) {
	m, err := c.in.nextOfFile(ctx, start)
	return m, c.recvError(err)
}

// sendOfFile tells the peer something about a file.
func (c *Conn) sendOfFile(ctx context.Context, b []byte) error {
	return c.sendError(c.send(ctx, b, kindFile))
}

// check says what SendFile can't send.
func (i FileInfo) check(r io.ReaderAt) error {
	e := &sdr.OpError{Op: "send", Object: "file", Err: sdr.ErrArgument}
	switch {
	case len(i.Name) > maxName:
		e.Detail, e.Fix = fmt.Sprintf("its name has %d bytes", len(i.Name)), fmt.Sprintf("give a name of at most %d bytes", maxName)
	case i.Size < 0:
		e.Detail, e.Fix = fmt.Sprintf("its size is %d", i.Size), "give the number of its bytes"
	case r == nil && i.Size > 0:
		e.Detail, e.Fix = "its reader is nil", "give one, such as an *os.File"
	default:
		return nil
	}
	return e
}

// midFile says what the end of a connection means while a file is under way.
func midFile(err error) error {
	if err == io.EOF {
		return operr.New("transfer", "file", "%w: %w in the middle of it", io.ErrUnexpectedEOF, sdr.ErrPeerClosed)
	}
	return err
}

func (c *Conn) sendFile(ctx context.Context, r io.ReaderAt, info FileInfo, p Progress) error {
	if err := c.sendOfFile(ctx, info.encode()); err != nil {
		return err
	}
	if err := c.SendFrom(ctx, r, info.Size, p); err != nil {
		return err
	}
	sum, err := hashFile(ctx, r, info.Size)
	if err != nil {
		return err
	}
	return c.sendOfFile(ctx, sum)
}

// RecvFile receives what the peer's SendFile sends, and returns what the peer said about it once to has kept the file. When it fails it
// closes c with its error as the reason, which is what SendFile fails with there, and nothing may be kept. A nil to is refused with sdr.ErrArgument,
// which leaves c as it was.
//
// The same holds for it as for SendFile: nobody else may call Recv meanwhile, messages that come before the file has ended stay for Recv,
// and ending ctx gives the file up, unless to has begun to keep it: then the peer is told all the same, and c is closed if it doesn't hear that
// soon. A message that comes instead of a file fails it. A panic of to or p, or the end of its goroutine, passes through and closes c, too, so that the
// peer doesn't wait; the same holds of SendFile.
func (c *Conn) RecvFile(ctx context.Context, to FileTarget, p Progress) (FileInfo, error) {
	if to == nil {
		return FileInfo{}, &sdr.OpError{Op: "receive", Object: "file", Err: sdr.ErrArgument, Detail: "its FileTarget is nil", Fix: "give one, such as NewFile makes"}
	}
	if err := c.recvsFile.take(ctx, c.closing); err != nil {
		return FileInfo{}, c.recvError(endedBy(ctx, err))
	}
	defer c.recvsFile.give()
	returned := false
	defer c.closeUnwound("the FileTarget or Progress of RecvFile", &returned)
	info, err := c.recvFile(ctx, to, p)
	returned = true
	if err != nil {
		_ = c.CloseWithReason(err.Error())
		return FileInfo{}, endedBy(ctx, err)
	}
	c.sayKept(ctx)
	return info, nil
}

// sayKept tells the sender that its file is kept. It waits for that word, so it gets it also when ctx has ended since, as it may while Keep
// waits for the disk; one that doesn't take it then hears that the connection is closed. A sender that is gone needn't hear anything.
func (c *Conn) sayKept(ctx context.Context) {
	saying, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(reasonTime, end) })()
	if err := c.sendOfFile(saying, nil); err != nil && saying.Err() != nil {
		_ = c.CloseWithReason("the file is kept, but its sender doesn't take the word that it is")
	}
}

func (c *Conn) recvFile(ctx context.Context, to FileTarget, p Progress) (FileInfo, error) {
	m, err := c.recvOfFile(ctx, true)
	if err != nil {
		return FileInfo{}, err
	}
	info, err := parseFileInfo(m.Bytes())
	m.Release()
	if err == nil {
		err = to.Begin(info)
	}
	if err != nil {
		return info, err
	}
	size, err := c.RecvTo(ctx, announced{to, info.Size}, p)
	if err != nil {
		return info, c.senderSays(ctx, err)
	}
	sum, err := hashFile(ctx, to, size) // while the sender hashes the original
	if err != nil {
		return info, err
	}
	if m, err = c.recvOfFile(ctx, false); err != nil {
		return info, c.senderSays(ctx, err)
	}
	defer m.Release()
	if n := len(m.Bytes()); n != sha256.Size {
		return info, operr.New("receive", "file", "%w: %d bytes came where its SHA-256 was due: %s", sdr.ErrMismatch, n, oneWay)
	}
	if size != info.Size || !bytes.Equal(sum, m.Bytes()) {
		return info, operr.New("receive", "file", "the SHA-256 of the copy differs from the original's: did the file change meanwhile? Nothing was kept")
	}
	return info, to.Keep(info)
}

// senderSays is what has become of a file whose RecvTo, or whose wait for the SHA-256, has ended with err. That the stream was given up arrives before
// the reason with which SendFile closes the connection right after.
func (c *Conn) senderSays(ctx context.Context, err error) error {
	why := err
	if errors.Is(err, sdr.ErrAborted) {
		ctx, cancel := context.WithTimeout(ctx, reasonTime)
		defer cancel()
		var m *Message
		if m, why = c.recvOfFile(ctx, false); why == nil {
			m.Release()
		}
	}
	if said := peerSays("sender", why); said != nil {
		return said
	}
	return midFile(err)
}

// peerSays is what the peer, which is a file's sender or receiver, said that it had failed with when it closed the connection, nil if err isn't that.
func peerSays(who string, err error) error {
	said := (*oob.PeerError)(nil)
	if !errors.As(err, &said) {
		return nil
	}
	return &wrapped{fmt.Errorf("the %s failed: %s", who, said.Reason), err}
}

// An announced target gets no more than the size that Begin has agreed to: the stream has a size of its own, which the peer chooses, too.
type announced struct {
	to   io.WriterAt
	size int64
}

func (a announced) WriteAt(b []byte, off int64) (int, error) {
	if off > a.size || int64(len(b)) > a.size-off {
		return 0, operr.New("receive", "file", "%w: the peer sends more than the %d bytes that it said: nothing was kept", sdr.ErrMismatch, a.size)
	}
	return a.to.WriteAt(b, off)
}

// hashFile is the SHA-256 of the first size bytes of r.
func hashFile(ctx context.Context, r io.ReaderAt, size int64) ([]byte, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(h, endedReader{ctx, io.NewSectionReader(r, 0, size)}, make([]byte, units.MiB))
	if err == nil && n != size {
		err = operr.New("read", "file", "it has become shorter: %d bytes are left of %d", n, size)
	}
	return h.Sum(nil), err
}

// An endedReader reads until its context has ended.
type endedReader struct {
	ctx context.Context
	r   io.Reader
}

func (r endedReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(b)
}
