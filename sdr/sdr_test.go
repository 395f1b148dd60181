// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

func link() sim.Config {
	return sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: 5 * ms}, Seed: 1}
}

var small = sdr.QPConfig{MTU: 1024, Chunk: 4096, Channels: 2, MaxMessage: units.MiB, Split: sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}}

func TestOneMessage(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 100_001, true), p.mr(1, 100_001, false)
	r, err := p.qp[1].PostRecv(dst, 0, 100_001)
	require.NoError(t, err)
	s, err := p.qp[0].PostSend(src, 0, 100_001, sdr.SendOptions{Imm: 0xfeedf00d, HasImm: true})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
	require.Equal(t, src.Bytes(), dst.Bytes())
	imm, ok, err := r.Imm()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, uint32(0xfeedf00d), imm)
	p.until(units.Second, func() bool { done, err := s.Poll(); require.NoError(t, err); return done })

	require.ErrorIs(t, dst.Close(), sdr.ErrBusy)
	require.NoError(t, r.Complete())
	p.until(units.Second, r.Done)
	err = r.Bitmap().Err()
	require.ErrorIs(t, err, sdr.ErrCompleted)
	p.run(100 * ms)
	require.NoError(t, dst.Close())
	require.NoError(t, src.Close())
}

func TestSendWaitsForReceive(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 4096, true), p.mr(1, 4096, false)
	s, err := p.qp[0].PostSend(src, 0, 4096, sdr.SendOptions{})
	require.NoError(t, err)
	p.run(100 * ms)
	done, err := s.Poll()
	require.NoError(t, err)
	require.False(t, done)
	r, err := p.qp[1].PostRecv(dst, 0, 4096)
	require.NoError(t, err)
	p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
	require.Equal(t, src.Bytes(), dst.Bytes())
}

func TestManyMessagesBidirectional(t *testing.T) {
	sc := link()
	sc.Link.Reorder, sc.Link.ReorderDelay = 0.1, 2*ms
	p := newPair(t, sc, small)
	n, size := 3000, units.Bytes(5000)
	if race.Enabled {
		n = 300
	}
	for e := range 2 {
		src, dst := p.mr(e, size, true), p.mr(1-e, size*16, false)
		posted, completed, sent := 0, 0, 0
		var recvs []sdr.RecvHandle
		p.until(200*units.Second, func() bool {
			for posted < n {
				r, err := p.qp[1-e].PostRecv(dst, size*units.Bytes(posted%16), size)
				if err != nil {
					require.ErrorIs(t, err, sdr.ErrAgain)
					break
				}
				recvs = append(recvs, r)
				posted++
			}
			for sent < n {
				if _, err := p.qp[e].PostSend(src, 0, size, sdr.SendOptions{}); err != nil {
					require.ErrorIs(t, err, sdr.ErrAgain)
					break
				}
				sent++
			}
			for len(recvs) > 0 {
				if !recvs[0].Bitmap().AllSet() {
					break
				}
				i := size * units.Bytes(completed%16)
				require.Equal(t, src.Bytes(), dst.Bytes()[i:i+size])
				clear(dst.Bytes()[i : i+size])
				require.NoError(t, recvs[0].Complete())
				recvs = recvs[1:]
				completed++
			}
			return completed == n
		})
	}
}
