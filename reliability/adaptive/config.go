// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/internal/spare"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config configures both halves of a Conn's transfers. The zero value is right
// unless a simulation wants to know better.
type Config struct {
	// MinTimeout is the shortest timeout, from 1 ns to 10 s; 0 means 10 ms. It
	// matters on links whose round trip is below a scheduler's delays.
	MinTimeout units.Duration
}

// New returns the scheme, which keeps what transfers teach about the network for
// the transfers after them. It is for one Conn.
func New(c Config) (scheme.Scheme, error) {
	a := &adaptive{
		repeat: loss.Config{Rule: loss.PathProof, MinTimeout: c.MinTimeout},
		model:  newModel(), tail: unknownTail, rows: firstRows,
	}
	if err := a.repeat.Check(); err != nil {
		return nil, operr.Argument("configure", "scheme adaptive", "%w", err)
	}
	a.repeatParams = a.repeat.Params()
	return a, nil
}

// An adaptive is the scheme of one Conn.
type adaptive struct {
	repeat    loss.Config
	estimates loss.Estimates
	model     model
	// tail and rows are what the peer last wanted: how many units of tail and
	// how many rows for a group. As many transfers as shorter says had fewer units since.
	tail, rows, shorter int
	// totals are of the transfers received.
	totals totals
	// repeatParams are what acknowledgements' parameters always are.
	repeatParams []byte
	// Halves of transfers that have ended, for those that come.
	senders   spare.List[sender]
	receivers spare.List[receiver]
}

const (
	// unknownTail: all of a transfer may be tail.
	unknownTail = 1 << 30
	// firstRows is how many rows for a group Recv offers room for before the
	// peer has said what it wants.
	firstRows = 8
	// manyShorter is after how many shorter transfers in a row a long one isn't expected any more.
	manyShorter = 64
	// spareUnits is the room for new rows, beyond a share of the first ones.
	spareUnits = 24
	// maxUnits keeps numbers within their bits.
	maxUnits = int(scheme.Probe) - 1
)

func (a *adaptive) Name() string { return "adaptive" }

// ParityUnits is the room for the rows of the tail as the peer last wanted them,
// with a reserve for a growing drop rate and for new rows. Conn bounds it by its
// pool; a sender that has less room makes its tail shorter. Where the peer last wanted no tail, as it
// doesn't pace, a transfer that is too short for late groups gets no parity either, and a message and its
// control frames are saved.
func (a *adaptive) ParityUnits(n int) int {
	if a.tail == 0 && n < lateShare {
		return 0
	}
	tail := min(n, a.tail+a.tail/4)
	groups := (tail + leastFull - 1) / leastFull
	return groups*(a.rows+a.rows/4+2) + spareUnits
}

func checkTransfer(t *scheme.Transfer, env *scheme.Env) error {
	switch {
	case t.Units < 1 || t.Units > maxUnits:
		return fmt.Errorf("adaptive: a transfer of %d units is outside 1 to %d; choose larger units", t.Units, maxUnits)
	case env.MaxFrame < minFrame:
		return fmt.Errorf("adaptive: control frames of %d bytes are too small, %d are needed", env.MaxFrame, minFrame)
	}
	if err := loss.CheckTransfer(t, env); err != nil {
		return fmt.Errorf("adaptive: %w", err)
	}
	return nil
}

func (a *adaptive) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	if err := checkTransfer(&t, env); err != nil {
		return nil, err
	}
	return newSender(a, t, env), nil
}

func (a *adaptive) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	if err := checkTransfer(&t, env); err != nil {
		return nil, err
	}
	p, err := parseParams(t.Params, t.Units)
	if err != nil {
		return nil, err
	}
	if err := a.repeat.CheckParams(p.repeat); err != nil {
		return nil, fmt.Errorf("adaptive: %w", err)
	}
	a.noteWanted(&p)
	return newReceiver(a, p, t, env), nil
}

// noteWanted notes what the peer wants for a transfer, for which ParityUnits offers room. One that is too short for the tail that it wanted
// before, as a header in front of what it announces, says nothing of longer ones, unless only such come.
func (a *adaptive) noteWanted(p *params) {
	if a.tail != unknownTail && p.wantTail == p.units && p.units < a.tail && a.shorter < manyShorter {
		a.shorter++
		a.rows = max(a.rows, p.rows)
		return
	}
	a.tail, a.rows, a.shorter = p.wantTail, max(p.rows, 1), 0
}

// reaction is how long after it was sent a lost packet is known to the sender: a
// round trip and δ, the wait for the next frame, one of which may be lost.
func reaction(env *scheme.Env) units.Duration {
	return loss.RTT(env) + 2*loss.Interval(env) + env.RTTVar
}

// fallback is how long after its last transmission a group is given up if nothing
// has been acknowledged: FTO.
func fallback(env *scheme.Env) units.Duration {
	return max(loss.RTT(env)*5/4+4*env.RTTVar+3*loss.Interval(env), 2*units.Millisecond)
}
