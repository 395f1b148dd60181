// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// What the ends say to each other, as JSON over the out-of-band connection, which each point has one
// of: hello, verdict, then the connection's own exchange of infos, then a turn before each transfer.
// Before the first transfer that counts, and after the last one, the ends compare their counters.

// protocolVersion changes when the meaning of these messages does.
const protocolVersion = 4

// A hello is what each end says first.
type hello struct {
	Version int `json:"version"`
	// Run is the client's name for the run, so that the server doesn't mix two clients.
	Run uint64 `json:"run"`
	// PathMTU is the largest payload that the local interface carries.
	PathMTU units.Bytes `json:"path_mtu"`
	// Err says why this end can't.
	Err string `json:"err,omitempty"`
	// Plan is what the client wants; Scheme and Size are the point.
	Plan   *params     `json:"plan,omitempty"`
	Scheme string      `json:"scheme,omitempty"`
	Size   units.Bytes `json:"size,omitempty"`
	// Last says that no point follows.
	Last bool `json:"last,omitempty"`
}

// A verdict says whether this end is ready to connect.
type verdict struct {
	Err string `json:"err,omitempty"`
}

// A turn is said by both ends before each transfer and after the last one.
type turn struct {
	// Op is what the sender does next.
	Op op `json:"op,omitempty"`
	// Err says why this end gives up, Wrong that it is because of the content.
	Err   string `json:"err,omitempty"`
	Wrong bool   `json:"wrong,omitempty"`
	// Counters, from the receiver, are those since the first counted transfer.
	Counters *counters `json:"counters,omitempty"`
	// CPU is what this end has spent since then.
	CPU result.CPUTime `json:"cpu"`
	// Stall is for how long, at most, nothing new has come since then, where paths have rates of their own.
	Stall units.Duration `json:"stall,omitempty"`
}

// An op is what the next transfer is for.
type op string

const (
	opWarmup op = "warmup"
	opCount  op = "count"
	opEnd    op = "end"
)

// A peerError is what the other end says is wrong.
type peerError struct {
	who, text string
	wrong     bool // the content
}

func (e *peerError) Error() string { return "the " + e.who + ": " + printable(e.text) }

// asTold is err, or, where the other end has ended the connection and said why, what it said. After an interrupt here it is what came of
// that, and so is an interrupt at the other end, which may hear of it first or, as in a loopback run, at the same time.
func asTold(ctx context.Context, err error, who string) error {
	var told *oob.PeerError
	switch {
	case !errors.As(err, &told) || !told.Rejected():
		return err
	case ctx.Err() == nil:
		return &peerError{who: who, text: told.Reason}
	case told.Reason == errInterrupted.Error():
		return errInterrupted
	}
	return err
}

// maxPeerText is the most of a peer's text that is shown.
const maxPeerText = 1000

// printable makes text from the network fit for a terminal: one line of letters, and no more of them than
// somebody reads.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxPeerText {
		text = strings.ToValidUTF8(text[:maxPeerText], "") + "…"
	}
	return text
}

// exchange sends ours and returns the peer's message of the same type.
func exchange[T any](ctx context.Context, s *oob.Conn, limit units.Duration, ours T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var theirs T
	b, err := json.Marshal(ours)
	if err != nil {
		return theirs, err
	}
	if b, err = s.Exchange(ctx, b); err != nil {
		return theirs, err
	}
	if err := json.Unmarshal(b, &theirs); err != nil {
		return theirs, fmt.Errorf("the peer speaks something else than sdr-perf: %s", printable(err.Error()))
	}
	return theirs, nil
}

// text is the message of err, empty for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkHello says what is wrong with the peer's hello. who is the peer.
func checkHello(h *hello, who string) error {
	switch {
	case h.Version != protocolVersion:
		return fmt.Errorf("the %s speaks version %d of sdr-perf's protocol, this end %d: install the same release at both ends", who, h.Version, protocolVersion)
	case h.Err != "":
		return &peerError{who: who, text: h.Err}
	case h.PathMTU < 256 || h.PathMTU > units.GiB:
		return fmt.Errorf("the %s says that its path MTU is %d", who, h.PathMTU)
	}
	return nil
}

// checkPlan says what is wrong with what a client wants: its numbers come from the network.
func checkPlan(h *hello) error {
	if h.Plan == nil {
		return errors.New("the peer doesn't say what to measure: is it a server too? Give one of them the other as HOST")
	}
	if err := h.Plan.check(); err != nil {
		return err
	}
	point := params{Inflight: 1, QPs: 1, Sizes: usage.Sizes{h.Size}, Schemes: []string{h.Scheme}, Channels: 1, Duration: units.Second, Timeout: units.Second}
	return point.check()
}
