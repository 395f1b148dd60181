// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// hasBudgetAt is when the pacer of a direction will next let a unit go.
func (w *world) hasBudgetAt(back bool) units.Instant {
	return max(w.now, w.paced[index(back)]-units.Instant(w.each)*units.Instant(w.c.Burst-1))
}

// budget is how many units may go now.
func (w *world) budget(back bool) int {
	ahead := max(0, w.paced[index(back)].Sub(w.now))
	return max(0, w.c.Burst-int((ahead+w.each-1)/w.each))
}

// spend takes one unit from the budget.
func (w *world) spend(t *transfer, u scheme.Unit) {
	if u.IsProbe() {
		return
	}
	p := &w.paced[index(t.back)]
	*p = max(*p, w.now).Add(w.c.Rate.Time(t.info.UnitLen(u)))
}

// again counts how often a half is polled at one instant.
func (t *transfer) again(w *world) bool {
	if t.polledAt != w.now {
		t.polledAt, t.polls = w.now, 0
	}
	t.polls++
	if t.polls > maxPolls {
		w.fail("livelock: transfer %d was polled %d times at one instant", t.info.ID, maxPolls)
	}
	return w.err == nil
}

func (t *transfer) pollSender(w *world) {
	if t.touched {
		t.senderIdle = 0
	}
	t.touched = false
	for t.again(w) {
		o := &t.out
		o.Reset()
		o.Budget, o.Window, o.ReliableBusy = w.budget(t.back), w.c.Window, t.offered != nil
		next, err := t.sender.Poll(w.clock(), o)
		if err != nil {
			w.check(t, err)
			return
		}
		t.senderNext, t.hungry = own(next), len(o.Sends) >= o.Budget
		t.inject(w)
		t.startJobs(w, true)
		if len(o.Frame) == 0 && len(o.Reliable) == 0 {
			t.checkNext(w, next, &t.senderIdle)
			return
		}
		t.senderIdle = 0
		if len(o.Reliable) > 0 {
			t.offer(w)
		}
		if len(o.Frame) > 0 {
			t.emit(w, false)
		}
	}
}

// inject checks and sends what the sender wants sent.
func (t *transfer) inject(w *world) {
	o := &t.out
	if len(o.Sends) > o.Budget {
		w.fail("%d units sent with a budget of %d", len(o.Sends), o.Budget)
	}
	t.sentNow = t.sentNow[:0]
	grew := false
	for _, s := range o.Sends {
		first := t.checkSend(w, s)
		if w.err != nil {
			return
		}
		grew = grew || first
		channel := s.Channel
		if channel == scheme.HomeChannel {
			channel = s.Unit.Index() / w.c.Spread % w.c.Channels
		}
		t.sentNow = append(t.sentNow, scheme.Sent{Unit: s.Unit, Channel: channel})
		w.spend(t, s.Unit)
		w.launch(t, s.Unit, channel)
	}
	if len(t.sentNow) > 0 {
		t.sender.OnSent(w.clock(), t.sentNow)
	}
	if n := t.sender.Outstanding(); grew && n > w.c.Window || n < 0 {
		w.fail("%d units outstanding with a window of %d", n, w.c.Window)
	}
}

// checkSend reports whether s is a first transmission of a data unit.
func (t *transfer) checkSend(w *world, s scheme.Send) (first bool) {
	i := s.Unit.Index()
	switch {
	case s.Channel >= w.c.Channels || s.Channel < scheme.HomeChannel:
		w.fail("unit %d sent on channel %d of %d", i, s.Channel, w.c.Channels)
	case s.Unit.IsProbe():
		w.result.Probes++
		if i >= scheme.Probes || s.Channel == scheme.HomeChannel {
			w.fail("probe %d sent on channel %d", i, s.Channel)
		}
		return false
	case s.Unit.IsParity():
		w.result.Injected++
		if i >= t.senderEnv.ParityLimit {
			w.fail("parity unit %d sent, but the receiver has buffers below %d", i, t.senderEnv.ParityLimit)
		}
		if !t.codes.isEncoded(s.Unit) {
			w.fail("parity unit %d sent before it was encoded", i)
		}
		return false
	case i >= t.info.Units || i >= t.senderEnv.DataLimit:
		w.fail("unit %d sent, but the receiver has buffers below %d", i, t.senderEnv.DataLimit)
		return false
	}
	w.result.Injected++
	first = !t.wasSent.has(i)
	t.wasSent.set(i)
	if s.Repeat == first {
		w.fail("unit %d: Repeat is %t, but first transmission is %t", i, s.Repeat, first)
	}
	return first
}

// launch gives a packet to the network.
func (w *world) launch(t *transfer, u scheme.Unit, channel int) {
	w.digest.add(uint64(w.now), t.info.ID, uint64(u), uint64(channel))
	// The network has a packet when its last byte has been sent.
	departs := max(w.now, w.paced[index(t.back)])
	at, n := w.net.arrivals(departs, packet{back: t.back, channel: channel, empty: u.IsProbe()})
	for _, at := range at[:n] {
		w.events.push(at, event{kind: unitArrives, transfer: int(t.info.ID), unit: u, channel: channel})
	}
}

// emit sends the frame that a half made.
func (t *transfer) emit(w *world, toSender bool) {
	if len(t.out.Frame) > w.c.MaxFrame {
		w.fail("a frame of %d bytes, but at most %d are allowed", len(t.out.Frame), w.c.MaxFrame)
		return
	}
	w.control(t, t.out.Frame, toSender)
}

func (t *transfer) pollReceiver(w *world) {
	if t.receiverTouched {
		t.receiverIdle = 0
	}
	t.receiverTouched = false
	for t.again(w) {
		o := &t.out
		o.Reset()
		next, done, err := t.receiver.Poll(w.clock(), t, o)
		if err != nil {
			w.check(t, err)
			return
		}
		t.receiverNext = own(next)
		t.startJobs(w, false)
		t.grant(w)
		if done {
			t.received = true
			w.result.Missing += t.info.Units - t.have()
			w.events.push(w.now.Add(w.net.delay(w.now)), event{kind: transferDone, transfer: int(t.info.ID)})
			return
		}
		if len(o.Frame) == 0 {
			t.checkNext(w, next, &t.receiverIdle)
			return
		}
		t.receiverIdle = 0
		t.emit(w, true)
	}
}

// checkNext refuses a core that did nothing and wants to be called again at once, or that
// asks again and again to be called soon. idle counts how often it did nothing in a row.
func (t *transfer) checkNext(w *world, next units.Instant, idle *int) {
	if len(t.out.Sends) > 0 || len(t.out.Jobs) > 0 {
		*idle = 0
		return
	}
	if own(next) <= w.now {
		w.fail("transfer %d: livelock: a core did nothing, but asks to be called again at once", t.info.ID)
	}
	if *idle++; *idle > maxIdlePolls {
		w.fail("transfer %d: busy loop: a core asked %d times to be called, and did nothing each time", t.info.ID, maxIdlePolls)
	}
}

// grant informs the sender of buffers that have become free.
func (t *transfer) grant(w *world) {
	at := w.now.Add(w.net.delay(w.now))
	if w.c.Slots > 0 {
		if to := min(t.NextMissing(0)+w.c.Slots, t.info.Units); to > t.grantedTo {
			t.grantedTo = to
			w.events.push(at, event{kind: dataGranted, transfer: int(t.info.ID), order: uint64(to)})
		}
	}
	if t.out.ParityFree > t.parityFreed {
		t.parityFreed = t.out.ParityFree
		w.events.push(at, event{kind: parityGranted, transfer: int(t.info.ID), order: uint64(t.parityFreed + w.c.ParityPool)})
	}
	t.checkFreed(w)
}
