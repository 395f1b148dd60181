// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A program is bytes that a test takes its decisions from.
type program []byte

func (p *program) byte() int {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return int(b)
}

// below is a number below n, or, now and then, the first that isn't.
func (p *program) below(n int) int { return (p.byte()<<8 | p.byte()) % (n + 1) }

// bytes are up to most bytes.
func (p *program) bytes(most int) []byte {
	n := min(p.byte()%most, len(*p))
	b := (*p)[:n]
	*p = (*p)[n:]
	return b
}

// state is a frame that an honest or a lying receiver of a transfer may send.
func (p *program) state(number int, s *sender) (b []byte) {
	add := func(v ...int) {
		for _, x := range v {
			b = binary.AppendUvarint(b, uint64(x))
		}
	}
	groups := s.groupMap.count()
	b = append(b, frameState)
	add(number)
	if add(p.byte() % 2); b[len(b)-1] == 1 {
		add(number*100, p.byte()%100, p.byte()%8, p.byte()%8)
	}
	marks := p.byte() % 5
	add(marks)
	for range marks {
		add(p.byte()%5, p.below(s.parityMap.parity)<<2|p.byte()%3)
	}
	at := p.below(groups)
	named := p.byte() % 4
	add(at, named)
	for range named {
		gap := p.byte() % 3
		add(gap, p.byte(), p.byte())
		at += gap + 1
	}
	add(p.below(max(groups-at, 0)))
	if p.byte()%2 == 0 { // an acknowledgement of package loss: what is in place, a mark, what lies behind
		sent := s.loss.Next()
		cum := p.below(sent)
		b = append(b, 1)
		add(number, cum, 1, p.byte()%5, p.below(sent)<<1, number)
		add(p.byte()%4, p.byte()%4, p.byte()%32, p.byte()%4, 0)
	}
	return append(b, p.bytes(8)...)
}

// seedPrograms adds programs of random bytes.
func seedPrograms(f *testing.F) {
	for seed := range 8 {
		b := make([]byte, 600)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
		f.Add(b)
	}
}

// FuzzSender gives a sender frames that its receiver could have sent, or only a liar, in mid-transfer: it sends nothing that there isn't,
// and what it counts stays within what it has sent.
func FuzzSender(f *testing.F) {
	seedPrograms(f)
	const n = 500
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := New(Config{})
		require.NoError(t, err)
		env := testEnv()
		half, err := a.NewSender(testTransfer(n), env)
		require.NoError(t, err)
		s := half.(*sender)
		now := units.Instant(1000)
		out := scheme.Output{Sends: make([]scheme.Send, 0, 64), Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 4)}
		for p := program(b[:min(len(b), 4000)]); len(p) > 0; {
			switch op := p.byte(); op % 8 {
			case 0, 1, 2:
				_ = s.OnControl(now, p.state(1+op>>3, s))
			case 3:
				_ = s.OnControl(now, append([]byte{frameState}, p.bytes(64)...))
			case 4:
				u := scheme.Unit(p.below(n))
				if op>>3&1 == 1 {
					u = scheme.Parity | scheme.Unit(p.below(s.parityMap.parity))
				}
				s.OnTrimmed(now, u, p.byte()%4)
			case 5:
				now = now.Add(units.Duration(p.byte()) * units.Millisecond / 4)
			default:
				env.Trims, env.Full, env.ParityLimit = op>>3&1 == 1, op>>4&1 == 1, (op>>5)*600
				out.Reset()
				out.Budget, out.Window = 64, n
				next, err := s.Poll(now, &out)
				require.NoError(t, err)
				require.Greater(t, next, units.Instant(0))
				sent := make([]scheme.Sent, len(out.Sends))
				for i, x := range out.Sends {
					require.Less(t, x.Channel, env.Channels)
					require.True(t, x.Unit.IsProbe() || x.Unit.IsData() && x.Unit.Index() < n || x.Unit.IsParity() && x.Unit.Index() < s.parityMap.parity, "%v", x.Unit)
					sent[i] = scheme.Sent{Unit: x.Unit, Channel: max(x.Channel, 0)}
				}
				s.OnSent(now, sent)
				for _, j := range out.Jobs {
					s.OnJob(now, j.ID)
				}
			}
			held := 0
			for g := range s.groups {
				held += len(s.groups[g].held)
				require.LessOrEqual(t, s.groupMap.size(g)+int(s.groups[g].rows), maxGroup)
			}
			require.LessOrEqual(t, held+len(s.byName), n)
			require.GreaterOrEqual(t, s.Outstanding(), 0)
			require.LessOrEqual(t, s.Outstanding(), n+s.parityMap.parity)
		}
	})
}

// FuzzReceiver has a receiver told of groups and rows that make sense or don't, while units of both kinds come in any order: it has decoded
// only what it has the rows for, and is done only when all is in place.
func FuzzReceiver(f *testing.F) {
	seedPrograms(f)
	const n = 500
	f.Fuzz(func(t *testing.T, b []byte) {
		r := testReceiver(t, n)
		v := &parityBoard{board: board{has: make([]bool, n)}, parity: make([]bool, 4000)}
		now := units.Instant(1000)
		out := scheme.Output{Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 4)}
		running := map[uint32]scheme.Job{}
		for p := program(b[:min(len(b), 4000)]); len(p) > 0; {
			switch op := p.byte(); op % 8 {
			case 0: // a group of units anywhere
				var members []uint32
				for u := p.below(n); u < n && len(members) < op>>3; u += 1 + p.byte()%16 {
					members = append(members, uint32(u))
				}
				_ = r.OnReliable(now, groupEntry(members))
			case 1: // rows, the next ones as a rule
				g := p.below(r.groupMap.count())
				e := batch{group: g, rows: 1 + p.byte()%32, base: r.parityMap.parity}
				if g < len(r.groups) {
					e.row = int(r.groups[g].rows)
				}
				if op>>3 == 0 {
					e.row, e.base = p.byte(), p.below(4000)
				}
				_ = r.OnReliable(now, appendRows(nil, &e))
			case 2:
				_ = r.OnReliable(now, p.bytes(32))
			case 3: // a run of data
				u := p.below(n)
				for end := min(u+p.byte()%64, n); u < end; u++ {
					v.has[u] = true
				}
				v.marks[op>>3%4] = scheme.Mark{Count: v.marks[op>>3%4].Count + 1, Unit: scheme.Unit(min(u, n-1)), Valid: true}
			case 4: // a run of parity
				u := p.below(r.parityMap.parity)
				for end := min(u+p.byte()%64, len(v.parity)); u < end; u++ {
					v.parity[u] = true
				}
				v.marks[op>>3%4] = scheme.Mark{Count: v.marks[op>>3%4].Count + 1, Unit: scheme.Parity | scheme.Unit(u), Valid: true}
			case 5: // a job is done
				for id, j := range running {
					for _, i := range j.Missing {
						v.has[j.Data[i].Index()] = true
					}
					delete(running, id)
					r.OnJob(now, id)
				}
			default:
				now = now.Add(units.Duration(p.byte()) * units.Millisecond / 16)
				out.Reset()
				_, done, err := r.Poll(now, v, &out)
				require.NoError(t, err)
				require.Equal(t, v.NextMissing(0) >= n, done)
				require.LessOrEqual(t, len(out.Frame), r.env.MaxFrame)
				for _, j := range out.Jobs {
					require.NotContains(t, running, j.ID)
					require.Equal(t, len(j.Missing), len(j.Rows))
					for _, u := range j.Parity {
						require.True(t, v.Has(u), "%v", u)
					}
					running[j.ID] = j
				}
			}
		}
	})
}
