// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// newUD makes a UD queue pair on e.
func (e *side) newUD() backend.QP {
	e.t.Helper()
	q, err := e.d.NewQP(backend.QPConfig{
		Type: backend.UD, SendCQ: e.cq, RecvCQ: e.cq, Cookie: 9, MTU: 4096, Channel: 3,
	})
	require.NoError(e.t, err)
	return q
}

func TestDatagrams(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		from, to := a.newUD(), b.newUD()
		h, err := a.d.OpenAddress(to.Info())
		require.NoError(t, err)

		var all []backend.Datagram
		for i := range 70 {
			data := []byte(fmt.Sprint("datagram ", i))[:9+i%3]
			if i == 40 {
				data = make([]byte, 4096)
				fill(data, 1)
			}
			if i == 41 {
				data = nil
			}
			all = append(all, backend.Datagram{To: h, Data: data})
		}
		n, err := from.PostDatagrams(a.d.Now(), all)
		require.NoError(t, err)
		require.Equal(t, len(all), n)
		for i := 0; i < len(all); {
			k, err := b.cq.Poll(b.d.Now(), b.batch[:7])
			require.NoError(t, err)
			for _, c := range b.batch[:k] {
				require.Equal(t, backend.KindDatagram, c.Kind)
				require.EqualValues(t, 9, c.Cookie)
				sameBytes(t, all[i].Data, b.cq.Datagram(&c))
				i++
			}
		}
		require.Zero(t, b.d.Stats().Drops)

		// Errors concern the first that was not taken.
		n, err = from.PostDatagrams(0, []backend.Datagram{all[0], {To: h + 1}})
		require.ErrorContains(t, err, "unknown address handle 1")
		require.Equal(t, 1, n)
		n, err = from.PostDatagrams(0, []backend.Datagram{all[0], {To: h, Data: make([]byte, 4097)}})
		require.ErrorContains(t, err, "datagram of 4097 bytes on a queue pair with MTU 4096")
		require.Equal(t, 1, n)
		require.Len(t, b.poll(2), 2)

		require.NoError(t, a.d.CloseAddress(h))
		require.Error(t, a.d.CloseAddress(h))
		_, err = from.PostDatagrams(0, all[:1])
		require.ErrorContains(t, err, "unknown address handle 0")

		// A UD queue pair does no writes, and a UC one no datagrams.
		_, err = from.PostWrites(0, make([]backend.Write, 1))
		require.ErrorIs(t, err, errNotUC)
		_, err = a.qp.PostDatagrams(0, all[:1])
		require.ErrorIs(t, err, errNotUD)
		require.ErrorContains(t, from.Connect(to.Info()), "OpenAddress")
	})
}

func TestDatagramRejected(t *testing.T) {
	a, b := newPair(t, false)
	to := b.newUD()
	s := newStranger(t, loopback(), b.d) // datagrams come from anywhere
	good := roce.Packet{
		Opcode: roce.UDSendOnly, DestQP: roce.QPN(to.Info().QPN), PKey: roce.DefaultPKey, QKey: roce.QKey(backend.DatagramQKey), SrcQP: 77,
	}
	s.seal(encode(t, good, 5))
	require.Len(t, b.poll(1), 1)
	bad := good
	bad.QKey ^= 1
	s.seal(encode(t, bad, 5))
	bad = good
	bad.Opcode = roce.UDSendOnlyImm
	s.seal(encode(t, bad, 5))
	bad = good
	bad.DestQP = roce.QPN(b.qp.Info().QPN)
	s.seal(encode(t, bad, 5))
	s.from = newStranger(t, a.d.addr, b.d).from
	s.seal(encode(t, good, 5)) // sealed for another source
	b.nothing(5)
	require.Equal(t, map[string]uint64{"qkey": 1, "opcode": 2, "icrc": 1}, drops(b.d))

	narrow, err := b.d.NewQP(backend.QPConfig{Type: backend.UD, SendCQ: b.cq, RecvCQ: b.cq, MTU: 256})
	require.NoError(t, err)
	good.DestQP = roce.QPN(narrow.Info().QPN)
	s = newStranger(t, a.d.addr, b.d)
	s.seal(encode(t, good, 256))
	require.Len(t, b.poll(1), 1)
	s.seal(encode(t, good, 257))
	b.nothing(7)
	require.EqualValues(t, 1, b.d.Stats().Drops[backend.DropMalformed])
}
