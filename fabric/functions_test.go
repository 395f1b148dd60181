// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/units"
)

// hooks is a switch function of functions; nil ones let packets pass.
type hooks struct {
	ingress func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict)
	admit   func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes)
	depart  func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict
	timer   func(sw switchfn.Switch, f *switchfn.Facts, arg uint32)
}

func (k *hooks) Ingress(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict) {
	if k.ingress == nil {
		return -1, switchfn.Pass
	}
	return k.ingress(sw, f, h)
}

func (k *hooks) Admit(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes) {
	if k.admit == nil {
		return switchfn.Pass, 0
	}
	return k.admit(sw, f, h)
}

func (k *hooks) Depart(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict {
	if k.depart == nil {
		return switchfn.Pass
	}
	return k.depart(sw, f, h)
}

func (k *hooks) Timer(sw switchfn.Switch, f *switchfn.Facts, arg uint32) { k.timer(sw, f, arg) }

// atLeaf runs one message from host 0 at leaf 4, which has the function, to host 2 at leaf 5; spines are 6 and 7.
func atLeaf(t *testing.T, k *hooks, size units.Bytes) *Sim {
	g := leafSpine(2, 2, 2, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
	s := build(t, g, Config{CheckEvery: 1, ECN: []ECN{{PMax: 1}}, Function: func(n int) switchfn.Func {
		if n == 4 {
			return k
		}
		return nil
	}}, []workload.Flow{{Src: 0, Dst: 2, Size: size, SrcPort: 777}})
	s.Run(1000 * micro)
	return s
}

// TestFunctionIsTold: what a function sees of data and of their acknowledgements, when they come, when they are queued and when they leave.
func TestFunctionIsTold(t *testing.T) {
	data := switchfn.Header{
		Src: Address(0), Dst: Address(2), SrcPort: 777, DstPort: dstPort, Opcode: roce.RCWriteOnly, ECT: true, Class: DataClass, Size: 1064,
	}
	ack := switchfn.Header{Src: Address(2), Dst: Address(0), SrcPort: dstPort, DstPort: 777, Opcode: roce.RCAcknowledge, PSN: 1, Size: 64}
	seen := 0
	look := func(f *switchfn.Facts, h *switchfn.Header, at string) {
		seen++
		require.Equal(t, 4, f.Node, at)
		isData := h.Opcode == roce.RCWriteOnly
		want := ack
		if isData {
			want = data
		}
		require.Equal(t, want, *h, at)
		if at == "ingress" {
			require.Equal(t, -1, f.Out)
			require.Equal(t, isData, f.In == 0)
			require.Equal(t, map[bool][]int{true: {2, 3}, false: {0}}[isData], f.Uplinks)
			require.Equal(t, make([]units.Bytes, len(f.Uplinks)), f.UplinkBytes)
			return
		}
		require.Empty(t, f.Uplinks)
		require.Empty(t, f.UplinkBytes)
		require.Equal(t, isData, f.Out >= 2, at)
	}
	s := atLeaf(t, &hooks{
		ingress: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict) {
			look(f, h, "ingress")
			return -1, switchfn.Pass
		},
		admit: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes) {
			look(f, h, "admit")
			return switchfn.Pass, 0
		},
		depart: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict {
			look(f, h, "depart")
			return switchfn.Pass
		},
	}, 1000)
	require.True(t, s.Done())
	require.Equal(t, 6, seen)
}

// TestFunctionChooses: a port that leads to another host, one whose link is down and one that there is take packets where they are lost,
// counted and nothing else; a port that leads on takes all of them.
func TestFunctionChooses(t *testing.T) {
	for out, want := range map[int]Drops{1: {NoRoute: 1}, 2: {LinkDown: 1}, 3: {}} {
		g := leafSpine(2, 2, 2, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
		g.Links[4].Down = true // leaf 4, port 2
		k := &hooks{ingress: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict) {
			if h.Opcode != roce.RCWriteOnly {
				return -1, switchfn.Pass
			}
			return out, switchfn.Pass
		}}
		s := build(t, g, Config{CheckEvery: 1, Function: func(n int) switchfn.Func {
			return map[int]switchfn.Func{4: k}[n]
		}}, []workload.Flow{{Src: 0, Dst: 2, Size: 1000}})
		s.Run(100 * micro)
		require.Equal(t, want, s.Result().Drops, "port %d", out)
		require.Equal(t, out == 3, s.Done())
	}
}

// TestFunctionEnds: a packet that a function drops or consumes, wherever, is counted so and no more there.
func TestFunctionEnds(t *testing.T) {
	for _, v := range []switchfn.Verdict{switchfn.Drop, switchfn.Consume} {
		for at := range 3 {
			if at == 2 && v == switchfn.Drop {
				continue // what leaves can't be dropped any more
			}
			verdict := func(here int) switchfn.Verdict {
				if here == at {
					return v
				}
				return switchfn.Pass
			}
			s := atLeaf(t, &hooks{
				ingress: func(switchfn.Switch, *switchfn.Facts, *switchfn.Header) (int, switchfn.Verdict) {
					return -1, verdict(0)
				},
				admit: func(switchfn.Switch, *switchfn.Facts, *switchfn.Header) (switchfn.Verdict, units.Bytes) {
					return verdict(1), 0
				},
				depart: func(switchfn.Switch, *switchfn.Facts, *switchfn.Header) switchfn.Verdict { return verdict(2) },
			}, 1000)
			require.Zero(t, s.live)
			r := s.Result()
			if v == switchfn.Drop {
				require.Equal(t, Drops{Function: 1}, r.Drops)
			} else {
				require.Zero(t, r.Drops)
				require.EqualValues(t, 1, r.Packets.Delivered)
			}
		}
	}
}

// TestFunctionRewrites: what a function makes of a packet is what the next switch and the receiver see.
func TestFunctionRewrites(t *testing.T) {
	left := 0
	s := atLeaf(t, &hooks{
		admit: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes) {
			switch {
			case h.Opcode != roce.RCWriteOnly:
			case h.PSN == 0:
				h.CE, h.ECT, h.Class = true, false, 2
			case h.PSN == 1 && !h.Trimmed && left < 2:
				return switchfn.Trim, 70
			}
			return switchfn.Pass, 0
		},
		depart: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict {
			switch left++; left {
			case 1:
				require.True(t, h.CE && !h.ECT && h.Class == 2, "%+v", h)
			case 2:
				require.True(t, h.Trimmed && h.Class == 0 && h.Size == 70, "%+v", h)
			}
			return switchfn.Pass
		},
	}, 3*4096)
	require.NotZero(t, s.markedArrived)
	require.EqualValues(t, 1, s.Result().Packets.Trimmed)
	require.EqualValues(t, 4160-70, s.trimmedBytes)
}

// TestFunctionSends: a timer comes when it is due with what it was given, and what is sent then takes its port, or its way.
func TestFunctionSends(t *testing.T) {
	var at units.Instant
	var timers []uint32
	k := &hooks{}
	k.ingress = func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict) {
		if at == 0 {
			at = f.Now
			sw.After(500, 7)
			sw.After(700, 8)
		}
		return -1, switchfn.Pass
	}
	k.timer = func(sw switchfn.Switch, f *switchfn.Facts, arg uint32) {
		timers = append(timers, arg)
		require.Equal(t, switchfn.Facts{Now: at.Add(map[uint32]units.Duration{7: 500, 8: 700}[arg]), Node: 4, In: -1, Out: -1, Uplinks: []int{}, UplinkBytes: []units.Bytes{}}, *f)
		// To the sender by itself, and then to the host beside it, which has nothing to do with the message.
		sw.Emit(map[uint32]int{7: -1, 8: 1}[arg], &switchfn.Header{Opcode: roce.CNPOpcode, BECN: true, Size: 64})
	}
	s := atLeaf(t, k, 1000)
	s.Advance(1000 * micro)
	require.Equal(t, []uint32{7, 8}, timers)
	require.EqualValues(t, 1, s.Result().CNPs)
	require.Equal(t, Drops{NoRoute: 1}, s.Result().Drops)
	require.NoError(t, s.Check())
}

// TestFunctionSendsWhileItDecides: what a function sends leaves at once where a port is free, and the function is asked about that, too. The
// packet that it has, and what it was told of it, stay as they are.
func TestFunctionSendsWhileItDecides(t *testing.T) {
	for at, name := range []string{"ingress", "admit", "depart"} {
		notices, nested := 0, 0
		try := func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header, here int) {
			if h.Opcode == roce.CNPOpcode {
				nested++
			}
			if h.Opcode != roce.RCWriteOnly || here != at {
				return
			}
			notices++
			fact, header := *f, *h
			fact.Uplinks, fact.UplinkBytes = slices.Clone(f.Uplinks), slices.Clone(f.UplinkBytes)
			sw.Emit(-1, &switchfn.Header{Opcode: roce.CNPOpcode, BECN: true, Size: 64})
			require.Equal(t, fact, *f, name)
			require.Equal(t, header, *h, name)
		}
		s := atLeaf(t, &hooks{
			ingress: func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (int, switchfn.Verdict) {
				try(sw, f, h, 0)
				return -1, switchfn.Pass
			},
			admit: func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) (switchfn.Verdict, units.Bytes) {
				try(sw, f, h, 1)
				return switchfn.Pass, 0
			},
			depart: func(sw switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict {
				try(sw, f, h, 2)
				return switchfn.Pass
			},
		}, 3*4096)
		require.True(t, s.Done())
		require.Equal(t, []int{3, 3}, []int{notices, nested}, name)
		require.EqualValues(t, 3, s.Result().CNPs, name)
	}
}

// TestMarkedByTwo: a packet that two switches mark is one that was marked.
func TestMarkedByTwo(t *testing.T) {
	var flows []workload.Flow
	for i := range 4 {
		flows = append(flows, workload.Flow{Src: i, Dst: 4, Size: units.MiB})
	}
	s := build(t, leafSpine(2, 4, 1, 100*units.Gbit, 150*units.Gbit, units.Microsecond), Config{ECN: []ECN{{PMax: 1}}}, flows)
	s.Run(des.Never)
	require.True(t, s.Done())
	require.Equal(t, s.markedArrived, s.Result().Packets.Marked)
	require.Greater(t, s.marks, s.Result().Packets.Marked)
}

// TestMarkProbability: packets are marked as often as RED's formula says of what each leaves behind, at a port of the profile's rate; those
// of another, which has none, never.
func TestMarkProbability(t *testing.T) {
	const kmin, kmax, pmax = 300_000, 6_000_000, 0.4
	g := star(6, 100*units.Gbit, units.Microsecond)
	g.Links[5].Rate = 40 * units.Gbit
	marked, expected, variance, other := 0.0, 0.0, 0.0, 0
	k := &hooks{depart: func(_ switchfn.Switch, f *switchfn.Facts, h *switchfn.Header) switchfn.Verdict {
		switch q := float64(f.DataBytes); {
		case h.Class == 0:
		case f.Out == 5:
			if h.CE {
				other++
			}
		default:
			p := 0.0
			if q > kmax {
				p = 1
			} else if q > kmin {
				p = pmax * (q - kmin) / (kmax - kmin)
			}
			if p == 0 || p == 1 {
				require.Equal(t, p == 1, h.CE, "%v bytes", q)
			}
			expected += p
			variance += p * (1 - p)
			if h.CE {
				marked++
			}
		}
		return switchfn.Pass
	}}
	var flows []workload.Flow
	for i := range 4 {
		flows = append(flows, workload.Flow{Src: i, Dst: 4, Size: 3 * units.MiB}, workload.Flow{Src: i, Dst: 5, Size: units.MiB})
	}
	s := build(t, g, Config{
		Function: func(int) switchfn.Func { return k },
		ECN:      []ECN{{Rate: 25 * units.Gbit, PMax: 1}, {Rate: 100 * units.Gbit, KMin: kmin, KMax: kmax, PMax: pmax}},
	}, flows)
	s.Run(des.Never)
	require.True(t, s.Done())
	require.Zero(t, other)
	require.Greater(t, expected, 300.0)
	require.InDelta(t, expected, marked, 4*math.Sqrt(variance))
}
