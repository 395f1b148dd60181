// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// objects is one of each kind of object on side 1, and what else a call may need.
type objects struct {
	s      *sockets
	dev    *stuckDevice
	qp     *sdr.QP
	peer   sdr.Info
	mr     *sdr.MR
	recv   *sdr.RecvHandle
	send   *sdr.SendHandle
	stream *sdr.SendStream
	// driver is the queue pair's, nil if it has none.
	driver *caller
}

// newObjects makes them, with a driver or without, up to a state of the queue pair.
func newObjects(t *testing.T, driven, connect bool) *objects {
	s, dev := newStuck(t, 2)
	o := &objects{s: s, dev: dev, mr: s.mr(t, 1, units.MiB)}
	var q [2]*sdr.QP
	var driver sdr.Driver
	if driven {
		o.driver = newCaller()
		driver = o.driver
	}
	for i, d := range []sdr.Driver{nil, driver} {
		var err error
		q[i], err = s.ctx[i].NewQP(sdr.QPConfig{MTU: 1024, Chunk: 1024, Silence: 20 * units.Second, Driver: d})
		require.NoError(t, err)
	}
	o.qp, o.peer = q[1], q[0].Info()
	if !connect {
		return o
	}
	require.NoError(t, q[0].StartConnect(q[1].Info()))
	require.NoError(t, q[1].StartConnect(q[0].Info()))
	eventually(t, "connected", func() bool { ok, err := q[1].Connected(); require.NoError(t, err); return ok })
	const length = 512 * units.KiB // indices up to 3 are in range everywhere
	if driven {
		o.open(t, s.mr(t, 0, 4096), q[0], length)
	} else {
		r, err := o.qp.PostRecv(o.mr, 0, length)
		require.NoError(t, err)
		o.recv = &r
		h, err := o.qp.PostSend(o.mr, 0, 4096, sdr.SendOptions{HasImm: true})
		require.NoError(t, err)
		st, err := o.qp.StartStream(o.mr, 0, 4096, sdr.SendOptions{})
		require.NoError(t, err)
		o.send, o.stream = &h, &st
		peer := s.mr(t, 0, 4096)
		_, err = q[0].PostRecv(peer, 0, 4096)
		require.NoError(t, err)
		_, err = q[0].PostSend(peer, 0, 4096, sdr.SendOptions{})
		require.NoError(t, err)
	}
	return o
}

// open posts a receive of so many bytes and opens a message that the peer grants.
func (o *objects) open(t *testing.T, mr *sdr.MR, peer *sdr.QP, length units.Bytes) {
	_, err := peer.PostRecv(mr, 0, 4096)
	require.NoError(t, err)
	eventually(t, "opened", func() bool {
		require.True(t, o.driver.do(o.qp, func(p *sdr.Port) {
			if o.recv == nil {
				r, err := p.PostRecv(o.mr, 0, length, sdr.RecvOptions{})
				require.NoError(t, err)
				o.recv = &r
			}
			if st, err := p.OpenGranted(1, o.mr, 0, 4096); err == nil {
				o.stream = &st
			}
		}))
		return o.stream != nil
	})
}

// stick keeps fences from coming down for the time that Close waits for them, and a little longer.
func (o *objects) stick() {
	o.dev.stuck.Store(true)
	time.AfterFunc(1100*time.Millisecond, func() { o.dev.stuck.Store(false) })
}

// all are the objects whose methods are called.
func (o *objects) all() []any {
	all := []any{o.s.ctx[1], o.qp, o.mr}
	if o.recv != nil {
		all = append(all, *o.recv, o.recv.Bitmap())
		if p, err := o.recv.Packets(); err == nil {
			all = append(all, p)
		}
	}
	if o.send != nil {
		all = append(all, *o.send)
	}
	if o.stream != nil {
		all = append(all, *o.stream)
	}
	return all
}

// argument is a value of type t to call a method with.
func (o *objects) argument(t *testing.T, rng *rand.Rand, typ reflect.Type) reflect.Value {
	pick := func(v ...any) reflect.Value { return reflect.ValueOf(v[rng.IntN(len(v))]) }
	switch typ {
	case reflect.TypeFor[context.Context]():
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(3))*time.Millisecond)
		t.Cleanup(cancel)
		return reflect.ValueOf(ctx)
	case reflect.TypeFor[sdr.Info]():
		return pick(o.peer, sdr.Info(nil))
	case reflect.TypeFor[*sdr.MR]():
		return pick(o.mr, (*sdr.MR)(nil))
	case reflect.TypeFor[error]():
		return reflect.ValueOf(sdr.ErrPeerDead)
	case reflect.TypeFor[any]():
		return pick("one", "another")
	case reflect.TypeFor[func() any]():
		return reflect.ValueOf(func() any { return new(int) })
	case reflect.TypeFor[<-chan struct{}]():
		never, ended := make(chan struct{}), make(chan struct{})
		close(ended)
		return pick((<-chan struct{})(never), (<-chan struct{})(ended), (<-chan struct{})(nil))
	case reflect.TypeFor[units.Instant]():
		return reflect.ValueOf(o.s.dev[1].Now())
	case reflect.TypeFor[sdr.RecvHandle]():
		return reflect.ValueOf(*o.recv)
	case reflect.TypeFor[sdr.SendStream]():
		return reflect.ValueOf(*o.stream)
	case reflect.TypeFor[units.Bytes]():
		return pick(units.Bytes(0), units.Bytes(1024), units.Bytes(4096), units.Bytes(-1), units.GiB)
	case reflect.TypeFor[sdr.Access]():
		return pick(sdr.Access(0), sdr.AccessRemoteWrite)
	case reflect.TypeFor[[]byte]():
		return pick([]byte(nil), make([]byte, 100))
	case reflect.TypeFor[sdr.SendOptions]():
		return pick(sdr.SendOptions{}, sdr.SendOptions{HasImm: true, Imm: 7})
	case reflect.TypeFor[sdr.RecvOptions]():
		return pick(sdr.RecvOptions{}, sdr.RecvOptions{Arrivals: sdr.NewArrivals(4)})
	case reflect.TypeFor[sdr.QPConfig]():
		return pick(sdr.QPConfig{}, sdr.QPConfig{MTU: 7})
	}
	switch typ.Kind() {
	case reflect.Int, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return pick(0, 1, 3).Convert(typ)
	case reflect.Bool:
		return pick(true, false)
	}
	t.Fatalf("give a method with a parameter of type %v something to be called with", typ)
	return reflect.Value{}
}

// closers are the methods that bring their object into another state; they are called last.
var closers = []string{"*sdr.Port.Fail", "*sdr.Port.End", "*sdr.Port.Complete", "*sdr.Endpoint.Close", "*sdr.QP.Close", "*sdr.QP.Fail", "*sdr.MR.Close", "sdr.RecvHandle.Complete", "sdr.SendStream.End"}

// forTests are methods of export_test.go.
var forTests = []string{
	"*sdr.QP.Held", "*sdr.QP.Frontier", "*sdr.QP.HomeChannel", "*sdr.QP.StateName", "sdr.SendHandle.StateName", "sdr.SendStream.StateName", "sdr.RecvHandle.StateName", "*sdr.QP.ReceiveFrames", "*sdr.QP.AwaitedBy", "*sdr.QP.ServedCaller", "*sdr.QP.WaitsFor", "*sdr.QP.Check", "*sdr.Endpoint.CheckIdle", "*sdr.Endpoint.Slabs",
	"*sdr.MR.Refs", "sdr.RecvHandle.PublishPackets", "sdr.RecvHandle.Outcome",
}

// paired are methods that must be called as often as each other.
var paired = []string{"*sdr.MR.Hold", "*sdr.MR.Release"}

// inProgress is a method of the Port as a function that calls it in Progress.
func (o *objects) inProgress(t *testing.T, m reflect.Method) reflect.Value {
	var in []reflect.Type
	for i := 1; i < m.Type.NumIn(); i++ {
		in = append(in, m.Type.In(i))
	}
	return reflect.MakeFunc(reflect.FuncOf(in, nil, false), func(args []reflect.Value) []reflect.Value {
		o.driver.do(o.qp, func(p *sdr.Port) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s(%v) panics: %v", m.Name, args, p)
				}
			}()
			m.Func.Call(append([]reflect.Value{reflect.ValueOf(p)}, args...))
		})
		return nil
	})
}

// callAll calls every exported method of every object a few times, those in closers at last.
func (o *objects) callAll(t *testing.T, rng *rand.Rand) (called int) {
	type call struct {
		name string
		f    reflect.Value
	}
	var calls, closing []call
	for _, x := range o.all() {
		v := reflect.ValueOf(x)
		for i := range v.NumMethod() {
			c := call{v.Type().String() + "." + v.Type().Method(i).Name, v.Method(i)}
			if slices.Contains(forTests, c.name) || slices.Contains(paired, c.name) {
				continue
			}
			if slices.Contains(closers, c.name) {
				closing = append(closing, c)
				continue
			}
			for range 3 {
				calls = append(calls, c)
			}
		}
	}
	if o.recv != nil && o.driver != nil {
		typ := reflect.TypeFor[*sdr.Port]()
		for i := range typ.NumMethod() {
			c := call{typ.String() + "." + typ.Method(i).Name, o.inProgress(t, typ.Method(i))}
			if slices.Contains(closers, c.name) {
				closing = append(closing, c)
			} else {
				calls = append(calls, c, c, c)
			}
		}
	}
	rng.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	rng.Shuffle(len(closing), func(i, j int) { closing[i], closing[j] = closing[j], closing[i] })
	for _, c := range append(append(calls, closing...), calls...) {
		var args []reflect.Value
		for i := range c.f.Type().NumIn() {
			args = append(args, o.argument(t, rng, c.f.Type().In(i)))
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s(%v) panics: %v", c.name, args, p)
				}
			}()
			c.f.Call(args)
		}()
		called++
	}
	return called
}

// TestEveryCallInEveryState calls every exported method of every object in every state of its life, from
// two goroutines: none panics, none hangs, and the race detector is content.
func TestEveryCallInEveryState(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	states := []struct {
		name    string
		connect bool
		enter   func(o *objects) error
	}{
		{"unconnected", false, nil},
		{"connecting", false, func(o *objects) error { return o.qp.StartConnect(o.peer) }},
		{"ready", true, nil},
		{"completed", true, func(o *objects) error { return o.recv.Complete() }},
		{"failed", true, func(o *objects) error { o.qp.Fail(sdr.ErrPeerDead); return nil }},
		{"closed", true, func(o *objects) error { return o.qp.Close() }},
		{"closed unconnected", false, func(o *objects) error { return o.qp.Close() }},
		{"endpoint closed", true, func(o *objects) error { return o.s.ctx[1].Close() }},
		{"endpoint closed unconnected", false, func(o *objects) error { return o.s.ctx[1].Close() }},
		{"failed, fence not down", true, func(o *objects) error { o.stick(); o.qp.Fail(sdr.ErrPeerDead); return nil }},
		{"closed, fence not down", true, func(o *objects) error { o.stick(); _ = o.qp.Close(); return nil }},
		{"device closed", true, func(o *objects) error { return o.s.dev[1].Close() }},
		{"all closed", true, func(o *objects) error { return errors.Join(o.s.ctx[1].Close(), o.s.dev[1].Close()) }},
	}
	for _, driven := range []bool{false, true} {
		for k, st := range states {
			if driven && strings.Contains(st.name, "fence") {
				continue // takes a second
			}
			t.Run(fmt.Sprintf("%s, driver %t", st.name, driven), func(t *testing.T) {
				o := newObjects(t, driven, st.connect)
				if st.enter != nil {
					require.NoError(t, st.enter(o))
				}
				var wg sync.WaitGroup
				for g := range 2 {
					wg.Go(func() {
						n := o.callAll(t, rand.New(rand.NewPCG(seed, uint64(2*k+g))))
						if n < 100 {
							t.Errorf("%d calls only", n)
						}
					})
				}
				done := make(chan struct{})
				go func() { wg.Wait(); close(done) }()
				select {
				case <-done:
				case <-time.After(30 * time.Second):
					t.Fatalf("hangs, with seed %d", seed)
				}
				o.s.close(t)
				require.NoError(t, o.mr.Close(), "references are left")
			})
		}
	}
}
