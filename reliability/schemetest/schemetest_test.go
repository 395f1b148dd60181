// SPDX-License-Identifier: Apache-2.0

package schemetest_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A broken scheme is sr with something wrong.
type broken struct {
	scheme.Scheme
	sender   func(scheme.Sender, *scheme.Env) scheme.Sender
	receiver func(scheme.Receiver, scheme.Transfer) scheme.Receiver
}

func (b broken) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := b.Scheme.NewSender(t, env)
	if err == nil && b.sender != nil {
		s = b.sender(s, env)
	}
	return s, err
}

func (b broken) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	r, err := b.Scheme.NewReceiver(t, env)
	if err == nil && b.receiver != nil {
		r = b.receiver(r, t)
	}
	return r, err
}

// pollSender is a sender whose Poll is replaced.
type pollSender struct {
	scheme.Sender
	poll func(now units.Instant, o *scheme.Output) (units.Instant, error)
}

func (s pollSender) Poll(now units.Instant, o *scheme.Output) (units.Instant, error) {
	return s.poll(now, o)
}

type pollReceiver struct {
	scheme.Receiver
	poll func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error)
}

func (r pollReceiver) Poll(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
	return r.poll(now, v, o)
}

func good() scheme.Scheme {
	s, err := sr.New(sr.Config{})
	if err != nil {
		panic(err)
	}
	return s
}

// spoil makes a scheme whose sender's output is changed.
func spoil(change func(env *scheme.Env, o *scheme.Output)) func() scheme.Scheme {
	return func() scheme.Scheme {
		return broken{Scheme: good(), sender: func(s scheme.Sender, env *scheme.Env) scheme.Sender {
			return pollSender{s, func(now units.Instant, o *scheme.Output) (units.Instant, error) {
				next, err := s.Poll(now, o)
				change(env, o)
				return next, err
			}}
		}}
	}
}

// without removes some sends.
func without(o *scheme.Output, bad func(scheme.Send) bool) {
	kept := o.Sends[:0]
	for _, s := range o.Sends {
		if !bad(s) {
			kept = append(kept, s)
		}
	}
	o.Sends = kept
}

// doneEarly is done when the last unit has arrived.
func doneEarly() scheme.Scheme {
	return broken{Scheme: good(), receiver: func(r scheme.Receiver, t scheme.Transfer) scheme.Receiver {
		return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
			next, done, err := r.Poll(now, v, o)
			return next, done || v.Has(scheme.Unit(t.Units-1)), err
		}}
	}}
}

// repeatingOnce gives up a unit that was repeated once.
func repeatingOnce() scheme.Scheme {
	repeated := map[scheme.Unit]bool{}
	return spoil(func(_ *scheme.Env, o *scheme.Output) {
		without(o, func(s scheme.Send) bool {
			again := s.Repeat && repeated[s.Unit]
			repeated[s.Unit] = repeated[s.Unit] || s.Repeat
			return again
		})
	})()
}

// reportingOnce never repeats a frame when nothing new has arrived.
func reportingOnce() scheme.Scheme {
	return broken{Scheme: good(), receiver: func(r scheme.Receiver, _ scheme.Transfer) scheme.Receiver {
		had := -1
		return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
			next, done, err := r.Poll(now, v, o)
			if len(o.Frame) > 0 {
				if n := v.NextMissing(0); n == had {
					o.Frame = o.Frame[:0]
					next = max(next, now.Add(units.Millisecond))
				} else {
					had = n
				}
			}
			return next, done, err
		}}
	}}
}

// strict accepts only the frame after the one before.
func strict() scheme.Scheme {
	return broken{Scheme: good(), sender: func(s scheme.Sender, _ *scheme.Env) scheme.Sender { return &strictSender{Sender: s} }}
}

type strictSender struct {
	scheme.Sender
	number uint64
}

func (s *strictSender) OnControl(now units.Instant, frame []byte) error {
	number, _ := binary.Uvarint(frame[1:]) // of an ACK (sr/ack.go)
	if s.number++; number != s.number {
		return fmt.Errorf("out of order: %d, want %d", number, s.number)
	}
	return s.Sender.OnControl(now, frame)
}

// The harness must notice each rule being broken.
func TestBrokenSchemesAreFound(t *testing.T) {
	never := rand.New(rand.NewPCG(1, 1))
	for name, test := range map[string]struct {
		make func() scheme.Scheme
		want string
		// one: the case is a single unit whose first transmission is lost.
		one bool
	}{
		"does not repeat": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			without(o, func(s scheme.Send) bool { return s.Repeat })
		}), "not done after", false},
		"ignores the window": {func() scheme.Scheme {
			return broken{Scheme: good(), sender: func(s scheme.Sender, _ *scheme.Env) scheme.Sender {
				return pollSender{s, func(now units.Instant, o *scheme.Output) (units.Instant, error) {
					o.Window = 1000
					return s.Poll(now, o)
				}}
			}}
		}, "outstanding with a window of", false},
		"ignores the budget": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			for range min(1, len(o.Sends)) {
				o.Sends = append(o.Sends, scheme.Send{Unit: o.Sends[0].Unit, Channel: 0, Repeat: true})
			}
		}), "with a budget of", false},
		"sends where there are no buffers": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			for i := range o.Sends {
				o.Sends[i].Unit++
			}
		}), "the receiver has buffers below", false},
		"does not mark repeats": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			for i := range o.Sends {
				o.Sends[i].Repeat = false
			}
		}), "Repeat is false", false},
		"sends parity that nobody encoded": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			for i := range o.Sends {
				o.Sends[i].Unit = scheme.Parity
			}
		}), "before it was encoded", false},
		"uses a channel that is not there": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			for i := range o.Sends {
				o.Sends[i].Channel = 99
			}
		}), "on channel 99", false},
		"makes frames too large": {func() scheme.Scheme {
			return broken{Scheme: good(), receiver: func(r scheme.Receiver, _ scheme.Transfer) scheme.Receiver {
				return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
					next, done, err := r.Poll(now, v, o)
					if len(o.Frame) > 0 {
						o.Frame = append(o.Frame, make([]byte, 2000)...)
					}
					return next, done, err
				}}
			}}
		}, "a frame of", false},
		"always wants to be called at once": {func() scheme.Scheme {
			return broken{Scheme: good(), sender: func(s scheme.Sender, _ *scheme.Env) scheme.Sender {
				return pollSender{s, func(now units.Instant, o *scheme.Output) (units.Instant, error) {
					_, err := s.Poll(now, o)
					return now, err
				}}
			}}
		}, "livelock", false},
		"asks to be called every nanosecond": {func() scheme.Scheme {
			return broken{Scheme: good(), receiver: func(r scheme.Receiver, _ scheme.Transfer) scheme.Receiver {
				return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
					_, done, err := r.Poll(now, v, o)
					return now + 1, done, err
				}}
			}}
		}, "busy loop", false},
		"sets no timer": {func() scheme.Scheme {
			return broken{Scheme: good(), sender: func(s scheme.Sender, _ *scheme.Env) scheme.Sender {
				return pollSender{s, func(now units.Instant, o *scheme.Output) (units.Instant, error) {
					_, err := s.Poll(now, o)
					return units.Never, err
				}}
			}}
		}, "not done after", true},
		"recovers from what is not there": {func() scheme.Scheme {
			return broken{Scheme: good(), receiver: func(r scheme.Receiver, _ scheme.Transfer) scheme.Receiver {
				return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
					o.Jobs = append(o.Jobs, scheme.Job{
						ID: never.Uint32(), Kind: scheme.Decode, Code: scheme.MDS, Data: []scheme.Unit{0, 1}, Rows: []int{0},
						Parity: []scheme.Unit{scheme.Parity}, Missing: []int{0},
					})
					return r.Poll(now, v, o)
				}}
			}}
		}, "job", false},
		"gives back parity that a job reads": {func() scheme.Scheme {
			coding, err := ec.New(ec.Config{Code: ec.XOR, K: 4, M: 1})
			require.NoError(t, err)
			return broken{Scheme: coding, receiver: func(r scheme.Receiver, t scheme.Transfer) scheme.Receiver {
				return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
					next, done, err := r.Poll(now, v, o)
					o.ParityFree = t.Units
					return next, done, err
				}}
			}}
		}, "which was given back", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := schemetest.Case{Seed: 1, Units: 100, Window: 20, ParityPool: 1, Link: schemetest.Link{Loss: 50_000}}
			if test.one {
				c = schemetest.Case{Seed: 1, Replay: true, Faults: []schemetest.Fault{{Kind: schemetest.Drop}}}
			}
			_, err := c.Run(test.make)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "seed 1")
		})
	}
}

// endedSender checks what comes after its end.
type endedSender struct {
	scheme.Sender
	t                   *testing.T
	completed, recycled bool
}

func (s *endedSender) OnControl(now units.Instant, frame []byte) error {
	require.False(s.t, s.completed, "a frame after the end")
	return s.Sender.OnControl(now, frame)
}

func (s *endedSender) OnCompleted(units.Instant) { s.completed = true }

func (s *endedSender) Recycle() {
	require.True(s.t, s.completed && !s.recycled)
	s.recycled = true
}

// A transfer ends as under a Conn: its sender is told, no frame that comes late reaches it, and it is recycled.
func TestTransfersEndAsUnderConn(t *testing.T) {
	var senders []*endedSender
	c := schemetest.Case{Seed: 1, Units: 20, Transfers: 5, Link: schemetest.Link{Duplicate: 300_000, ReorderBy: 20 * units.Millisecond}}
	_, err := c.Run(func() scheme.Scheme {
		return broken{Scheme: good(), sender: func(s scheme.Sender, _ *scheme.Env) scheme.Sender {
			senders = append(senders, &endedSender{Sender: s, t: t})
			return senders[len(senders)-1]
		}}
	})
	require.NoError(t, err)
	require.Len(t, senders, 5)
	for _, s := range senders {
		require.True(t, s.recycled)
	}
}

// A receiver that is done too early is reported, not failed: an unreliable scheme
// may.
func TestMissingUnitsAreCounted(t *testing.T) {
	r, err := schemetest.Case{Seed: 1, Units: 100}.Run(func() scheme.Scheme {
		return broken{Scheme: good(), receiver: func(r scheme.Receiver, _ scheme.Transfer) scheme.Receiver {
			return pollReceiver{r, func(now units.Instant, v scheme.View, o *scheme.Output) (units.Instant, bool, error) {
				return now + 1, v.NextMissing(0) >= 60, nil
			}}
		}}
	})
	require.NoError(t, err)
	require.Equal(t, 40, r.Missing)
}

// A failing case shrinks to what makes it fail: here, a scheme that never repeats
// unit 5, under heavy loss of everything.
func TestShrink(t *testing.T) {
	bad := spoil(func(_ *scheme.Env, o *scheme.Output) {
		without(o, func(s scheme.Send) bool { return s.Repeat && s.Unit == 5 })
	})
	// A seed with which unit 5 is lost.
	for seed := range uint64(100) {
		c := schemetest.Case{Seed: seed, Units: 200, Transfers: 1, Link: schemetest.Link{Loss: 100_000, ControlLoss: 100_000, Duplicate: 50_000}}
		if _, err := c.Run(bad); err == nil {
			continue
		}
		small, err := schemetest.Shrink(c, bad)
		require.ErrorContains(t, err, "not done after")
		require.LessOrEqual(t, small.Units, 6)
		require.Equal(t, []schemetest.Fault{{Kind: schemetest.Drop, Index: 5}}, small.Faults)
		require.Contains(t, small.Trace(), "drop unit 5 forward")
		return
	}
	t.Fatal("no seed loses unit 5")
}

// Schemes that go wrong rarely, in ways that a user's might, fail the suite, and a
// person can read what it takes.
func TestSuiteFindsMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		make func() scheme.Scheme
		want string
	}{
		"forgets the last unit": {spoil(func(env *scheme.Env, o *scheme.Output) {
			without(o, func(s scheme.Send) bool { return s.Repeat && int(s.Unit) == env.DataLimit-1 })
		}), "not done after"},
		"never repeats": {spoil(func(_ *scheme.Env, o *scheme.Output) {
			without(o, func(s scheme.Send) bool { return s.Repeat })
		}), "not done after"},
		"is done early":                          {doneEarly, "was done without"},
		"repeats only once":                      {repeatingOnce, "not done after"},
		"sends each report once":                 {reportingOnce, "not done after"},
		"depends on the order of control frames": {strict, "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			f := schemetest.Suite{New: test.make}.Check(1, 2, 3, 4, 5, 6, 7, 8)
			require.NotNil(t, f, "the suite passes")
			t.Log(f)
			require.ErrorContains(t, f, test.want)
			require.ErrorContains(t, f, "SCHEMETEST_SEED=")
			require.ErrorContains(t, f.SmallErr, test.want)
			require.LessOrEqual(t, f.Small.Units, 3, "units of the shrunk case")
			require.LessOrEqual(t, len(f.Small.Faults), 2, "faults of the shrunk case")
		})
	}
	require.Nil(t, schemetest.Suite{New: good}.Check(1, 2, 3))
}

func TestShrinkOfGoodCase(t *testing.T) {
	c := schemetest.Case{Seed: 1, Units: 10}
	same, err := schemetest.Shrink(c, good)
	require.NoError(t, err)
	require.Equal(t, c, same)
}

// The same case gives the same run, bit for bit, and another seed another.
func TestRunsRepeat(t *testing.T) {
	c := schemetest.Case{Seed: 1, Units: 300, Link: schemetest.Link{Loss: 20_000, Reorder: 20_000, ReorderBy: units.Millisecond}}
	a, err := c.Run(good)
	require.NoError(t, err)
	b, err := c.Run(good)
	require.NoError(t, err)
	require.Equal(t, a, b)
	c.Seed = 2
	other, err := c.Run(good)
	require.NoError(t, err)
	require.NotEqual(t, a.Digest, other.Digest)

	c.Replay, c.Faults = true, other.Faults
	again, err := c.Run(good)
	require.NoError(t, err)
	require.Equal(t, other.Digest, again.Digest, "a replay of the faults is the run again")
}

// Golden: losses are drawn as integers, so every platform draws these.
func TestDrawsArePortable(t *testing.T) {
	c := schemetest.Case{Seed: 42, Units: 500, Link: schemetest.Link{Loss: 10_000, Mean: 4}}
	r, err := c.Run(good)
	require.NoError(t, err)
	var index []int
	for _, f := range r.Faults[:5] {
		index = append(index, f.Index)
	}
	require.Equal(t, []int{376, 377, 378, 450, 451}, index)
}

// The network loses what it was asked to lose.
func TestLossRate(t *testing.T) {
	for _, mean := range []int{1, 4, 16} {
		lost, sent := 0, 0
		for seed := range uint64(40) {
			r, err := schemetest.Case{Seed: seed, Units: 5000, Link: schemetest.Link{Loss: 20_000, Mean: mean}}.Run(good)
			require.NoError(t, err)
			lost += len(r.Faults)
			sent += r.Injected
		}
		require.InEpsilon(t, 0.02, float64(lost)/float64(sent), 0.1, "bursts of %d", mean)
	}
}
