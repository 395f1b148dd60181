// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// risk is ε: how often a transfer's rows may fail to recover its tail.
	risk = 1e-4
	// mostData is the largest k, spareRows what is left for new rows.
	mostData  = 224
	spareRows = 8
	// leastFull is the size of full groups that room for parity is offered for.
	leastFull = 160
	// leastSpread is from how many groups on one or two more cost little.
	leastSpread = 8
	// smallTail is up to how many units one row more costs nothing, where no other transfer waits for its turn, nor anybody for the processor.
	// Where others do, a row is a large part of what so few units send.
	smallTail = 32
)

// A plan is how the tail of a transfer is coded: units tail ≤ u < units are dealt
// out to groups, each followed by rows. Without groups there is no tail.
type plan struct {
	units, tail  int
	groups, rows int
	// wantTail is how many units of tail there would be, given room for parity.
	wantTail int
}

// k is the size of the largest group.
func (p *plan) k() int {
	if p.groups == 0 {
		return 0
	}
	return (p.units - p.tail + p.groups - 1) / p.groups
}

// size is how many units group g has.
func (p *plan) size(g int) int { return (p.units - p.tail - g + p.groups - 1) / p.groups }

// group is the group of a unit of the tail, or −1.
func (p *plan) group(u int) int {
	if u < p.tail || p.groups == 0 {
		return -1
	}
	return (u - p.tail) % p.groups
}

// unit is the i-th unit of group g.
func (p *plan) unit(g, i int) int { return p.tail + g + i*p.groups }

// parity is how many parity units the rows of the tail take. Rows come in turn:
// row r of group g is parity unit r·groups + g, sent in this order.
func (p *plan) parity() int { return p.groups * p.rows }

// newPlan decides for a transfer that begins now.
func newPlan(m *model, t *scheme.Transfer, env *scheme.Env) plan {
	each := env.UnitTime(t)
	p := plan{units: t.Units, tail: t.Units}
	if each <= 0 {
		return p // not paced: the round trip is short, and repeats cost little
	}
	want := int(min(reaction(env)/each+1, units.Duration(t.Units)))
	if env.Trims {
		// Congestion has the rate fall and rise again within a transfer: what is sent in the last reaction isn't known
		// from the rate at its beginning, and to code as much as smallTail costs a row at most.
		want = max(want, min(t.Units, smallTail))
	}
	may := mayFail(each, want, env)
	p.wantTail = want
	p.split(m, want, env, may)
	for p.groups > 0 && p.parity() > env.ParityLimit {
		// Less room than that: protect as much of the end as there is room for.
		room := max(0, env.ParityLimit-env.ParityLimit/16)
		want = min(want-1, (p.units-p.tail)*room/p.parity())
		p.split(m, want, env, may)
	}
	return p
}

// mayFail is how often the rows of a tail of n units may fail to recover it. Where other transfers wait for the rate, each row makes all of
// them wait for a unit's time longer, and all who wait for the processor for a packet's. What it saves is a round trip as often as those before it
// fail: more rows than that pays for are none for a short tail.
func mayFail(each units.Duration, n int, env *scheme.Env) float64 {
	if env.RTT <= 0 || n > smallTail {
		return risk
	}
	return max(risk, (float64(float64(each)*float64(env.Waiting))+float64(env.Contention))/float64(env.RTT))
}

// split makes the last n units the tail, with rows that fail to recover it as often as they may; none, if repeating what gets lost does.
func (p *plan) split(m *model, n int, env *scheme.Env, may float64) {
	p.tail, p.groups, p.rows = p.units-n, 0, 0
	if n <= 0 {
		p.tail = p.units
		return
	}
	if may > risk && m.law(n, 1).above(n, 0) <= may {
		p.tail = p.units
		return
	}
	p.groups = (n + mostData - 1) / mostData
	for range 8 {
		k := p.k()
		limit := max(3, (k+2)/3)
		rows := m.law(k, p.groups).rowsFor(k, p.groups, limit, may)
		if n <= smallTail && env.Waiting == 0 && may <= risk {
			rows = min(rows+1, limit)
		}
		p.rows = rows
		groups := max(p.groups, (2*m.burst95()+rows-1)/rows)
		if full := maxGroup - spareRows - rows; k > full {
			groups = max(groups, (n+full-1)/full)
		}
		if m.meanBurst() <= 1 {
			groups = min(groups, max(p.groups, (n+maxGroup-spareRows-rows-1)/(maxGroup-spareRows-rows)))
		}
		groups = min(groups, mostGroups(n))
		if groups == p.groups {
			break
		}
		p.groups = groups
	}
	p.groups = spread(p.groups, env.Channels, mostGroups(n))
	p.rows = min(p.rows, maxGroup-p.k())
}

// spread is a number of groups, at least this one, with which the units of a group are
// on all channels: units take turns on the channels, and groups on units, so the two
// must have no common divisor. Few groups stay as few: they have few rows, and where
// a channel carries many units in turn they are spread in any case.
func spread(groups, channels, most int) int {
	if groups < leastSpread {
		return groups
	}
	for n := groups; n <= min(groups+channels, most); n++ {
		if coprime(n, channels) {
			return n
		}
	}
	return groups
}

func coprime(a, b int) bool {
	for b > 0 {
		a, b = b, a%b
	}
	return a == 1
}

// mostGroups bounds the groups of a tail of n units, also those that a peer may
// claim.
func mostGroups(n int) int { return min(n, n/16+8) }

// explain says what was chosen and why.
func (p *plan) explain(m *model, env *scheme.Env) string {
	if p.groups == 0 && env.Rate == 0 {
		return "no code, each lost unit is repeated: without a rate (pacing) there is no idle time for parity, and repeats cost little on a short round trip"
	}
	if who := waiting(env); p.groups == 0 && who != "" && env.ParityLimit > 0 {
		return fmt.Sprintf("no code, each lost unit is repeated: for parity %s would wait, for longer than it saves; at most %.2g of the units get lost",
			who, m.drop())
	}
	why := fmt.Sprintf("at most %.2g of the units get lost, in bursts of %.1f on average; rate %v, RTT %v",
		m.drop(), m.meanBurst(), env.Rate, units.FormatDuration(env.RTT))
	if p.groups == 0 {
		return "no code, each lost unit is repeated: there is no room for parity (reliability.Config.ParityPool); " + why
	}
	coded := p.units - p.tail
	if coded < p.wantTail {
		why += fmt.Sprintf("; more would be coded, %d units, if there were room for their parity (reliability.Config.ParityPool)", p.wantTail)
	}
	split := fmt.Sprintf("over all %d units", p.units)
	if p.tail > 0 {
		split = fmt.Sprintf("over the last %d of %d units, lost ones of the first %d are repeated", coded, p.units, p.tail)
	}
	return fmt.Sprintf("k %d, m %d in %s %s; %.1f %% parity: %s",
		p.k(), p.rows, plural(p.groups, "group"), split, 100*float64(p.groups*p.rows)/float64(p.units), why)
}

// waiting names those who wait for what the transfer sends, "" for nobody.
func waiting(env *scheme.Env) string {
	transfers := plural(env.Waiting, "other transfer")
	switch {
	case env.Contention == 0 && env.Waiting == 0:
		return ""
	case env.Contention == 0:
		return transfers
	case env.Waiting == 0:
		return "others that wait for the processor"
	default:
		return transfers + ", and others that wait for the processor,"
	}
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
