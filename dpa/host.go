// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"sync"

	"github.com/sdr-rdma/go-sdr/units"
)

// Host is the Engine whose threads are Workers: each handles the completions that its goroutine has polled, with
// Worker.Process and the Host's Channels.
type Host struct {
	workers  []*Worker
	mu       sync.Mutex // of who changes channels
	channels Channels
}

// NewHost makes a Host whose completions reach the workers.
func NewHost(workers ...*Worker) *Host {
	return &Host{workers: workers}
}

// Channels are the channels by cookie, for Worker.Process.
func (h *Host) Channels() *Channels { return &h.channels }

func (h *Host) set(cookie uint32, ch *Channel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.channels.t.Set(cookie, ch)
}

// NewTable implements Engine. It doesn't fail.
func (h *Host) NewTable(c TableConfig) (Table, error) {
	s := NewSlots(c.Split, c.Channels)
	s.Owner = c.Owner
	return &hostTable{Slots: s, host: h}, nil
}

// Epochs implements Engine.
func (h *Host) Epochs(into []uint64) []uint64 {
	for _, w := range h.workers {
		into = append(into, w.Epoch())
	}
	return into
}

// Left implements Engine.
func (h *Host) Left(epochs []uint64) bool {
	for i, e := range epochs {
		if e%2 == 1 && h.workers[i].Epoch() == e {
			return false
		}
	}
	return true
}

// Emptied implements Engine.
func (h *Host) Emptied(epochs []uint64) bool {
	for i, e := range epochs {
		if h.workers[i].emptied.Load() <= e {
			return false
		}
	}
	return true
}

// Prompt implements Engine: the goroutines that poll are package sdr's.
func (h *Host) Prompt() {}

// HostPackets implements Engine.
func (h *Host) HostPackets() bool { return true }

// MaxSleep implements Engine: Worker.Dirtied says whom to wake.
func (h *Host) MaxSleep() units.Duration { return 0 }

// Counts implements Engine.
func (h *Host) Counts() (sum Counts, err error) {
	for _, w := range h.workers {
		n := &w.Counters
		sum.Add(Counts{
			n.Packets.Load(), n.Duplicates.Load(), n.Stale.Load(), n.Length.Load(), n.Aside.Load(),
			n.Fragments.Load(), n.Probes.Load(), n.Invalid.Load(), n.Repairs.Load(),
		})
	}
	return sum, nil
}

// hostTable is the Slots of one QP as a Table. Workers set bits where the host reads them, so that there is nothing to
// collect but Dirty.
type hostTable struct {
	*Slots
	host *Host
}

func (t *hostTable) Attach(cookie uint32, gen, index, home int) error {
	t.host.set(cookie, &Channel{Slots: t.Slots, Gen: uint32(gen), Index: index, Home: home})
	return nil
}

func (t *hostTable) Detach(cookie uint32) { t.host.set(cookie, nil) }

func (t *hostTable) Open(m *Message) error {
	if err := m.Arrivals.CheckChannels(t.Channels); err != nil {
		return err
	}
	t.Set(m.Seq, m)
	return nil
}

func (t *hostTable) SetLength(m *Message, n units.Bytes) { m.SetLength(n) }

func (t *hostTable) Close(m *Message) { m.Close() }

func (t *hostTable) Remove(m *Message) { t.Set(m.Seq, nil) }

func (t *hostTable) News() bool { return t.Dirty.Load() }

func (t *hostTable) Collect(units.Instant) { t.Dirty.Store(false) }

func (t *hostTable) Err() error { return nil }
