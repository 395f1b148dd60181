// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/internal/spare"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// An incoming is the receiving half of a Conn.
type incoming struct {
	*link
	direction
	parity paritySpace
	room   room
	// out is what a core is polled with.
	out scheme.Output

	// transfers are in the order of their IDs. The first polled of them are polled in each Progress: all that follow wait for START, and nothing is to
	// be done for them but to look, at lookAt, whether packets have come without; looks: that is now.
	transfers []*recvTransfer
	polled    int
	lookAt    units.Instant
	looks     bool
	// spare are transfers that have ended, for their memory.
	spare spare.List[recvTransfer]
	// messages are those whose fence is not down yet, by sequence.
	messages map[uint64]*recvMessage
	// gainedAt is when any transfer gained: one that waits for its turn behind others
	// has not stopped.
	gainedAt units.Instant
	// nothing is memory for what is posted in place of receives that were withdrawn, made when the first one is posted, and withdrawn how many of
	// those have not ended.
	nothing   *sdr.MR
	withdrawn int
}

func (in *incoming) init(l *link) {
	in.link = l
	in.parity.link = l
	in.out.Frame = make([]byte, 0, 4096)
	in.out.Jobs = make([]scheme.Job, 0, 16)
	in.messages = map[uint64]*recvMessage{}
	in.lookAt = units.Never
}

// start begins a transfer.
func (in *incoming) start(t *Transfer, mr *sdr.MR, off, length units.Bytes) {
	r := in.take()
	*r = recvTransfer{
		in: in, t: t, id: in.nextID, mr: mr, off: off, length: length,
		arrivals: r.arrivals, view: view{t: r, marks: r.view.marks}, frame: r.frame,
		wanted: in.layout.messages(length), parityWanted: in.parityMessages(in.units(length)),
	}
	if r.wanted <= len(r.single) {
		r.data = r.single[:r.wanted]
	} else {
		r.data = make([]*recvMessage, r.wanted)
	}
	in.nextID++
	in.transfers = append(in.transfers, r)
	in.lookAt = min(in.lookAt, t.begun.Add(in.lookEvery()))
	in.book(r)
}

// lookEvery is how often receives that wait for START are looked at.
func (in *incoming) lookEvery() units.Duration { return in.cfg.NoProgress / 4 }

// reach has t polled, for which there is, or soon will be, more to do than to look whether packets have come.
func (in *incoming) reach(t *recvTransfer) {
	if i, ok := slices.BinarySearchFunc(in.transfers, t.id, byID); ok {
		in.polled = max(in.polled, i+1)
	}
}

// take is memory for a transfer, with what all of them need.
func (in *incoming) take() (r *recvTransfer) {
	if r = in.spare.Take(); r != nil {
		r.arrivals.Reset()
		clear(r.view.marks)
		return r
	}
	r = &recvTransfer{arrivals: sdr.NewArrivals(in.qcfg.Channels)}
	r.view.marks = make([]channelMark, in.qcfg.Channels)
	return r
}

// recycle keeps the memory of t, which has ended: all its fences are down, so nobody marks its arrivals any more. Nothing refers
// to it but transfers, which progress is about to take it out of.
func (in *incoming) recycle(t *recvTransfer) {
	*t = recvTransfer{
		id: t.id, state: t.state, arrivals: t.arrivals, view: view{marks: t.view.marks}, frame: t.frame[:0],
	}
	in.spare.Put(t)
}

// byID compares for the order of transfers.
func byID(t *recvTransfer, id uint64) int { return int(int64(t.id - id)) }

func (in *incoming) find(id uint64) *recvTransfer {
	i, ok := slices.BinarySearchFunc(in.transfers, id, byID)
	if !ok {
		return nil
	}
	return in.transfers[i]
}

// withdraw ends the Recv of t if none of its messages was posted. Its place stays, without memory: when its turn has come an empty message is
// posted there and given up, which tells the sender.
func (in *incoming) withdraw(t *Transfer) {
	r := in.find(t.id)
	switch {
	case r == nil:
		return
	case r.state != waiting || r.dataPosted > 0:
		in.reach(r) // it is for Progress
		return
	}
	r.mr.Release()
	r.mr, r.t = nil, &Transfer{conn: t.conn, done: make(chan struct{}), cancel: t.cancel}
	r.parityWanted = len(r.parity)
	in.book(r)
	in.withdrawn++
	t.finish(0, failure("receive", r.id, t.cancel))
}

// memoryOf is where n bytes at off of the buffer of t are.
func (in *incoming) memoryOf(t *recvTransfer, off, n units.Bytes) (*sdr.MR, units.Bytes, units.Bytes, error) {
	if t.mr != nil {
		return t.mr, t.off + off, n, nil
	}
	if in.nothing == nil {
		var err error
		if in.nothing, err = in.qp.Endpoint().RegisterMemory(make([]byte, 1), sdr.AccessRemoteWrite); err != nil {
			return nil, 0, 0, err
		}
	}
	return in.nothing, 0, 0, nil
}

// onStart handles START, the announcement of a transfer.
func (in *incoming) onStart(e *sdr.Event) {
	if t := in.find(e.Transfer); t != nil {
		t.onStart(e)
	} else if e.Transfer >= in.nextID {
		in.violations++ // nothing was granted for it
	}
}

// onAbort handles ABORT: the sender gave a transfer up.
func (in *incoming) onAbort(e *sdr.Event) {
	t := in.find(e.Transfer)
	switch {
	case t == nil:
	case e.Code == abortTooLong:
		t.fail(fmt.Errorf("%w: %w: the sender's transfer has more than the buffer's %d bytes", sdr.ErrAborted, sdr.ErrTooLong, t.length))
	case e.Code == abortFrame:
		t.fail(in.peerFrame(sdr.ErrAborted))
	default:
		t.fail(sdr.ErrAborted)
	}
}

// onFrame gives a frame of the sending half to the receiving one.
func (in *incoming) onFrame(e *sdr.Event) {
	t := in.find(e.Transfer)
	if t == nil || t.core == nil || t.state != running {
		return
	}
	t.pollAt = in.now
	if err := t.core.OnControl(in.now, e.Bytes); err != nil {
		in.violations++
		t.fail(err)
	}
}

// onReliable gives a frame of the sending half that must arrive to the receiving one.
func (in *incoming) onReliable(e *sdr.Event) {
	t := in.find(e.Transfer)
	switch {
	case e.ToSender, t == nil && e.Transfer >= in.nextID, t != nil && t.state == waiting:
		in.violations++ // our receiving half sends none; a sending half begins with START
		return
	case t == nil || t.core == nil || t.state != running:
		return // it has ended
	}
	core, ok := t.core.(scheme.ReliableReceiver)
	if !ok {
		in.violations++
		return
	}
	t.pollAt = in.now
	if err := core.OnReliable(in.now, e.Bytes); err != nil {
		in.violations++
		t.fail(err)
	}
}

// onFenced handles that the fence of a message is down: its buffer is ours again.
func (in *incoming) onFenced(e *sdr.Event) {
	m, ok := in.messages[e.Seq]
	if !ok {
		return
	}
	delete(in.messages, e.Seq)
	in.room.changed = true
	m.whole = sdr.Outcome(e.Code) == sdr.Whole
	m.t.unfenced--
	if m.t.state != closing || m.t.coding == 0 { // otherwise a job may read it: release frees it
		in.freeParity(m)
	}
}

// freeParity returns the memory of a message, if it has any.
func (in *incoming) freeParity(m *recvMessage) {
	if m.mem != nil {
		in.parity.release(m.mem)
		m.mem = nil
		in.room.changed = true
	}
}

// progress polls the cores in the order of their transfers, and posts messages.
func (in *incoming) progress() units.Instant {
	next := units.Never
	if in.looks = in.now >= in.lookAt; in.looks {
		in.polled = len(in.transfers)
	}
	anyOver := false
	for _, t := range in.transfers[:in.polled] {
		next = min(next, t.progress())
		anyOver = anyOver || t.state == over
	}
	if anyOver {
		in.transfers, in.polled = forget(in.transfers, in.polled, func(t *recvTransfer) bool { return t.state == over })
	}
	for in.polled > 0 && in.transfers[in.polled-1].state == waiting {
		in.polled--
	}
	if in.looks {
		in.lookAt = units.Never
		if len(in.transfers) > 0 {
			in.lookAt = in.now.Add(in.lookEvery())
		}
	}
	next = min(next, in.lookAt)
	in.postMore()
	if in.tell {
		in.tell = false
		in.port.Abort(in.stopID|fromReceiver, abortFollowing)
	}
	return next
}

// postMore posts messages, for earlier transfers first, while slots are free.
func (in *incoming) postMore() {
	if in.room.toPost == 0 || !in.room.changed {
		return
	}
	in.room.changed = false
	before := 0
	for _, t := range in.transfers {
		if t.toPost > 0 && (!t.postParity(before) || !t.postData(before)) {
			return
		}
		before += t.dataToPost()
	}
}

// failed finishes all transfers: the QP is closed and every fence is down.
func (in *incoming) failed(err error) {
	for _, t := range in.transfers {
		if t.state == closing && (t.err == nil || t.allWhole()) { // all has arrived
			t.finish(nil)
		} else {
			t.finish(err)
		}
	}
	in.transfers, in.polled, in.lookAt = nil, 0, units.Never
	in.parity.close()
	if in.nothing != nil {
		if err := in.nothing.Close(); err != nil {
			in.log.Warn("memory of receives that were withdrawn", "err", err)
		}
		in.nothing = nil
	}
}

// stats adds the counters of the unfinished transfers.
func (in *incoming) stats(sum *scheme.Stats) {
	for _, t := range in.transfers {
		if t.core != nil {
			sum.Add(t.core.Stats())
		}
	}
}
