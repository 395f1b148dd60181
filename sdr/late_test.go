// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestLatePacket holds one packet of a message back, completes the message,
// posts the slot again and again, and lets the packet go when the message d
// rounds later is posted, for each round from 1 to 2G, each packet of the
// message, and each point in the later message's life. Nothing of the later
// message may change (paper, section 3.3).
func TestLatePacket(t *testing.T) {
	kinds := map[string]func(*sim.Config){
		"full sequence":   func(*sim.Config) {},
		"generations":     func(c *sim.Config) { c.NoFullSequence = true },
		"dead completes":  func(c *sim.Config) { c.NoFullSequence, c.DeadKey = true, backend.DeadKeyCompletes },
		"key per message": func(c *sim.Config) { c.KeyPerMessage = true },
		"slow revocation": func(c *sim.Config) { c.NoFullSequence, c.RevokeTime = true, 3*ms },
	}
	first := 0
	if race.Enabled { // under the race detector the last packet only
		first = latePackets - 1
	}
	for name, kind := range kinds {
		for _, when := range []string{"posted", "arrived"} {
			t.Run(name+", "+when, func(t *testing.T) {
				for distance := 1; distance <= 2*lateGens; distance++ {
					for packet := first; packet < latePackets; packet++ {
						latePacket(t, kind, distance, packet, when == "arrived")
					}
				}
			})
		}
	}
}

const (
	lateSlots, lateGens, latePackets = 2, 2, 4
	lateSize                         = latePackets * 1024
)

func latePacket(t *testing.T, kind func(*sim.Config), distance, packet int, arrived bool) {
	sc := sim.Config{Rate: 10 * units.Gbit, Link: sim.Link{Delay: units.Millisecond}, Seed: 1}
	kind(&sc)
	p := newPair(t, sc, sdr.QPConfig{
		MTU: 1024, Chunk: 2048, Channels: 2, Generations: lateGens, MaxMessage: lateSize, MSL: 400 * ms,
		Split: sdr.Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4},
	})
	src, dst := p.mr(0, lateSize, true), p.mr(1, 3*lateSize, false)
	// One packet of the message of sequence 1 is held back: for less than the MSL, but for longer than all those
	// rounds take together that need not wait for the MSL before they reuse the slot.
	hold := 300 * ms
	held := false
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		split := sdr.Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4}
		if i.Direction == sim.AtoB && i.Kind == backend.KindWrite && !held && i.Imm == split.Imm(1, packet, 0) {
			held = true
			return sim.Hold(hold)
		}
		return sim.Deliver
	})
	start := p.net.Now()
	p.message(t, src, dst, true)
	require.True(t, held)
	rounds := 0
	for ; rounds < distance*lateSlots-1; rounds++ {
		p.message(t, src, dst, false)
	}
	// The victim shares the slot with the held packet. Canaries on both sides.
	buf := dst.Bytes()
	for i := range buf {
		buf[i] = 0xc5
	}
	var r sdr.RecvHandle
	var err error
	p.until(10*units.Second, func() bool { r, err = p.qp[1].PostRecv(dst, lateSize, lateSize); return err == nil })
	want := bytes.Clone(buf)
	if arrived {
		other := p.mr(0, lateSize, false)
		for i := range other.Bytes() {
			other.Bytes()[i] = 0x3a
		}
		_, err := p.qp[0].PostSend(other, 0, lateSize, sdr.SendOptions{})
		require.NoError(t, err)
		p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
		copy(want[lateSize:], other.Bytes())
	}
	p.run(max(0, start.Add(hold+20*ms).Sub(p.net.Now())))
	require.True(t, bytes.Equal(want, buf), "packet %d changed a buffer %d rounds later", packet, distance)
	n, err := r.Bitmap().Count(), r.Bitmap().Err()
	require.NoError(t, err)
	if !arrived {
		require.Zero(t, n)
		pm, err := r.Packets()
		require.NoError(t, err)
		missing, err := pm.NextSet(0), pm.Err()
		require.NoError(t, err)
		require.Equal(t, latePackets, missing, "packet %d set a bit %d rounds later", packet, distance)
	}
	require.NoError(t, r.Complete())
	p.until(units.Second, r.Done)
}

// message sends one message and completes it, early if a packet is missing.
func (p *pair) message(t *testing.T, src, dst *sdr.MR, early bool) {
	var r sdr.RecvHandle
	var err error
	p.until(10*units.Second, func() bool {
		r, err = p.qp[1].PostRecv(dst, lateSize, lateSize)

		if err != nil && !errors.Is(err, sdr.ErrAgain) {
			t.Fatal(err)
		}
		return err == nil
	})
	var s sdr.SendHandle
	p.until(10*units.Second, func() bool {
		s, err = p.qp[0].PostSend(src, 0, lateSize, sdr.SendOptions{})
		return err == nil
	})
	if early {
		p.until(units.Second, func() bool { done, _ := s.Poll(); return done })
		p.run(5 * ms)
	} else {
		p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
	}
	require.NoError(t, r.Complete())
	p.until(units.Second, r.Done)
}

// TestMSLHoldsReuseBack: without a full-sequence check the address of a message
// is used again only when its END is as old as the MSL.
func TestMSLHoldsReuseBack(t *testing.T) {
	for _, full := range []bool{true, false} {
		t.Run(fmt.Sprintf("full sequence %v", full), func(t *testing.T) {
			sc := sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: units.Millisecond}, Seed: 1, NoFullSequence: !full}
			p := newPair(t, sc, sdr.QPConfig{
				MTU: 1024, Channels: 1, Generations: lateGens, MaxMessage: 64 * units.KiB, MSL: 500 * ms,
				Split: sdr.Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4},
			})
			src, dst := p.mr(0, lateSize, true), p.mr(1, 3*lateSize, false)
			start := p.net.Now()
			for range 4 * lateSlots * lateGens {
				p.message(t, src, dst, false)
			}
			took := p.net.Now().Sub(start)
			if full {
				require.Less(t, took, 200*ms)
				require.Zero(t, p.qp[1].Stats().MaxMessageRate)
			} else {
				require.Greater(t, took, 3*500*ms)
				require.InDelta(t, lateSlots*lateGens/0.5, p.qp[1].Stats().MaxMessageRate, 0.01)
			}
		})
	}
}

// TestEndOfAnOlderMessage: an END that is repeated, after the message's address has been used again, ends no newer message: whose packets may
// still be on their way.
func TestEndOfAnOlderMessage(t *testing.T) {
	const msl = 50 * ms
	p := newPair(t, sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: units.Millisecond}, Seed: 1, NoFullSequence: true}, sdr.QPConfig{
		MTU: 1024, Channels: 1, Generations: lateGens, MaxMessage: 64 * units.KiB, MSL: msl,
		Split: sdr.Split{SlotBits: 1, OffsetBits: 27, FragmentBits: 4},
	})
	src, dst := p.mr(0, lateSize, true), p.mr(1, 3*lateSize, false)
	for range lateSlots * lateGens {
		p.message(t, src, dst, false)
	}
	for range lateSlots * lateGens { // the next round, of which nothing is sent
		var r sdr.RecvHandle
		var err error
		p.until(units.Second, func() bool { r, err = p.qp[1].PostRecv(dst, 0, lateSize); return err == nil })
		end := wire.Frame{Type: wire.TypeEnd, ID: r.Seq() - lateSlots*lateGens, Length: lateSize}
		p.qp[1].ReceiveFrames(1000, end.Append(nil))
		require.NoError(t, r.Complete())
		p.until(units.Second, r.Done)
	}
	p.run(4 * msl)
	_, err := p.qp[1].PostRecv(dst, 0, lateSize)
	require.ErrorIs(t, err, sdr.ErrAgain)
}
