// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/congestion/spray"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/transport"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sender lets the core's sender choose what to send, and where.
type sender struct {
	cfg      *Config
	transfer scheme.Transfer
	env      *scheme.Env
	msg      transport.Message
	core     *core.Sender
	paths    paths
	window   watchedWindow
	params   []byte

	log    []transmission // of unit n at n modulo the length, a power of two
	probes [scheme.Probes]transmission
	probe  uint32 // the next one's number

	heard   []scheme.Mark  // how much each channel has delivered, by the peer
	srtt    units.Duration // of all channels, by what they deliver
	backoff uint
	nextRef units.Instant // when dead channels are probed next
	round   baseRound

	report report
	ack    transport.Packet
	sack   transport.Selective
	stats  scheme.Stats
}

// A transmission is the last one of a unit.
type transmission struct {
	at      units.Instant
	order   uint32 // among those of its channel
	channel uint16
	times   uint8 // how often the unit was sent, up to 255
	lost    bool  // proved so since
}

func newSender(c *Config, t scheme.Transfer, env *scheme.Env) (*sender, error) {
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
			base = min(max(env.MinRTT, leastBaseRTT), units.Second)
		}
	}
	s := &sender{cfg: c, transfer: t, env: env, msg: messageOf(&t, rate, base), heard: make([]scheme.Mark, env.Channels)}
	s.round.reset()
	s.window.paper = c.Bitmap
	s.paths.init(s, c.Bitmap, env.Channels)
	cfg := core.Config{
		Paths: env.Channels, BaseRTT: base, AckBytes: units.Bytes(c.AckUnits) * s.msg.MTU,
		Congestion: s.window.make,
	}
	var err error
	if s.core, err = cfg.NewSender(s.msg, &s.paths); err != nil {
		return nil, err
	}
	s.core.SetTimeout(s.timeout())
	s.log = make([]transmission, logLength(s.core.Span()))
	p := params{s.core.Span(), c.AckUnits}
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

func (s *sender) OnJob(units.Instant, uint32) {}

func (s *sender) Stats() scheme.Stats {
	st := s.stats
	st.Timeouts = s.core.Timeouts()
	return st
}

// Outstanding is what the core has in flight.
func (s *sender) Outstanding() int { return int((s.core.Inflight() + s.msg.MTU - 1) / s.msg.MTU) }

func (s *sender) at(unit uint32) *transmission { return &s.log[unit&uint32(len(s.log)-1)] }

// OnSent counts. When a unit left was logged when the core chose it: Conn injects it in the same round.
func (s *sender) OnSent(_ units.Instant, sent []scheme.Sent) {
	for i := range sent {
		if u := sent[i].Unit; u.IsData() {
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
)

// Poll sends what the core wants to send.
func (s *sender) Poll(now units.Instant, out *scheme.Output) (units.Instant, bool, error) {
	s.onTimer(now)
	room := min(out.Budget, cap(out.Sends))
	next := s.probeDead(now, out, room)
	refused := false
	for len(out.Sends) < room && !refused {
		refused = !s.send(now, out)
	}
	if !refused {
		// The budget has ended before the core had: Conn comes back when there is more.
		next = min(next, now.Add(s.msg.BaseRTT))
	}
	return max(min(next, s.core.Next()), now+1), s.core.Done(), nil
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

// send adds the next packet of the core; false: there is none.
func (s *sender) send(now units.Instant, out *scheme.Output) bool {
	fresh := max(out.Window-s.Outstanding(), 0)
	s.core.Limit(uint32(min(s.env.DataLimit, s.transfer.Units, int(s.core.Sent())+fresh)))
	var p transport.Packet
	if !s.core.Transmit(now, &p) {
		return false
	}
	if p.Kind == transport.Probe {
		s.sendProbe(now, out, p.Entropy)
		return true
	}
	x := s.at(p.PSN)
	repeat := p.Flags&transport.Repeat != 0
	if !repeat {
		x.times = 0
	}
	*x = transmission{now, s.paths.sent(p.Entropy), p.Entropy, x.times + min(1, 255-x.times), false}
	out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Unit(p.PSN), Channel: int(p.Entropy), Repeat: repeat})
	return true
}

func (s *sender) sendProbe(now units.Instant, out *scheme.Output, channel uint16) {
	n := s.probe % scheme.Probes
	s.probe++
	s.probes[n] = transmission{at: now, order: s.paths.sent(channel), channel: channel, times: 1}
	out.Sends = append(out.Sends, scheme.Send{Unit: scheme.Probe | scheme.Unit(n), Channel: int(channel)})
}

// probeDead asks dead channels for a sign of life, now and then, and returns when to do so again.
func (s *sender) probeDead(now units.Instant, out *scheme.Output, room int) units.Instant {
	c := s.paths.nextDead(0)
	if c < 0 {
		return units.Never
	}
	if now < s.nextRef {
		return s.nextRef
	}
	for ; c >= 0 && len(out.Sends) < room; c = s.paths.nextDead(c + 1) {
		s.sendProbe(now, out, uint16(c))
	}
	s.nextRef = now.Add(deadProbeRTTs * max(s.msg.BaseRTT, s.env.RTT))
	return s.nextRef
}

var errClaims = errors.New("strack: the peer acknowledges what can't be")

// OnControl takes a frame of the receiver.
func (s *sender) OnControl(now units.Instant, frame []byte) error {
	if err := s.report.parse(frame, len(s.heard)); err != nil {
		return err
	}
	for i := range s.report.channels[:s.report.n] {
		s.onDelivered(&s.report.channels[i])
	}
	for i := range s.report.acks[:s.report.nacks] {
		if !s.onAck(now, &s.report.acks[i]) {
			return errClaims
		}
	}
	if !s.cfg.Bitmap {
		s.prove(now)
	}
	return nil
}

// prove finds losses while something is heard. Packets of a channel keep their order, so that one is lost when some that
// were sent after it on the same channel have arrived. And one that is overdue, because its channel is slow or dead, counts
// as lost: another brings it sooner. The paper's paths are many for each packet, and prove nothing.
func (s *sender) prove(now units.Instant) {
	una := s.core.Expected()
	patience := overdueRTTs * s.srtt
	if s.core.Sent() == uint32(s.transfer.Units) {
		// Nothing else is left for the quicker channels to do.
		q := s.paths.quickest()
		patience = min(patience, q+q/4)
	}
	due := now.Add(-max(patience, s.cfg.MinTimeout))
	if una >= s.core.Sent() || s.at(una).lost || !s.paths.proves(s.at(una), due) {
		return
	}
	end := una
	for ; end < s.core.Sent(); end++ {
		if s.core.Has(end) {
			continue
		}
		x := s.at(end)
		if !x.lost && !s.paths.proves(x, due) {
			break
		}
		x.lost = true
	}
	s.core.Lost(now, end)
}

// onDelivered takes what a channel has delivered by now. Frames overtake each other.
func (s *sender) onDelivered(d *delivered) {
	h := &s.heard[d.channel]
	if d.packets <= h.Count {
		return
	}
	marked := d.marked - min(d.marked, h.Marked)
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
	if s.ack.Sent != units.Never {
		s.measured(now, now.Sub(s.ack.Sent), s.ack.Entropy)
		s.paths.passed(x)
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
	case x.times > 1 && (a.channel < 0 || now.Sub(x.at) < s.paths.least(x.channel)*7/8):
		return units.Never
	}
	return x.at
}

// measured takes a round trip of a channel.
func (s *sender) measured(now units.Instant, rtt units.Duration, channel uint16) {
	if s.srtt == 0 {
		s.srtt = rtt
	}
	s.srtt += (rtt - s.srtt) / 16
	s.paths.measured(channel, rtt)
	if s.cfg.BaseRTT != 0 {
		return
	}
	if base := s.round.add(rtt, s.msg.BaseRTT, s.window.packets(now, s.msg.MTU)); base > 0 {
		s.msg.BaseRTT = base
		s.window.restart(s.msg)
		s.core.Rebase(base)
	}
}

// A baseRound finds out that the base round trip is longer than thought: delay that many samples at a small
// window don't end.
type baseRound struct {
	samples int
	least   units.Duration
}

const (
	// smallWindow packets don't fill a queue, and so many samples in a row are no accident.
	smallWindow, enoughSamples = 8, 8
)

func (r *baseRound) reset() { *r = baseRound{least: units.Duration(units.Never)} }

// add returns the new base, or 0.
func (r *baseRound) add(rtt, base units.Duration, window int) units.Duration {
	if window > smallWindow || rtt < 2*base {
		r.reset()
		return 0
	}
	r.least = min(r.least, rtt)
	if r.samples++; r.samples < enoughSamples {
		return 0
	}
	least := r.least
	r.reset()
	return least
}

// A watchedWindow is the core's controller, which can begin anew on a path of another round trip. The paper's takes no
// loss for a sign, because its switches hold more than the target delay asks for. Queues of other links may not: where
// more than a few packets of a window were lost it is cut by their share, once a round trip, and grows back by an eighth for each window.
type watchedWindow struct {
	congestion.Controller
	path congestion.Path
	// most is what losses allow, 0: they allow anything. cutAt is when they did so last.
	most  units.Bytes
	cutAt units.Instant
	paper bool // losses are no sign
}

const (
	// A window that loses less than a 32nd is not cut, and one that is keeps at least half.
	fewLost, mostCut = 32, 2
	growBack         = 8
)

// make is a congestion.Factory.
func (w *watchedWindow) make(p congestion.Path) congestion.Controller {
	w.path, w.most = p, 0
	f, err := congestion.STrack(congestion.STrackDefaults())
	if err != nil {
		panic(err) // of the defaults
	}
	w.Controller = f(p)
	return w
}

// restart begins anew.
func (w *watchedWindow) restart(m transport.Message) {
	p := w.path
	p.BaseRTT = m.BaseRTT
	w.make(p)
}

func (w *watchedWindow) Limits(now units.Instant) (units.Rate, units.Bytes) {
	r, n := w.Controller.Limits(now)
	if w.most != 0 {
		n = min(n, w.most)
	}
	return r, n
}

func (w *watchedWindow) OnAck(now units.Instant, a *congestion.Ack) {
	w.Controller.OnAck(now, a)
	if w.most != 0 {
		w.most += a.Acked / growBack
		if _, n := w.Controller.Limits(now); w.most >= n {
			w.most = 0
		}
	}
}

func (w *watchedWindow) OnLoss(now units.Instant, l congestion.Loss) {
	w.Controller.OnLoss(now, l)
	_, n := w.Limits(now)
	if w.paper || l.Kind != congestion.LossDetected || l.Bytes < n/fewLost || now.Sub(w.cutAt) < w.path.BaseRTT {
		return
	}
	w.most, w.cutAt = max(n-min(l.Bytes, n/mostCut), w.path.MTU), now
}

// packets is the window.
func (w *watchedWindow) packets(now units.Instant, mtu units.Bytes) int {
	_, n := w.Limits(now)
	return int(n / mtu)
}

// paths are the channels as the core chooses them.
type paths struct {
	s        *sender
	balanced *spray.Balanced // nil: Algorithm 2
	bitmap   *spray.Bitmap
	state    []path
	avoid    int // the channel that lost what is repeated next; -1
}

// A path is what is known of a channel.
type path struct {
	least, srtt units.Duration // the shortest round trip and a smoothed one, 0: not measured
	arrived     uint32         // the number of the last packet that is known to have arrived
}

func (p *paths) init(s *sender, bitmap bool, channels int) {
	*p = paths{s: s, state: make([]path, channels), avoid: -1}
	if bitmap {
		p.bitmap = spray.NewBitmap(channels)
	} else {
		p.balanced = spray.NewBalanced(channels)
	}
}

// Choose implements spray.Chooser. A repeat avoids the channel that lost what it repeats.
func (p *paths) Choose(window int) uint16 {
	switch {
	case p.bitmap != nil:
		return p.bitmap.Choose(window)
	case p.avoid < 0:
		return p.balanced.Choose(window)
	}
	c := p.balanced.ChooseOther(window, uint16(p.avoid))
	p.avoid = -1
	return c
}

// Feedback implements spray.Chooser.
func (p *paths) Feedback(channel uint16, ecn bool) {
	if p.bitmap != nil {
		p.bitmap.Feedback(channel, ecn)
	}
}

// Lost hears that a unit is to be repeated.
func (p *paths) Lost(unit uint32) {
	if p.balanced != nil {
		c := p.s.at(unit).channel
		p.balanced.Lost(c)
		p.avoid = int(c)
	}
}

// sent is the number of the packet that was last chosen for a channel.
func (p *paths) sent(channel uint16) uint32 {
	if p.balanced == nil {
		return 0
	}
	return p.balanced.Sent(channel)
}

// passed takes that a packet has arrived.
func (p *paths) passed(x *transmission) {
	if p.balanced == nil {
		return
	}
	p.balanced.Passed(x.channel, x.order)
	if st := &p.state[x.channel]; int32(x.order-st.arrived) > 0 {
		st.arrived = x.order
	}
}

const (
	// reordering is how many packets of a channel may overtake one.
	reordering = 3
	// overdueRTTs smoothed round trips make a packet overdue.
	overdueRTTs = 2
)

// proves reports whether a packet counts as lost if it hasn't arrived: what was sent before due is overdue.
func (p *paths) proves(x *transmission, due units.Instant) bool {
	return x.at < due || int32(p.state[x.channel].arrived-x.order) > reordering
}

// delivered takes what a channel has delivered since it was last told about.
func (p *paths) delivered(channel uint16, packets, marked uint64) {
	if p.balanced != nil {
		const most = 1 << 20
		p.balanced.Delivered(channel, int(min(packets, most)), int(min(marked, most)))
	}
}

// measured takes a round trip of a channel.
func (p *paths) measured(channel uint16, rtt units.Duration) {
	st := &p.state[channel]
	if st.least == 0 || rtt < st.least {
		st.least = rtt
	}
	if st.srtt == 0 {
		st.srtt = rtt
	}
	st.srtt += (rtt - st.srtt) / 8
}

// quickest is the shortest of the living channels' smoothed round trips; 0: none was measured.
func (p *paths) quickest() (rtt units.Duration) {
	for i := range p.state {
		if p.balanced != nil && p.balanced.Dead(i) {
			continue
		}
		if d := p.state[i].srtt; d > 0 && (rtt == 0 || d < rtt) {
			rtt = d
		}
	}
	return rtt
}

func (p *paths) least(channel uint16) units.Duration { return p.state[channel].least }

func (p *paths) nextDead(from int) int {
	if p.balanced == nil || from >= len(p.state) {
		return -1
	}
	return p.balanced.NextDead(from)
}
