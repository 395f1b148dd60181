// SPDX-License-Identifier: Apache-2.0

package userroce

import "github.com/sdr-rdma/go-sdr/units"

// A moderation decides when a receiver that has emptied its socket reads it again, as the interrupt moderation of a NIC does. A
// receiver that is faster than its sender and reads on takes each train as soon as it is there, when its data are still in the caches
// of the sender's processor, and each processor waits for lines that the other has. When some hundred KiB lie in between,
// the data have gone on to the cache that both share.
//
// The last packets of a burst pay for that with a pause, so only streams that are fast enough to fill it are moderated. So does a stream
// whose sender waits for what this end says, as with a few small messages under way, and which pause is best a [trial] finds out.
type moderation struct {
	state moderationState
	// read is when the socket was read last, and until is the end of the pause, in state pausing.
	read, until units.Instant
	// since is when the present stretch began, bytes is what it has brought, and streamed how long that took. Of a time for which nothing came
	// that is slowStretch and no more: how long a stream has stopped says nothing about pauses.
	since    units.Instant
	bytes    units.Bytes
	streamed units.Duration
	trial    trial // of pauses
}

type moderationState uint8

const (
	// The socket is small, and might overflow in a pause: it is always read.
	unmoderated moderationState = iota
	// The stream is slow: the socket is read at every poll.
	prompt
	// The stream is fast: a pause follows when the socket has been emptied.
	moderated
	// The socket has been emptied: the pause begins when its packets have been handled.
	emptied
	pausing
)

const (
	// A stream is fast when a stretch of it, moderatedStretch long, has come at moderatedRate or more.
	moderatedRate    = 20 * units.Gbit
	moderatedStretch = units.MiB
	// leastModerated is the least socket buffer, as the kernel counts it, for pauses: several times what comes in one at 100 Gbit/s.
	leastModerated = 4 * units.MiB
)

// slowStretch is after what time a stretch is over, however little it has brought: the stream isn't fast.
var slowStretch = moderatedRate.Time(moderatedStretch)

// pauses are the settings of the trial. The longest lets some 200 KB come at 40 Gbit/s, and is less than an idle worker spins by default.
var pauses = [...]units.Duration{15 * units.Microsecond, 40 * units.Microsecond}

// begin starts with a receive buffer of so many bytes, with no stream.
func (m *moderation) begin(buffer units.Bytes) {
	*m = moderation{trial: newTrial(uint8(len(pauses)))}
	if buffer >= leastModerated {
		m.state = prompt
	}
}

// paused reports whether the socket is to be left alone at now. It is called when all that was read has been handled.
func (m *moderation) paused(now units.Instant) bool {
	switch m.state {
	case emptied:
		if now.Sub(m.read) > slowStretch { // a caller who runs the worker was away: what has come has waited for long enough
			m.state = moderated
			return false
		}
		m.state, m.until = pausing, now.Add(pauses[m.trial.used])
		return true
	case pausing:
		if now < m.until {
			return true
		}
		m.state = moderated
	}
	return false
}

// took notes how much was read at now, and whether that was all there was.
func (m *moderation) took(now units.Instant, bytes units.Bytes, all bool) {
	if m.state == unmoderated {
		return
	}
	m.bytes, m.streamed = m.bytes+bytes, m.streamed+min(now.Sub(m.read), slowStretch)
	m.read = now
	if elapsed := now.Sub(m.since); m.bytes >= moderatedStretch || elapsed > slowStretch {
		if m.state != prompt {
			m.trial.note(m.bytes, m.streamed)
		}
		m.state = prompt
		if elapsed > 0 && elapsed <= moderatedRate.Time(m.bytes) {
			m.state = moderated
		}
		m.since, m.bytes, m.streamed = now, 0, 0
	}
	if all && m.state == moderated {
		m.state = emptied
	}
}
