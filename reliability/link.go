// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"log/slog"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A link is what both halves of a Conn build on. What isn't set once is guarded by the
// Conn's lock, as everything in both halves is.
type link struct {
	qp   *sdr.QP
	cfg  Config
	qcfg sdr.QPConfig
	log  *slog.Logger
	layout
	// partial: the scheme lets transfers end with units missing.
	partial bool

	// port is what the QP offers while Progress runs, nil otherwise; now is when it runs.
	port *sdr.Port
	now  units.Instant
	// stoodStill is Port.StoodStill when Progress last ran.
	stoodStill units.Duration
	// env is what cores see of the connection, updated once in each Progress, and envs how often it has changed.
	env  scheme.Env
	envs uint64
	// pause is idlePause, in virtual time idlePauseVirtual.
	pause units.Duration
	// hasNews: sdr.Arrivals.News tells whether something has come. The packet engine of a device sets no such word.
	hasNews bool
	// trims: a switch has trimmed packets of ours, or it was configured that they do.
	trims bool

	coding coding
	// finished are the counters of transfers that have ended.
	finished   scheme.Stats
	violations uint64
}

func (l *link) init() {
	l.log, l.trims = l.cfg.Logger, l.cfg.Trims
	l.pause = idlePause
	if l.qp.Endpoint().Caps().Virtual {
		l.pause = idlePauseVirtual
	}
	if _, l.partial = l.cfg.Scheme.(scheme.Partial); l.partial {
		l.cfg.Window = max(l.cfg.Window, 2) // half a window on must be another message: see completePassed
	}
	l.layout = newLayout(&l.cfg, l.qcfg.MTU)
	l.header = l.qp.Endpoint().Caps().HeaderBytes
	l.hasNews = l.qp.Endpoint().Caps().HostPackets
	if !l.hasNews {
		l.positionsPerUnit = int(l.cfg.Unit / l.qcfg.Chunk)
	}
	l.coding.init(l)
}

// later is when to call what wants to be called at next: then, or after a pause where that isn't after now.
func later(now, next units.Instant, pause units.Duration) units.Instant {
	if next > now {
		return next
	}
	return now.Add(pause)
}

const (
	// idlePause is after what time a core is polled again, or a congestion control asked, that has nothing to do and wants that at an instant that
	// is over: in real time the worker would do nothing else, and a virtual clock stand still.
	idlePause        = units.Millisecond
	idlePauseVirtual = units.Microsecond
	// marksLast is for how long a queue that has marked packets is still taken to be on the path.
	marksLast = 10 * units.Second
	// minAckInterval keeps acknowledgements off the fast path on short round trips.
	minAckInterval = 100 * units.Microsecond
	// minRepeatInterval is longer than packets of 4 KiB are apart at 70 Mbit/s, so that what was last acknowledged isn't said again
	// between any two of them. From round trips of 16 ms on the interval is longer anyhow.
	minRepeatInterval = 500 * units.Microsecond
)

// updateEnv updates what the cores see of the connection.
func (l *link) updateEnv(pace *pacer) {
	e, before := &l.env, l.env
	e.RTT, e.RTTVar, e.MinRTT = l.port.RTT()
	e.Answered = l.port.Answered()
	e.Channels = l.qcfg.Channels
	e.AckInterval = min(max(e.RTT/32, minAckInterval), 5*units.Millisecond)
	e.RepeatInterval = minRepeatInterval
	if l.qp.Endpoint().Caps().Virtual {
		e.AckInterval, e.RepeatInterval = max(e.RTT/32, units.Microsecond), 0
	}
	e.MaxFrame = l.port.MaxScheme() - progressSize
	last, ever := l.port.Congested()
	e.ECN = ever && l.now.Sub(last) <= e.RTT+e.AckInterval
	e.Marks = ever && l.now.Sub(last) <= marksLast
	e.Trims = l.trims
	datagrams, bytes := l.port.ControlSent()
	pace.control = units.Bytes(bytes) + units.Bytes(datagrams)*l.header
	pace.update(l.now, l)
	e.Rate, e.Full = pace.rate(), pace.full()
	if *e != before {
		l.envs++
	}
}

// broken is what a transfer fails with when the scheme, or its half of one, breaks a rule.
func (l *link) broken(format string, args ...any) error {
	return fmt.Errorf("%w: scheme %s %s", sdr.ErrArgument, l.cfg.Scheme.Name(), fmt.Sprintf(format, args...))
}

// errFrame: a half of the scheme here made a frame that no datagram carries.
var errFrame = fmt.Errorf("%w", sdr.ErrTooLong)

// peerFrame is why a transfer has ended for which a half of the scheme at the peer made such a frame.
func (l *link) peerFrame(ended error) error {
	return fmt.Errorf("%w: %w: the peer's half of the scheme made a frame longer than Env.MaxFrame, %d bytes here", ended, sdr.ErrTooLong, l.env.MaxFrame)
}

// checkFrame refuses a frame of a core that is longer than it may be, while nothing of it has been sent: a Port would end the QP for it.
func (l *link) checkFrame(b []byte) error {
	if len(b) <= l.env.MaxFrame {
		return nil
	}
	return fmt.Errorf("%w: scheme %s made a frame of %d bytes: want at most Env.MaxFrame, %d", errFrame, l.cfg.Scheme.Name(), len(b), l.env.MaxFrame)
}

// A layout says how the units of a transfer lie in messages. Both sides derive the same.
type layout struct {
	unit, mtu, messageSize units.Bytes
	// header is what a packet takes of the wire besides its payload.
	header units.Bytes
	// packetsPerUnit are of a whole unit. unitsPerMessage are of a data message, and
	// unitsPerParity of a parity message.
	packetsPerUnit, unitsPerMessage, unitsPerParity int
	// positionsPerUnit is how many positions of a message's map a whole unit has: see positionMap.
	positionsPerUnit int
}

// maxUnitsPerParity is how many parity units share a message.
const maxUnitsPerParity = 64

func newLayout(c *Config, mtu units.Bytes) layout {
	n := int(c.MessageSize / c.Unit)
	return layout{
		unit: c.Unit, mtu: mtu, messageSize: c.MessageSize,
		packetsPerUnit: int(c.Unit / mtu), unitsPerMessage: n, unitsPerParity: min(maxUnitsPerParity, n),
		positionsPerUnit: int(c.Unit / mtu),
	}
}

// units is how many units n bytes take, messages how many messages, at least 1: an
// empty transfer takes an empty message.
func (l *layout) units(n units.Bytes) int    { return int((n + l.unit - 1) / l.unit) }
func (l *layout) messages(n units.Bytes) int { return max(1, int((n+l.messageSize-1)/l.messageSize)) }

// message is where data message i begins in a transfer of total bytes, and how long it
// is; not positive if the transfer has no such message.
func (l *layout) message(i int, total units.Bytes) (begin, n units.Bytes) {
	begin = units.Bytes(i) * l.messageSize
	return begin, min(l.messageSize, total-begin)
}

// packets is how many packets carry n bytes of a unit.
func (l *layout) packets(n units.Bytes) int { return int((n + l.mtu - 1) / l.mtu) }

// cost is what n bytes of a unit take of a rate of user data in full packets: what their packets take on the wire, of what a full one
// does.
func (l *layout) cost(n units.Bytes) units.Bytes {
	if n == l.unit {
		return n
	}
	return max(1, (n+units.Bytes(l.packets(n))*l.header)*l.mtu/(l.mtu+l.header))
}

// parityLen is how long the parity units of a transfer are: as its longest unit, the first.
func parityLen(t *scheme.Transfer) units.Bytes { return t.UnitLen(0) }

func (l *layout) parityBytes() units.Bytes { return units.Bytes(l.unitsPerParity) * l.unit }

// parityOffset is where a parity unit begins in its message: a whole unit after the one before, however long they are.
func (l *layout) parityOffset(u scheme.Unit) units.Bytes {
	return units.Bytes(u.Index()%l.unitsPerParity) * l.unit
}

// parityMessages is how many messages carry the parity of a transfer of n units.
func (l *link) parityMessages(n int) int {
	return (l.cfg.Scheme.ParityUnits(n) + l.unitsPerParity - 1) / l.unitsPerParity
}
