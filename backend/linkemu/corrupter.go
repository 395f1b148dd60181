// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
)

// CorrupterConfig says how often packets are damaged.
type CorrupterConfig struct {
	// Corrupt is the probability, 0 to 1, with which up to four consecutive
	// bytes of a packet are changed; Truncate that with which its end is cut
	// off, all but its first byte at most.
	Corrupt, Truncate float64
	// Seed makes the damage repeatable. Give the two sides different seeds.
	Seed uint64
}

// A Corrupter damages the packets that a device sends, after their checksums
// have been made. It is the Wire of a device that has one, such as
// userroce.Config.Wire. What it does to the i-th packet depends on the seed
// alone. Its methods may be called from any goroutine.
type Corrupter struct {
	pCorrupt, pTruncate netsim.Prob

	mu sync.Mutex
	// One generator for each decision, drawn from once a packet.
	// +checklocks:mu
	corrupt, truncate, where, what netsim.Stream
	// +checklocks:mu
	counts CorrupterStats
}

// CorrupterStats counts what a Corrupter has done.
type CorrupterStats struct {
	Packets, Corrupted, Truncated uint64
}

var _ backend.Wire = (*Corrupter)(nil)

// Purposes of the generators: part of what makes runs repeatable.
const (
	forCorrupt = 100 + iota
	forTruncate
	forWhere
	forWhat
)

// NewCorrupter makes a Corrupter.
func NewCorrupter(c CorrupterConfig) (*Corrupter, error) {
	if !(c.Corrupt >= 0 && c.Corrupt <= 1) || !(c.Truncate >= 0 && c.Truncate <= 1) {
		return nil, operr.New("wrap", "linkemu", "corrupt probability %v, truncate %v: must be between 0 and 1", c.Corrupt, c.Truncate)
	}
	return &Corrupter{
		pCorrupt:  netsim.ProbOf(c.Corrupt),
		pTruncate: netsim.ProbOf(c.Truncate),
		corrupt:   netsim.NewStream(c.Seed, forCorrupt),
		truncate:  netsim.NewStream(c.Seed, forTruncate),
		where:     netsim.NewStream(c.Seed, forWhere),
		what:      netsim.NewStream(c.Seed, forWhat),
	}, nil
}

// Outbound implements backend.Wire.
func (c *Corrupter) Outbound(batch []backend.WirePacket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		c.damage(&batch[i])
	}
}

// Inbound implements backend.Wire; the other side has done the damage.
func (c *Corrupter) Inbound([]backend.WirePacket) {}

// Stats returns the counts so far.
func (c *Corrupter) Stats() CorrupterStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// c.mu is held.
func (c *Corrupter) damage(p *backend.WirePacket) {
	corrupt, truncate := c.corrupt.Hit(c.pCorrupt), c.truncate.Hit(c.pTruncate)
	where, what := c.where.Uint64(), c.what.Uint64()
	c.counts.Packets++
	if len(p.Data) == 0 {
		return
	}
	if corrupt {
		at := int(where % uint64(len(p.Data)))
		// Any other four bytes, of which the first does change.
		for i, b := 0, what|1; i < min(4, len(p.Data)-at); i++ {
			p.Data[at+i] ^= byte(b >> (8 * i))
		}
		c.counts.Corrupted++
	}
	if truncate && len(p.Data) > 1 {
		p.Data = p.Data[:1+where>>32%uint64(len(p.Data)-1)]
		c.counts.Truncated++
	}
}
