// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// endArgument makes this program one end of a stream. The arguments after it, what is printed and what messages contain
// are those of c/end.h.
const endArgument = "-end"

// A kind is what a message is for.
type kind uint64

const (
	warming kind = iota
	counted
	last
)

// An ended is what an end says when all is over.
type ended struct {
	Messages int64         `json:"messages"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	User     time.Duration `json:"user_ns"`
	Sys      time.Duration `json:"sys_ns"`
	Version  string        `json:"version"`
}

const pageSize = 4096

func word(k kind, i uint64, page int) uint64 { return uint64(k)<<62 | i<<18 | uint64(page) }

func filler(at, slot int) uint64 { return uint64(at+1)*0x9e3779b97f4a7c15 ^ uint64(slot) }

func fill(b []byte, slot int) {
	for at := 0; at+8 <= len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], filler(at, slot))
	}
}

func stamp(b []byte, k kind, i uint64) {
	for at := 0; at < len(b); at += pageSize {
		binary.LittleEndian.PutUint64(b[at:], word(k, i, at/pageSize))
	}
}

var errContent = errors.New("a message is wrong")

func check(b []byte, i uint64) (kind, error) {
	k := kind(binary.LittleEndian.Uint64(b) >> 62)
	for at := 0; at < len(b); at += pageSize {
		if binary.LittleEndian.Uint64(b[at:]) != word(k, i, at/pageSize) {
			return k, errContent
		}
	}
	return k, nil
}

func checkWhole(b []byte, slot int) error {
	for at := 0; at+8 <= len(b); at += 8 {
		if at%pageSize != 0 && binary.LittleEndian.Uint64(b[at:]) != filler(at, slot) {
			return errContent
		}
	}
	return nil
}

func used() (user, sys time.Duration) {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}

// A window is a ring of messages on a connection that carries bytes.
type window struct {
	conn     io.ReadWriteCloser
	size     int
	inflight int
	ring     []byte
}

func (w *window) slot(i uint64) []byte {
	at := int(i%uint64(w.inflight)) * w.size
	return w.ring[at : at+w.size]
}

func serveEnd(args []string) error {
	if len(args) != 7 {
		return errors.New("an end's arguments are those of c/end.h")
	}
	var numbers [4]int
	for i, text := range args[3:] {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	w := &window{size: numbers[0], inflight: numbers[1], ring: make([]byte, numbers[0]*numbers[1])}
	warm, count := time.Duration(numbers[2])*time.Millisecond, time.Duration(numbers[3])*time.Millisecond
	receiving, ctx := args[0] == "receive", context.Background()
	var version string
	var err error
	if w.conn, version, err = openStream(ctx, args[1], args[2], receiving, os.Stdout); err != nil {
		return err
	}
	defer w.conn.Close()
	var e ended
	if receiving {
		e, err = w.receive()
	} else {
		e, err = w.send(warm, count)
	}
	if err != nil {
		return err
	}
	e.Version = version
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the other end is done, too
	return err
}

// receive takes messages until the last, and answers each with a byte. It counts by its own clock, from the first counted message to
// the last one.
func (w *window) receive() (e ended, err error) {
	var at int // in the ring
	var next uint64
	var user, sys time.Duration
	var begun, ended time.Time
	acks := make([]byte, w.inflight)
	for k := warming; k != last; {
		n, err := w.conn.Read(w.ring[at:])
		if err != nil {
			return e, err
		}
		whole := 0
		for at += n; int(next%uint64(w.inflight)+1)*w.size <= at && k != last; next++ {
			if k, err = check(w.slot(next), next); err != nil {
				return e, err
			}
			whole++
			if k == counted {
				ended = time.Now()
				if e.Messages++; e.Messages == 1 {
					begun = ended
					user, sys = used()
				}
			}
			if next%uint64(w.inflight) == uint64(w.inflight)-1 {
				at = 0 // what was read ends with the ring
			}
		}
		if whole > 0 {
			if _, err := w.conn.Write(acks[:whole]); err != nil {
				return e, err
			}
		}
	}
	e.User, e.Sys = used()
	e.User, e.Sys, e.Messages, e.Elapsed = e.User-user, e.Sys-sys, max(e.Messages-1, 0), ended.Sub(begun)
	for i := next - min(next, uint64(w.inflight)); i < next; i++ {
		if err := checkWhole(w.slot(i), int(i%uint64(w.inflight))); err != nil {
			return e, err
		}
	}
	return e, nil
}

// send sends for the time of each phase, and the last message.
func (w *window) send(warm, count time.Duration) (e ended, err error) {
	for i := range w.inflight {
		fill(w.slot(uint64(i)), i)
	}
	acks := make(chan int, w.inflight) // how many have come
	failed := make(chan error, 1)
	go func() {
		b := make([]byte, w.inflight)
		for {
			n, err := w.conn.Read(b)
			if n > 0 {
				acks <- n
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	next, err := w.phase(warming, 0, time.Now().Add(warm), acks, failed)
	if err != nil {
		return e, err
	}
	user, sys := used()
	begun := time.Now()
	sent, err := w.phase(counted, next, begun.Add(count), acks, failed)
	if err != nil {
		return e, err
	}
	e.Messages, e.Elapsed = int64(sent-next), time.Since(begun)
	e.User, e.Sys = used()
	e.User, e.Sys = e.User-user, e.Sys-sys
	_, err = w.phase(last, sent, time.Time{}, acks, failed)
	return e, err
}

// phase keeps the window full until the time is over and everything is acknowledged. What lies side by side in the ring is
// written at once.
func (w *window) phase(k kind, next uint64, until time.Time, acks <-chan int, failed <-chan error) (uint64, error) {
	oldest, more := next, true
	for more || oldest < next {
		from := next
		for more && next-oldest < uint64(w.inflight) {
			stamp(w.slot(next), k, next)
			next++
			more = k != last
			if next%uint64(w.inflight) == 0 {
				break
			}
		}
		if next > from {
			at := int(from%uint64(w.inflight)) * w.size
			if _, err := w.conn.Write(w.ring[at : at+int(next-from)*w.size]); err != nil {
				return next, err
			}
			if more && next-oldest < uint64(w.inflight) {
				continue
			}
		}
		select {
		case n := <-acks:
			oldest += uint64(n)
		case err := <-failed:
			return next, fmt.Errorf("no acknowledgement: %w", err)
		}
		more = more && time.Now().Before(until)
	}
	return next, nil
}
