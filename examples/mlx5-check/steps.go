// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// sequence numbers the messages of all steps: a slot's turn comes when the one before is revoked.
var sequence uint64

func next() uint64 { sequence++; return sequence - 1 }

// packetsOf is how many packets a message has.
func (p *pair) packetsOf() int { return int(messageSize / p.mtu) }

// writes moves messages packet by packet and compares: each packet completes once, in order, and all bytes are there.
func writes(w io.Writer, p *pair, _ config) error {
	const messages = 200
	rng := rand.NewChaCha8([32]byte{1})
	packets := 0
	for range messages {
		_, _ = rng.Read(p.from.mem[:messageSize])
		err := p.message(func(rkey uint32, va uint64, mem []byte) error {
			var ws []backend.Write
			for i := range p.packetsOf() {
				ws = append(ws, p.write(rkey, va, units.Bytes(i)*p.mtu, int(p.mtu), uint32(i)))
			}
			if err := p.post(ws); err != nil {
				return err
			}
			imm := uint32(0)
			got, err := p.arrive(len(ws), unheard, func(c *backend.Completion) error {
				if c.Status != backend.StatusOK || c.Imm != imm || c.Len != uint32(p.mtu) {
					return fmt.Errorf("completion %+v, expected immediate %d", *c, imm)
				}
				imm++
				return nil
			})
			switch {
			case err != nil:
				return err
			case got < len(ws):
				return fmt.Errorf("%d of %d packets of a message completed", got, len(ws))
			case !bytes.Equal(mem, p.from.mem[:messageSize]):
				return errors.New("a message isn't what was sent")
			}
			packets += got
			return nil
		})
		if err != nil {
			return err
		}
	}
	line(w, "messages, packets", "%d, %d: each completed once, in order, with its bytes", messages, packets)
	return nil
}

// latePackets writes to messages that are revoked, and with keys that don't exist, and says what becomes of the writes and of the queue pair.
func latePackets(w io.Writer, p *pair, _ config) error {
	n := next()
	rkey, va, mem, err := p.expose(n)
	if err != nil {
		return err
	}
	p.to.table.StartRevoke(n)
	if err := p.revoked(n); err != nil {
		return err
	}
	var landed error
	for _, t := range []struct {
		name string
		rkey uint32
		va   uint64
	}{
		{"write to a revoked message", rkey, va}, {"write with another variant", rkey ^ 1, va}, {"write with an unknown key", rkey ^ 1<<20, va},
		{"write beyond all messages", rkey, 1 << 50},
	} {
		clear(mem)
		if err := p.post([]backend.Write{p.write(t.rkey, t.va, 0, 100, 15)}); err != nil {
			return err
		}
		completed, err := p.arrive(1, late, nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(mem, make([]byte, len(mem))) {
			landed = fmt.Errorf("%s: it landed", t.name)
		}
		alive, err := p.alive()
		if err != nil {
			return err
		}
		line(w, t.name, "completes at the receiver: %v; the queue pair goes on: %v", completed == 1, alive)
		if !alive {
			if err := p.connect(); err != nil {
				return err
			}
		}
	}
	return landed
}

// alive tells whether a packet still gets through.
func (p *pair) alive() (bool, error) {
	got := 0
	var failed error
	err := p.message(func(rkey uint32, va uint64, _ []byte) error {
		if failed = p.post([]backend.Write{p.write(rkey, va, 0, 1, 15)}); failed == nil {
			got, failed = p.arrive(1, unheard, nil)
		}
		return nil // that the queue pair has failed is an answer
	})
	return got == 1 && failed == nil, err
}

// mark is what memory is filled with that no packet may change, and content what packets bring.
const mark, content = 0x5a, 0xa5

// leastCut is how many streams are to be cut.
const leastCut = 10

// fence takes messages back while packets fill them, at times spread over that of a whole message, marks their memory as soon as it is
// said to be done, and looks for packets that came still later. Where there are some, revoking is no fence, and the latest tells how long
// to wait.
func fence(w io.Writer, p *pair, c config) error {
	rng := rand.New(rand.NewPCG(1, 2))
	fill(p.from.mem, content)
	whole, err := p.stream(func([]byte) (bool, error) { return false, nil })
	if err != nil {
		return err
	}
	long := max(500*time.Microsecond, 3*whole)
	streams, cut, late := 0, 0, 0
	var latest time.Duration
	// Where few streams are cut, on a host that is busy, it goes on for longer.
	for begun := time.Now(); time.Since(begun) < c.each || cut < leastCut && time.Since(begun) < 10*c.each; streams++ {
		pause := time.Duration(rng.Int64N(int64(whole + whole/4)))
		_, err := p.stream(func(mem []byte) (bool, error) {
			for start := time.Now(); time.Since(start) < pause; {
				continue
			}
			n := sequence - 1
			p.to.table.StartRevoke(n)
			if err := p.revoked(n); err != nil {
				return true, err
			}
			done := time.Now()
			came := bytes.Count(mem, []byte{content})
			fill(mem, mark)
			if came > 0 && came < len(mem) {
				cut++
			}
			if d, found := watch(mem, done, long); found {
				late++
				latest = max(latest, d)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	line(w, "a message takes", "%v", whole)
	line(w, "streams", "%d, cut by the revocation %d", streams, cut)
	line(w, "with packets after it", "%d, the latest after %v", late, latest)
	switch {
	case late > 0:
		line(w, "so it is", "no fence")
	case cut == 0:
		line(w, "so", "nothing is known: no stream was cut")
	default:
		line(w, "so it", "may be a fence: none of %d cut streams went on", cut)
	}
	return nil
}

// stream fills a marked message packet by packet. meanwhile does what it does to the message's memory, and tells whether it has revoked
// it. stream returns when nothing comes any more, with the time that it took.
func (p *pair) stream(meanwhile func(mem []byte) (revoked bool, err error)) (time.Duration, error) {
	n := next()
	rkey, va, mem, err := p.expose(n)
	if err != nil {
		return 0, err
	}
	fill(mem, mark)
	var ws []backend.Write
	for i := range p.packetsOf() {
		ws = append(ws, p.write(rkey, va, units.Bytes(i)*p.mtu, int(p.mtu), uint32(i)))
	}
	start := time.Now()
	if err := p.post(ws); err != nil {
		return 0, err
	}
	revoked, err := meanwhile(mem)
	if err != nil {
		return 0, err
	}
	if revoked {
		_, err = p.arrive(len(ws), time.Millisecond, nil)
		return time.Since(start), err
	}
	_, err = p.arrive(len(ws), unheard, nil)
	took := time.Since(start)
	p.to.table.StartRevoke(n)
	if err == nil {
		err = p.revoked(n)
	}
	return took, err
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// watch looks for so long whether marked memory changes, and when it last did.
func watch(mem []byte, since time.Time, long time.Duration) (last time.Duration, found bool) {
	for {
		elapsed := time.Since(since)
		if bytes.Count(mem, []byte{mark}) < len(mem) {
			last, found = elapsed, true
			fill(mem, mark)
		}
		if elapsed-last > long {
			return last, found
		}
	}
}

// keys measures what exposing and revoking a message costs, as the backend does it and with a registration for each.
func keys(w io.Writer, p *pair, c config) error {
	if err := keyTimes(w, p, c.each/2); err != nil || !p.to.dev.Caps().RootKey {
		return err
	}
	each, err := newPair(c, true)
	if err != nil {
		return err
	}
	defer each.close()
	return keyTimes(w, each, c.each/2)
}

func keyTimes(w io.Writer, p *pair, each time.Duration) error {
	what := "registration"
	if p.to.dev.Caps().RootKey {
		what = "one key"
	}
	var exposed, revoked []time.Duration
	for end := time.Now().Add(each); len(exposed) == 0 || time.Now().Before(end); {
		n := next()
		start := time.Now()
		if _, _, _, err := p.expose(n); err != nil {
			return err
		}
		between := time.Now()
		p.to.table.StartRevoke(n)
		if err := p.revoked(n); err != nil {
			return err
		}
		exposed, revoked = append(exposed, between.Sub(start)), append(revoked, time.Since(between))
	}
	for i, all := range [][]time.Duration{exposed, revoked} {
		slices.Sort(all)
		line(w, what+": "+[]string{"expose", "revoke"}[i], "%d times, median %v, 99th percentile %v", len(all), all[len(all)/2], all[len(all)*99/100])
	}
	return nil
}

// rate measures writes with immediate, full packets and small ones. One thread posts, and polls both ends.
func rate(w io.Writer, p *pair, c config) error {
	for _, size := range []int{int(p.mtu), 64} {
		err := p.message(func(rkey uint32, va uint64, _ []byte) error { return p.writeFor(w, c.each/2, rkey, va, size) })
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFor writes packets of a size for a time, no more than fit the queues.
func (p *pair) writeFor(w io.Writer, each time.Duration, rkey uint32, va uint64, size int) error {
	const batch = 64
	ws := make([]backend.Write, batch)
	for i := range ws {
		ws[i] = p.write(rkey, va, units.Bytes(i%p.packetsOf())*p.mtu, size, uint32(i))
	}
	sent, got := 0, 0
	start := time.Now()
	for time.Since(start) < each {
		if sent-got <= depth {
			if err := p.post(ws); err != nil {
				return err
			}
			sent += batch
		}
		k, err := p.arrive(batch, unheard, nil)
		if err != nil {
			return err
		}
		if got += k; k < batch {
			return fmt.Errorf("of %d packets %d arrived", sent, got)
		}
	}
	took := time.Since(start).Seconds()
	line(w, fmt.Sprintf("%d bytes a packet", size), "%.3f million packets/s, %.2f Gbit/s of payload, %d packets", float64(got)/took/1e6,
		float64(got)*float64(size)*8/took/1e9, got)
	return nil
}
