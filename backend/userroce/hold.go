// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/units"
)

// On loopback a train lies in pages that the sender's processor has written and the receiver's has read. The kernel gives them back
// to the sender's processor, whose next train gets those that came back last: their lines are in the caches of the other processor,
// and to write them takes three times as long as to write what has left those caches, ten times where the processors share none. So a
// device holds on to the trains that it sent last, where a [trial] says that it pays, and pages come back in the order in which they were
// sent.
//
// What holds a train is a copy of its descriptor: the kernel makes one for the socket's error queue when it is asked for the time of
// sending (SO_TIMESTAMPING without SOF_TIMESTAMPING_OPT_TSONLY, Documentation/networking/timestamping.rst). Nobody wants to know the
// time.
//
// Trains to other hosts are not held: no processor has read their pages.

const (
	// holdBuffer has room for what four sockets that send in turn hold, as the channels of a connection do, and is doubled by the kernel.
	// Where net.core.rmem_max allows less, or there are fewer, the kernel holds fewer trains.
	holdBuffer = manyHeld / 4 * maxTrainBytes
	// fewHeld are 1.2 MB: from 12 to 28 trains the rate is the same, and from 48 on it is less, where processors share a cache, because what is
	// in the shared one displaces other data. Where they share none many more are better, as pages have to leave the cache of the other
	// processor's side: manyHeld are 12 MB. And there are processors that fetch those lines for less than it costs to hold a train.
	fewHeld  = 20
	manyHeld = 192
	// leastHeld is the shortest train, in bytes, for which holding costs less than it saves, and leastTrain how many
	// packets it has at least.
	leastHeld  = 32 << 10
	leastTrain = leastHeld / 4096
	// releaseBatch is how many are released in one system call.
	releaseBatch = 8
)

// heldTrains are the settings of the trial of how many trains to hold.
var heldTrains = [...]int{0, fewHeld, manyHeld}

// A hold is the trains of a device that are held.
type hold struct {
	// state holds a [holdState], for those who make trains.
	state atomic.Uint32

	mu sync.Mutex
	// runs are trains of one socket that were sent one after another, in the order in which they were sent, and trains is
	// how many all of them are.
	runs   ring.Ring[heldRun] // +checklocks:mu
	trains int                // +checklocks:mu
	trial  trial              // of heldTrains; +checklocks:mu
	// kept: the kernel has held some.
	kept bool // +checklocks:mu
	// out is for what the kernel says of those that are released, of which nothing is wanted.
	out [releaseBatch]mmsghdr // +checklocks:mu
}

// A holdState is whether trains are held now.
type holdState uint32

const (
	holdsNone holdState = iota
	holdsSome
	holdsNever // the kernel doesn't hold any (sysctl net.core.tstamp_allow_data)
)

// A heldRun is so many trains of one socket.
type heldRun struct{ fd, trains int }

// prepareHold sets the socket up for trains that stay on this host.
func (s *sender) prepareHold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds || s.closed {
		return
	}
	// What is held counts as received. So strangers must be kept from filling that buffer, now that it isn't small.
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	prog := unix.SockFprog{Len: uint16(len(drop)), Filter: &drop[0]}
	if unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog) != nil {
		return
	}
	_, err := recvBufferOptions.size(s.fd, holdBuffer)
	s.holds = err == nil
	s.d.hold.reserve()
}

// reserve makes all memory that h will need.
func (h *hold) reserve() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs.Reserve(manyHeld + batchPackets/leastTrain)
	if h.trial.settings == 0 {
		h.trial = newTrial(uint8(len(heldTrains)))
	}
}

// most is how many trains to hold now. mu is held.
func (h *hold) most() int { return heldTrains[h.trial.used] }

// now is whether trains are held now.
func (h *hold) now() holdState { return holdState(h.state.Load()) }

// noteSent notes messages that were sent in a call that began then: which trains are held, and what it cost. It releases the trains
// that have been held longest. s.mu is held.
func (s *sender) noteSent(sent []messageInfo, begun units.Instant) {
	h := &s.d.hold
	held, long, bytes := 0, false, units.Bytes(0)
	for i := range sent {
		if sent[i].held {
			held++
		}
		long = long || sent[i].long
		bytes += units.Bytes(sent[i].bytes)
	}
	if !long {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(s.fd, held)
	h.trial.note(bytes, s.d.Now().Sub(begun))
	switch {
	case h.now() == holdsNever:
	case h.most() > 0:
		h.state.Store(uint32(holdsSome))
	default:
		h.state.Store(uint32(holdsNone))
	}
}

// keep notes that so many more trains of a socket are held, and releases those that are too many. mu is held.
func (h *hold) keep(fd, held int) {
	if held > 0 {
		h.runs.Push(heldRun{fd, held})
		h.trains += held
	}
	for h.trains > h.most() {
		h.release()
	}
}

// release lets go of the first trains. mu is held.
func (h *hold) release() {
	r := h.runs.Front()
	n := min(r.trains, len(h.out))
	if recvErrors(r.fd, h.out[:n]) > 0 {
		h.kept = true
	} else if !h.kept {
		h.state.Store(uint32(holdsNever))
	}
	h.trains -= n
	if r.trains -= n; r.trains == 0 {
		h.runs.Pop()
	}
}

// forget lets go of the trains of a socket that is about to be closed.
func (h *hold) forget(fd int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs.DeleteFunc(func(r *heldRun) bool {
		if r.fd == fd {
			h.trains -= r.trains
		}
		return r.fd == fd
	})
}
