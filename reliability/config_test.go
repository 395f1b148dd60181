// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A named scheme has a name of its own.
type named struct {
	scheme.Scheme
	name string
}

func (n named) Name() string { return n.name }

// A bad configuration is refused, with an error that names the allowed range.
func TestBadConfigurationIsRefused(t *testing.T) {
	net, err := sim.New(sim.Config{})
	require.NoError(t, err)
	ctx, err := sdr.NewEndpoint(net.A(), sdr.EndpointConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, ctx.Close()) }()
	good := reliability.Config{Scheme: none.New()}
	for want, spoil := range map[string]func(*reliability.Config){
		"no scheme: give one":                                   func(c *reliability.Config) { c.Scheme = nil },
		"repair unit 1500: want a multiple of the MTU 1024":     func(c *reliability.Config) { c.Unit = 1500 },
		"repair unit 512: want a multiple of the MTU 1024":      func(c *reliability.Config) { c.Unit = 512 },
		"repair unit -1024: want a multiple of the MTU 1024":    func(c *reliability.Config) { c.Unit = -1024 },
		"message size 1500: want a multiple of the unit 1024":   func(c *reliability.Config) { c.MessageSize = 1500 },
		"message size 131072: want a multiple of the unit 1024": func(c *reliability.Config) { c.MessageSize = 128 * units.KiB },
		"message size -1024: want a multiple of the unit 1024":  func(c *reliability.Config) { c.MessageSize = -1024 },
		"window of -1 messages: want 1 to 512":                  func(c *reliability.Config) { c.Window = -1 },
		"window of 513 messages: want 1 to 512":                 func(c *reliability.Config) { c.Window = 513 },
		"rate -1: must not be negative":                         func(c *reliability.Config) { c.Rate = -1 },
		"progress limit 1ns: want at least 1 ms":                func(c *reliability.Config) { c.NoProgress = 1 },
		"progress limit -1ns: want at least 1 ms":               func(c *reliability.Config) { c.NoProgress = -1 },
		"parity pool -1: must not be negative":                  func(c *reliability.Config) { c.ParityPool = -1 },
		"a name of 33 bytes: want at most 32":                   func(c *reliability.Config) { c.Scheme = named{none.New(), strings.Repeat("x", 33)} },
		"decides by what switches write into packets":           func(c *reliability.Config) { c.Congestion.Name = "hpcc" },
		"decides by the mark of each packet":                    func(c *reliability.Config) { c.Congestion.Name = "nscc" },
		"makes no controller": func(c *reliability.Config) {
			c.Congestion.New = func(congestion.Path) congestion.Controller { return nil }
		},
		"begins at the line rate": func(c *reliability.Config) { c.Congestion.Name, c.Rate = "dcqcn", 0 },
	} {
		c := good
		spoil(&c)
		_, err := reliability.NewConn(ctx, sdr.QPConfig{MTU: 1024, MaxMessage: 64 * units.KiB}, c)
		require.ErrorIs(t, err, sdr.ErrArgument, want)
		require.ErrorContains(t, err, want)
	}
	// Zero asks for a default, and is never used as it is.
	conn, err := reliability.NewConn(ctx, sdr.QPConfig{}, good)
	require.NoError(t, err)
	c, q := conn.Config(), conn.QP().Config()
	require.Equal(t, q.MTU, c.Unit)
	require.Positive(t, c.MessageSize)
	require.Positive(t, c.Window)
	require.Positive(t, c.NoProgress)
	require.Positive(t, c.ParityPool)
	require.NotNil(t, c.Logger)
	// What differs at the other end is named by what its user may have set.
	for want, other := range map[string]sdr.QPConfig{"by default the MTU, is 1048576 here and 1024 at the peer": {MTU: 1024}, "or the largest message": {MaxMessage: units.MiB}} {
		peer, err := reliability.NewConn(ctx, other, good)
		require.NoError(t, err)
		err = conn.StartConnect(peer.Info())
		require.ErrorIs(t, err, sdr.ErrMismatch)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, conn.Close())
}

// TestLongestProgressLimit: a limit that is never reached wakes nobody.
func TestLongestProgressLimit(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO), conn: reliability.Config{NoProgress: math.MaxInt64}})
	p.one(100*units.KiB, 100*units.KiB)
}

// A wordy scheme announces more than START has room for.
type wordy struct{ scheme.Scheme }

type wordySender struct{ scheme.Sender }

func (w wordy) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := w.Scheme.NewSender(t, env)
	return wordySender{s}, err
}

func (wordySender) Params() []byte { return make([]byte, 65) }

// TestLongParamsAreRefused: the Send fails, and says why; the peer would not understand its START.
func TestLongParamsAreRefused(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: func() scheme.Scheme { return wordy{newSR(t, sr.RTO)()} }})
	s, r := p.begin(p.mr(0, 100, 1), 100, p.mr(1, 100, 0), 100)
	p.until(units.Second, func() bool { return finished(r) && finished(s) })
	require.ErrorIs(t, s.Err(), sdr.ErrTooLong)
	require.ErrorContains(t, s.Err(), "65 bytes")
	require.ErrorIs(t, r.Err(), sdr.ErrAborted)
}

// A unable scheme can't make a half, and returns a nil one of a type of its own with the reason, as a function does that returns what
// another one returns.
type unable struct {
	scheme.Scheme
	err error
}

type nilSender struct{ scheme.Sender }

type nilReceiver struct{ scheme.Receiver }

func (u unable) NewSender(scheme.Transfer, *scheme.Env) (scheme.Sender, error) {
	return (*nilSender)(nil), u.err
}

func (u unable) NewReceiver(scheme.Transfer, *scheme.Env) (scheme.Receiver, error) {
	return (*nilReceiver)(nil), u.err
}

// TestSchemeWithoutHalf: the reason is what the transfer fails with, and the half is not used.
func TestSchemeWithoutHalf(t *testing.T) {
	reason := errors.New("no half")
	good := newSR(t, sr.RTO)
	for side, name := range []string{"sender", "receiver"} {
		t.Run(name, func(t *testing.T) {
			made := 0
			p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: func() scheme.Scheme {
				if made++; made-1 == side {
					return unable{good(), reason}
				}
				return good()
			}})
			s, r := p.begin(p.mr(0, 100, 1), 100, p.mr(1, 100, 0), 100)
			p.until(units.Second, func() bool { return finished(r) && finished(s) })
			require.ErrorIs(t, []*reliability.Transfer{s, r}[side].Err(), reason)
			require.Error(t, []*reliability.Transfer{r, s}[side].Err())
		})
	}
}

// A wild scheme's sender asks for what it may not, once it may send anything.
type wild struct {
	scheme.Scheme
	ask func(t scheme.Transfer, env *scheme.Env, out *scheme.Output)
}

type wildSender struct {
	scheme.Sender
	wild
	t   scheme.Transfer
	env *scheme.Env
}

func (w wild) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := w.Scheme.NewSender(t, env)
	return wildSender{s, w, t, env}, err
}

func (w wildSender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	if out.Budget > 0 {
		w.ask(w.t, w.env, out)
		return units.Never, nil
	}
	return w.Sender.Poll(now, out)
}

// TestWildSender: a scheme that breaks the rules of package scheme is told which, at once: what it asks for would else be as if it had got lost, and the
// transfer stand still.
func TestWildSender(t *testing.T) {
	sends := func(s ...scheme.Send) func(scheme.Transfer, *scheme.Env, *scheme.Output) {
		return func(_ scheme.Transfer, _ *scheme.Env, out *scheme.Output) { out.Sends = append(out.Sends, s...) }
	}
	for _, c := range []struct {
		says string
		ask  func(t scheme.Transfer, env *scheme.Env, out *scheme.Output)
	}{
		{"data unit 5, and the receiver has posted buffers for 5", sends(scheme.Send{Unit: 5, Channel: scheme.HomeChannel})},
		{"data unit 1073741823", sends(scheme.Send{Unit: scheme.Probe - 1, Channel: scheme.HomeChannel})},
		{"parity unit 3, and the receiver has posted buffers for 0", sends(scheme.Send{Unit: scheme.Parity | 3, Channel: scheme.HomeChannel})},
		{"channel 2, and there are 2", sends(scheme.Send{Channel: 2})},
		{"channel -2, and there are 2", sends(scheme.Send{Channel: -2})},
		{"a job on data unit 5, and there are 5", func(_ scheme.Transfer, _ *scheme.Env, out *scheme.Output) {
			out.Jobs = append(out.Jobs, scheme.Job{Kind: scheme.Encode, Code: scheme.MDS, Data: []scheme.Unit{5}, Rows: []int{0}})
		}},
		{"units where its budget allows", func(_ scheme.Transfer, _ *scheme.Env, out *scheme.Output) {
			out.Sends = append(out.Sends, make([]scheme.Send, out.Budget+1)...)
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: func() scheme.Scheme { return wild{newSR(t, sr.NACK)(), c.ask} }})
			s, r := p.begin(p.mr(0, 5000, 1), 5000, p.mr(1, 5000, 0), 5000)
			p.until(units.Second, func() bool { return finished(r) && finished(s) })
			require.ErrorIs(t, s.Err(), sdr.ErrArgument)
			require.ErrorContains(t, s.Err(), "scheme sr-nack asks for ")
			require.ErrorContains(t, s.Err(), c.says)
			require.ErrorIs(t, r.Err(), sdr.ErrAborted)
		})
	}
}

// A wildReceiver asks for a job as soon as it may.
type wildReceiver struct {
	scheme.Scheme
	scheme.Receiver
	job scheme.Job
}

func (w wildReceiver) NewReceiver(t scheme.Transfer, env *scheme.Env) (r scheme.Receiver, err error) {
	w.Receiver, err = w.Scheme.NewReceiver(t, env)
	return w, err
}

func (w wildReceiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	out.Jobs = append(out.Jobs, w.job)
	return w.Receiver.Poll(now, v, out)
}

// TestWildReceiver: what it would have decoded isn't its transfer's memory.
func TestWildReceiver(t *testing.T) {
	for says, job := range map[string]scheme.Job{
		"a job on data unit 5, and there are 5":        {Kind: scheme.Decode, Code: scheme.MDS, Data: []scheme.Unit{5}, Missing: []int{0}},
		"a job whose unit 1 is missing, and it has 1":  {Kind: scheme.Decode, Code: scheme.MDS, Data: []scheme.Unit{0}, Missing: []int{1}},
		"a job whose unit -1 is missing, and it has 1": {Kind: scheme.Decode, Code: scheme.MDS, Data: []scheme.Unit{0}, Missing: []int{-1}},
	} {
		t.Run(says, func(t *testing.T) {
			p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: func() scheme.Scheme { return wildReceiver{Scheme: newSR(t, sr.NACK)(), job: job} }})
			s, r := p.begin(p.mr(0, 5000, 1), 5000, p.mr(1, 10000, 0), 5000)
			p.until(units.Second, func() bool { return finished(r) && finished(s) })
			require.ErrorIs(t, r.Err(), sdr.ErrArgument)
			require.ErrorContains(t, r.Err(), says)
			require.ErrorIs(t, s.Err(), sdr.ErrCompleted)
		})
	}
}

// A verbose scheme's halves make one frame that is longer than they may by so many bytes.
type verbose struct {
	scheme.Scheme
	sender, receiver, reliable int
}

func (v verbose) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := v.Scheme.NewSender(t, env)
	return verboseSender{s, v, env}, err
}

func (v verbose) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	r, err := v.Scheme.NewReceiver(t, env)
	return verboseReceiver{r, v, env}, err
}

type verboseSender struct {
	scheme.Sender
	verbose
	env *scheme.Env
}

func (v verboseSender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	next, err := v.Sender.Poll(now, out)
	if v.sender > 0 {
		out.Frame = append(out.Frame[:0], make([]byte, v.env.MaxFrame+v.sender)...)
	}
	if v.reliable > 0 {
		out.Reliable = append(out.Reliable[:0], make([]byte, v.env.MaxFrame+v.reliable)...)
	}
	return next, err
}

type verboseReceiver struct {
	scheme.Receiver
	verbose
	env *scheme.Env
}

func (v verboseReceiver) Poll(now units.Instant, view scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	next, done, err := v.Receiver.Poll(now, view, out)
	if v.receiver > 0 {
		out.Frame = append(out.Frame[:0], make([]byte, v.env.MaxFrame+v.receiver)...)
	}
	return next, done, err
}

// TestLongFrame: a frame that no datagram carries ends its transfer, at both ends at once and with what the limit is, and nothing else.
func TestLongFrame(t *testing.T) {
	for name, v := range map[string]verbose{"receiver": {receiver: 1}, "sender": {sender: 1}, "reliable": {reliable: 1}, "far": {receiver: 5000}} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: func() scheme.Scheme {
				v.Scheme = newSR(t, sr.RTO)()
				return v
			}})
			s, r := p.begin(p.mr(0, 5000, 1), 5000, p.mr(1, 5000, 0), 5000)
			p.until(units.Second, func() bool { return finished(r) && finished(s) })
			own, peer, given := r, s, sdr.ErrCompleted
			if v.receiver == 0 {
				own, peer, given = s, r, sdr.ErrAborted
			}
			require.ErrorIs(t, own.Err(), sdr.ErrTooLong)
			require.Regexp(t, `scheme sr made a frame of \d+ bytes: want at most Env.MaxFrame, \d+$`, own.Err().Error())
			require.ErrorIs(t, peer.Err(), given)
			require.ErrorIs(t, peer.Err(), sdr.ErrTooLong)
			require.Regexp(t, `the peer's half of the scheme made a frame longer than Env.MaxFrame, \d+ bytes here$`, peer.Err().Error())
			for i := range 2 {
				require.NoError(t, p.conn[i].QP().Err())
			}
		})
	}
}

// An empty scheme makes no halves, and no error.
type empty struct{ scheme.Scheme }

func (empty) NewSender(scheme.Transfer, *scheme.Env) (scheme.Sender, error)     { return nil, nil }
func (empty) NewReceiver(scheme.Transfer, *scheme.Env) (scheme.Receiver, error) { return nil, nil }

// TestSchemeWithNilHalf: that is an error, too.
func TestSchemeWithNilHalf(t *testing.T) {
	good := newSR(t, sr.RTO)
	for side, says := range []string{"scheme sr made no sender", "scheme sr made no receiver"} {
		made := 0
		p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: func() scheme.Scheme {
			if made++; made-1 == side {
				return empty{good()}
			}
			return good()
		}})
		s, r := p.begin(p.mr(0, 100, 1), 100, p.mr(1, 100, 0), 100)
		p.until(units.Second, func() bool { return finished(r) && finished(s) })
		require.ErrorContains(t, []*reliability.Transfer{s, r}[side].Err(), says)
	}
}
