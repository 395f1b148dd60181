// SPDX-License-Identifier: Apache-2.0

package adaptive

import "math"

const (
	// memory is over how many units the estimate forgets.
	memory = 100_000
	// fraction is one loss in the fixed-point numbers of a model.
	fraction = 1 << 16
	// surprise is how many bursts more than twice what was expected, or less
	// than half of it, are no chance.
	surprise = 10
	// z is the quantile of the upper bound, 97.5 %.
	z = 1.96
)

// A model is what is known of a path's loss, across transfers. It counts first
// transmissions only, because repeats are sent when the network is at its worst.
type model struct {
	// sent, lost and bursts count units, lost units and runs of lost units, in
	// 1/fraction; lost and bursts begin with the prior of one loss in 1000.
	sent, lost, bursts int64
	// ambiguous is of how many of the peer's next reports nothing is learnt: packets waited in a queue when what
	// they report was sent, or since.
	ambiguous int
	// overtaken is of how many of them parity may have come before data that waited in a queue of their channel, where switches trim.
	overtaken int
	// reported are the totals that the peer last reported.
	reported totals
	// trimmed are losses that the peer will report, or has, and that were none of the kind that parity is for: units that
	// a switch trimmed and that were left to decoding.
	trimmed totals
}

// totals are what the receiving half of a Conn counted since it began: units of
// tails, those that decoding had to compute, the bursts that they were in, and how many of them it computed before
// a later packet of their channel had come.
type totals struct{ units, lost, bursts, early uint64 }

const (
	// ambiguousReports is of how many reports nothing is learnt once packets have waited: the next may be of a transfer before
	// the one that made them wait.
	ambiguousReports = 2
	// manyUnits are so many on each channel that early ones, which may have been lost all the same, are not missed.
	manyUnits = 128
)

// learn learns from the peer's totals, which only grow. uneven: channels are known to differ in delay.
func (m *model) learn(t totals, channels int, uneven bool) {
	n := totals{t.units - m.reported.units, t.lost - m.reported.lost, t.bursts - m.reported.bursts, t.early - m.reported.early}
	if t.units <= m.reported.units {
		return
	}
	m.reported = t
	if n.units >= uint64(maxUnits) || n.lost > n.units || n.bursts > n.lost || n.early > n.lost {
		return
	}
	if m.overtaken > 0 {
		m.overtaken--
		uneven = true
	}
	if uneven || n.units >= uint64(channels*manyUnits) {
		n.leaveOut(n.early, n.early)
		n.units -= n.early
	}
	lost, bursts := min(n.lost, m.trimmed.lost), min(n.bursts, m.trimmed.bursts)
	m.trimmed.lost -= lost
	m.trimmed.bursts -= bursts
	n.leaveOut(lost, bursts)
	if m.ambiguous > 0 {
		m.ambiguous--
		return
	}
	m.observe(int(n.units), int(n.lost), int(n.bursts))
}

// leaveOut takes out losses, and the bursts that they were in at most.
func (t *totals) leaveOut(lost, bursts uint64) {
	t.lost -= lost
	t.bursts = min(t.bursts-min(bursts, t.bursts), t.lost)
	if t.lost > 0 {
		t.bursts = max(t.bursts, 1)
	}
}

func newModel() model { return model{sent: 1000 * fraction, lost: fraction, bursts: fraction} }

// observe learns how many of sent units were lost at random, in how many bursts.
func (m *model) observe(sent, lost, bursts int) {
	m.notice(sent, lost)
	m.sent += int64(sent) * fraction
	m.lost += int64(lost) * fraction
	m.bursts += int64(bursts) * fraction
	const most = memory * fraction
	if m.sent > most {
		// A transfer has up to 2^30 units, so nothing overflows.
		keep := most / (m.sent >> 16)
		m.lost, m.bursts = max(m.lost*keep>>16, 1), max(m.bursts*keep>>16, 1)
		m.sent = most
	}
}

// notice forgets most of the past when an observation contradicts it: the drop rate
// has changed.
func (m *model) notice(sent, lost int) {
	expected := int(int64(sent) * (m.lost >> 8) / (m.sent >> 8))
	chance := surprise * int(m.meanBurst()+1) / 2
	if lost > 2*expected+chance || 2*lost+chance < expected {
		m.sent, m.lost, m.bursts = max(m.sent/8, 1<<8), max(m.lost/8, 1), max(m.bursts/8, 1)
	}
}

// drop is the upper bound of the rate of random loss. It is
// bursts that are independent of each other, so the bound is that of their number.
func (m *model) drop() float64 {
	burst := m.meanBurst()
	d := float64(m.lost) / fraction / burst
	n := float64(m.sent) / fraction
	p := float64(burst*(d+float64(z*z/2)+float64(z*math.Sqrt(d+float64(z*z/4))))) / n
	return min(p, 0.5)
}

// meanBurst is the mean length of a burst, beyond what independent loss of this
// rate would show by chance.
func (m *model) meanBurst() float64 {
	b := float64(float64(m.lost) / float64(m.bursts) * max(0.5, 1-float64(m.lost)/float64(m.sent)))
	// Of a few losses, two neighbours are chance.
	if few := float64(m.bursts) / fraction; b < 1.05 || float64((b-1)*few) < 1.5 {
		return 1
	}
	return b
}

// burst95 is the 95th percentile of burst lengths, if they are geometric.
func (m *model) burst95() int {
	stay := 1 - 1/m.meanBurst()
	length, longer := 1, stay
	for longer > 0.05 && length < 1<<12 {
		longer = float64(longer * stay)
		length++
	}
	return length
}

// law is the law of losses in groups of n units, of which depth take turns. A burst
// of b losses meets a group b/depth times, so correlation is that of clusters of
// this size: the variance of a sum of clusters exceeds the binomial one by
// E[x²]/E[x].
func (m *model) law(n, depth int) lossLaw {
	l := lossLaw{drop: m.drop()}
	mean := m.meanBurst()
	if mean <= 1 || n < 2 {
		return l
	}
	begin := 1 / mean
	p, squares, sum := begin, 0.0, 0.0
	for b := 1; b < 1<<12 && p > 1e-9; b++ {
		each, more := b/depth, b%depth
		sq := more*(each+1)*(each+1) + (depth-more)*each*each
		squares += float64(p * float64(sq))
		sum += float64(p * float64(b))
		p = float64(p * (1 - begin))
	}
	excess := squares/sum - 1
	l.correlation = min(max(excess/float64(n-1), 0), 0.9)
	if l.correlation < 1e-6 {
		l.correlation = 0
	}
	return l
}
