// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/transport"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sender lets the core's sender choose what to send, and where.
type sender struct {
	scheme   *sprayed
	cfg      *Config
	transfer scheme.Transfer
	env      *scheme.Env
	rate     units.Rate // that msg has, whatever the size of units
	msg      transport.Message
	core     *core.Sender
	paths    paths
	window   watchedWindow
	params   []byte

	log    []transmission // of unit n at n modulo the length, a power of two
	probes [scheme.Probes]transmission
	probe  uint32 // the next one's number

	delivered []scheme.Mark  // how much each channel has delivered, by the peer
	srtt      units.Duration // of all channels, by what they deliver
	backoff   uint
	nextProbe units.Instant // when dead channels are probed next, those from deadFrom on
	deadFrom  int
	// probedLast: the last packet was a probe.
	probedLast bool

	coding coding
	// All units before front have arrived or are missing, which have been proved lost and may be under way again.
	front    uint32
	missing  []uint32
	proved   []uint32       // what the frame at hand has proved lost
	late     int            // units that came, and had been proved lost
	rtts     units.Duration // of the round trips that the frame at hand has measured the sum, and their number
	measures int

	lost   int  // units that the receiver has computed, and were lost
	marked bool // a packet was

	report report
	ack    transport.Packet
	sack   transport.Selective
	stats  scheme.Stats
}

// A transmission is the last one of a unit.
type transmission struct {
	at      units.Instant
	order   uint32 // among those of its channel; of a probe whose number was used before and not answered, that of the first
	channel uint16
	times   uint8 // how often the unit was sent, up to 255; of a probe, how many of its number have not been answered
	lost    bool  // proved so since
	passed  bool  // it was proved lost by later packets of its channel, or repeats one that was
}

func newSender(of *sprayed, t scheme.Transfer, env *scheme.Env) (*sender, error) {
	c := &of.cfg
	rate, base := c.LineRate, c.BaseRTT
	if rate == 0 {
		rate = env.Rate
	}
	if rate == 0 {
		rate = defaultLineRate
	}
	if base == 0 {
		base = unknownRTT
		if env.MinRTT > 0 {
			base = min(max(env.MinRTT, leastBaseRTT, of.base), units.Second)
		}
	}
	s := &sender{cfg: c, transfer: t, env: env, scheme: of, rate: rate, msg: messageOf(&t, rate, base), delivered: make([]scheme.Mark, env.Channels), report: newReport(env.Channels)}
	s.window.ignoreLoss, s.window.squeezed = c.Bitmap, &of.round.squeeze
	s.paths.init(s, c.Bitmap, env.Channels)
	cfg := core.Config{
		Paths: env.Channels, BaseRTT: base, AckBytes: units.Bytes(c.AckUnits) * s.msg.MTU,
		Congestion: s.window.newController,
	}
	if n := units.Bytes(t.Units); c.Parity && n*s.msg.MTU <= s.msg.LineRate.Bytes(base) {
		s.coding.parity = of.losses.parity(t.Units)
	}
	s.window.line = s.msg.LineRate
	whole := s.msg
	if c.LineRate == 0 {
		whole = messageOf(&t, max(rate, defaultLineRate), base) // the span can't grow with the rate
	}
	var err error
	if s.core, err = cfg.NewSender(whole, uint32(s.coding.parity), &s.paths); err != nil {
		return nil, err
	}
	of.reordering -= of.reordering / 8
	s.core.SetTimeout(s.timeout())
	s.log = make([]transmission, logLength(s.core.Span()))
	p := params{s.core.Span(), c.AckUnits, s.coding.parity}
	s.params = p.append(nil)
	return s, nil
}

// logLength is a power of two of more than span units.
func logLength(span uint32) uint32 {
	n := uint32(64)
	for n <= span {
		n *= 2
	}
	return n
}

func (s *sender) Params() []byte { return s.params }

func (s *sender) Stats() scheme.Stats {
	st := s.stats
	st.Timeouts = s.core.Timeouts()
	return st
}

// Outstanding is what the core has in flight.
func (s *sender) Outstanding() int { return int((s.core.Inflight() + s.msg.MTU - 1) / s.msg.MTU) }

// Answered implements scheme.AnswerTimer.
func (s *sender) Answered() units.Duration { return s.rtts / units.Duration(max(s.measures, 1)) }

// Late implements scheme.AnswerTimer.
func (s *sender) Late() int { return s.late }

func (s *sender) at(unit uint32) *transmission { return &s.log[unit&uint32(len(s.log)-1)] }

// OnSent counts. When a unit left was logged when the core chose it: Conn injects it in the same round.
func (s *sender) OnSent(_ units.Instant, sent []scheme.Sent) {
	for i := range sent {
		switch u := sent[i].Unit; {
		case u.IsParity():
			s.stats.Sent++
			s.stats.Parity++
		case u.IsData():
			s.stats.Sent++
			if s.at(uint32(u)).times > 1 {
				s.stats.Retransmitted++
			}
		}
	}
}

// timeout is three round trips, of those that Conn and the quickest channel measure the longer, twice as long for each
// timeout since the last acknowledgement.
func (s *sender) timeout() units.Duration {
	rtt := max(s.env.RTT, s.paths.quickest())
	if rtt == 0 {
		rtt = unknownTimeout
	}
	return min(max(timeoutRTTs*rtt, s.cfg.MinTimeout)<<s.backoff, max(units.Second, timeoutRTTs*rtt))
}

const (
	timeoutRTTs    = 3
	unknownTimeout = 100 * units.Millisecond
	maxBackoff     = 7
	// deadProbeRTTs is how often dead channels are probed, in base round trips.
	deadProbeRTTs = 4
	// A packet has waited in a queue that took longer than the least of its channel by a waitShare-th and the pause between two frames.
	waitShare = 32
	// probeGone is how late an answer to a probe may come.
	probeGone = units.Second
)

// Poll sends what the core wants to send.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	s.followRate()
	s.onTimer(now)
	s.encode(out)
	room := min(out.Budget, cap(out.Sends))
	next := units.Never
	if room > 1 || !s.probedLast {
		next = s.probeDead(now, out, room)
	}
	refused := false
	for len(out.Sends) < room && !refused {
		refused = !s.send(now, out, room)
	}
	if room == 1 {
		next = min(next, s.probeDead(now, out, room))
	}
	if !refused {
		// The budget was used up before the core was done: Conn comes back when there is more.
		next = min(next, now.Add(s.msg.BaseRTT))
	}
	return max(min(next, s.core.Next()), now+1), nil
}

// followRate has windows reckoned from the highest rate at which Conn has paced, in steps of a quarter: a congestion control that
// searches for the rate begins low, and finds no more than the window lets through.
func (s *sender) followRate() {
	if s.cfg.LineRate != 0 || s.env.Rate <= s.rate+s.rate/4 {
		return
	}
	s.rate = s.env.Rate
	s.msg.LineRate = messageOf(&s.transfer, s.rate, s.msg.BaseRTT).LineRate
	s.window.restart(s.msg)
}

func (s *sender) onTimer(now units.Instant) {
	if now < s.core.Next() {
		return
	}
	before := s.core.Timeouts()
	s.backoff = min(s.backoff+1, maxBackoff)
	s.core.SetTimeout(s.timeout())
	s.core.OnTimer(now)
	if s.core.Timeouts() == before {
		s.backoff-- // it was a probe's time
		s.core.SetTimeout(s.timeout())
	}
}

// send adds the next packet of the core; false: there is none. At a low rate a probe is due whenever something may be sent. Units take
// turns with them then, or none would ever leave.
func (s *sender) send(now units.Instant, out *scheme.Output, room int) bool {
	fresh := max(out.Window-s.Outstanding(), 0)
	s.core.Limit(uint32(min(s.limit(), int(s.core.Sent())+fresh)))
	var p transport.Packet
	if !s.core.Transmit(now, &p) {
		return false
	}
	if p.Kind == transport.Probe {
		if !s.probedLast || len(out.Sends)+1 < room || !s.send(now, out, room) {
			s.sendProbe(now, out, p.Entropy)
		}
		return true
	}
	s.probedLast = false
	x := s.at(p.PSN)
	repeat := p.Flags&transport.Repeat != 0
	if !repeat {
		x.times = 0
	}
	*x = transmission{
		at: now, order: s.paths.sent(p.Entropy), channel: p.Entropy,
		times:  x.times + min(1, 255-x.times),
		passed: repeat && x.lost && x.passed,
	}
	out.Sends = append(out.Sends, scheme.Send{Unit: unitOf(p.PSN, s.transfer.Units), Channel: int(p.Entropy), Repeat: repeat})
	return true
}

func (s *sender) sendProbe(now units.Instant, out *scheme.Output, channel uint16) {
	n := s.probe % scheme.Probes
	s.probe++
	s.probedLast = true
	x := &s.probes[n]
	if now.Sub(x.at) > max(probeGone, s.timeout()) {
		x.times = 0 // what has not been answered by now won't be
	}
	order := s.paths.sent(channel)
	if x.times > 0 && x.channel == channel {
		order = x.order // which of them will be answered isn't known
	}
	*x = transmission{at: now, order: order, channel: channel, times: x.times + min(1, 255-x.times)}
	out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Probe | scheme.Unit(n), Channel: int(channel)})
}

// probeDead asks dead channels for a sign of life, now and then, and returns when to do so again. Those for which there is no room have
// their turn when Conn comes back with more.
func (s *sender) probeDead(now units.Instant, out *scheme.Output, room int) units.Instant {
	if s.paths.nextDead(0) < 0 {
		return units.Never
	}
	if now < s.nextProbe {
		return s.nextProbe
	}
	for len(out.Sends) < room {
		c := s.paths.nextDead(s.deadFrom)
		if c < 0 {
			s.deadFrom, s.nextProbe = 0, now.Add(deadProbeRTTs*max(s.msg.BaseRTT, s.env.RTT))
			return s.nextProbe
		}
		s.sendProbe(now, out, uint16(c))
		s.deadFrom = c + 1
	}
	return units.Never
}

var errClaims = errors.New("strack: the peer acknowledges what can't be")

// OnControl handles a frame of the receiver.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	if err := s.report.parse(frame, len(s.delivered)); err != nil {
		return err
	}
	s.rtts, s.measures = 0, 0
	for i := range s.report.channels {
		s.onDelivered(&s.report.channels[i])
	}
	for i := range s.report.acks {
		if !s.onAck(now, &s.report.acks[i]) {
			return errClaims
		}
	}
	if !s.learn(s.report.computed) {
		return errClaims
	}
	if !s.cfg.Bitmap {
		s.prove(now)
	}
	return nil
}

// prove finds losses when a frame has arrived. Packets of a channel keep their order, so that one is lost when some that
// were sent after it on the same channel have arrived. And one that is overdue, because its channel is slow or dead, counts
// as lost: another brings it sooner. The paper's paths are many for each packet, and prove nothing.
//
// Repeats get lost, too, and what is proved doesn't wait for those that are under way: it looks at all that was proved lost and has not
// arrived, and beyond that as far as there is proof. What is only overdue waits for the expected unit to be so, unless it is a
// repeat: in a queue that grows all become overdue, one after another.
func (s *sender) prove(now units.Instant) {
	una := s.core.Expected()
	repeatsDue := s.overdueSince(now)
	firstDue := repeatsDue
	if x := s.at(una); x.lost || x.at >= repeatsDue {
		firstDue = 0
	}
	s.proved = s.proved[:0]
	missing := s.missing[:0]
	for _, n := range s.missing {
		if !s.core.Has(n) {
			missing = append(missing, n)
			s.proveUnit(n, firstDue, repeatsDue)
		}
	}
	for s.front = max(s.front, una); s.front < s.core.Sent(); s.front++ {
		if s.core.Has(s.front) {
			continue
		}
		if !s.proveUnit(s.front, firstDue, repeatsDue) {
			break
		}
		missing = append(missing, s.front)
	}
	s.missing = missing
	if len(s.proved) > 0 {
		s.core.Lost(now, s.proved)
	}
}

// proveUnit reports whether a unit that has not arrived is lost now, and is proved so only now. It is overdue if it was sent before an
// instant, which is another one for repeats.
func (s *sender) proveUnit(n uint32, firstDue, repeatsDue units.Instant) bool {
	x, due := s.at(n), repeatsDue
	if x.times == 1 {
		due = firstDue
	}
	if x.lost || !s.paths.proves(x, due) {
		return false
	}
	x.lost, x.passed = true, x.at >= due
	s.proved = append(s.proved, n)
	return true
}

// overdueSince is since when what has not arrived was sent if it isn't overdue.
func (s *sender) overdueSince(now units.Instant) units.Instant {
	overdue := overdueRTTs * s.srtt
	if s.core.Sent() >= uint32(s.transfer.Units) {
		// Nothing else is left for the quicker channels to do.
		q := s.paths.quickest()
		overdue = min(overdue, q+q/4)
	}
	return now.Add(-max(overdue, s.cfg.MinTimeout))
}

// onDelivered handles what a channel has delivered by now. Frames overtake each other.
func (s *sender) onDelivered(d *delivered) {
	h := &s.delivered[d.channel]
	if d.packets <= h.Count {
		return
	}
	marked := d.marked - min(d.marked, h.Marked)
	s.marked = s.marked || marked > 0
	s.paths.delivered(uint16(d.channel), d.packets-h.Count, marked)
	h.Count, h.Marked = d.packets, max(d.marked, h.Marked)
}

// onAck gives the core an acknowledgement; false: it can't be.
func (s *sender) onAck(now units.Instant, a *ack) bool {
	x := &s.probes[a.unit%scheme.Probes]
	if a.flags&flagProbe == 0 {
		if a.unit >= s.core.Sent() {
			return false
		}
		x = s.at(a.unit)
	}
	s.sack = transport.Selective{
		Bitmap: a.bitmap, Base: a.base, Beyond: a.beyond, Received: units.Bytes(a.received), Probe: a.flags&flagProbe != 0,
	}
	s.ack = transport.Packet{
		Kind: transport.Sack, PSN: a.unit, Expected: a.expected, Entropy: x.channel, Sent: s.sentAt(now, a, x), Sack: &s.sack,
	}
	if a.channel >= 0 {
		s.ack.Entropy = uint16(a.channel)
	}
	if a.flags&flagECN != 0 {
		s.ack.Flags |= transport.Echo
	}
	if a.flags&flagProbe == 0 && x.times > 1 && x.passed && !x.lost && now.Sub(x.at) < s.paths.least(x.channel)*7/8 {
		// It is too soon for an answer to the repeat: what was repeated has come, behind later packets of its channel.
		s.late++
		s.scheme.reordering = min(2*max(s.scheme.reordering, reordering), mostReordering)
	}
	answersProbe := a.flags&flagProbe != 0 && x.times > 0
	switch {
	case s.ack.Sent != units.Never:
		s.measured(now, x, s.ack.Entropy)
		s.paths.passed(x)
	case answersProbe && a.channel == int(x.channel):
		s.paths.passed(x) // of a channel that was dead: what it had under way is lost
	}
	if answersProbe {
		x.times--
	}
	before, refused := s.core.Expected(), s.core.Violations()
	s.core.SetTimeout(s.timeout())
	s.core.OnPacket(now, &s.ack)
	if s.core.Expected() > before && s.backoff > 0 {
		s.backoff--
	}
	return s.core.Violations() == refused
}

// sentAt is when the packet left that an acknowledgement answers; units.Never: it may have been an earlier one, or too many
// have been sent since.
func (s *sender) sentAt(now units.Instant, a *ack, x *transmission) units.Instant {
	switch {
	case x.times == 0 || x.at > now:
		return units.Never
	case a.flags&flagProbe == 0 && s.core.Sent()-a.unit > uint32(len(s.log)):
		return units.Never
	case a.channel >= 0 && a.channel != int(x.channel):
		return units.Never
	case x.times > 1 && (a.flags&flagProbe != 0 || a.channel < 0 || now.Sub(x.at) < s.paths.least(x.channel)*7/8):
		return units.Never
	}
	return x.at
}

// measured handles a round-trip sample of a channel. Which of several transmissions was answered is not certain enough to say that
// the base round trip was wrong.
func (s *sender) measured(now units.Instant, x *transmission, channel uint16) {
	rtt := now.Sub(x.at)
	if s.srtt == 0 {
		s.srtt = rtt
	}
	s.srtt += (rtt - s.srtt) / 16
	s.rtts, s.measures = s.rtts+rtt, s.measures+1
	s.paths.measured(channel, rtt)
	if least := s.paths.least(channel); rtt > least+least/waitShare+s.env.AckInterval {
		s.window.waitedAt = now
	}
	if s.cfg.BaseRTT != 0 || x.times > 1 {
		return
	}
	of := s.scheme
	if base := of.round.add(x.at, rtt, s.msg.BaseRTT, s.window.packets(now, s.msg.MTU)); base > 0 {
		of.base = base
	} else if rtt < of.base {
		of.base = rtt // it has become shorter
	}
	if of.base > s.msg.BaseRTT { // by this transfer's round trips, or another's
		s.msg.BaseRTT = of.base
		s.window.restart(s.msg)
		s.core.Rebase(of.base)
		s.paths.rebase(of.base)
	}
}

var _ scheme.AnswerTimer = (*sender)(nil)
