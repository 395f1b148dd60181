// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Track is the way in which a receiver knows what it has.
type Track uint8

// The ways.
const (
	// Counter counts the packets of each message: each arrives once, as long as every loss is told of.
	Counter Track = iota
	// Bitmap has a bit for each packet: copies do no harm (section 4.5, "Orthogonality").
	Bitmap
)

// Config is what both ends have in common. Use it through Factory, or after Complete.
type Config struct {
	Track Track
	// Published has header-only packets carry no round, as in the paper: unsafe after a timeout.
	Published bool
	// Congestion makes the controller of each end; nil: none.
	Congestion congestion.Factory
	// CNPInterval is the least time between two congestion notifications; 0: each marked packet is notified.
	CNPInterval units.Duration
	// RTO is the timeout without a sign of life of the oldest message, while nothing of it may be sent; it is doubled with each round until
	// it is a minute. 0: the longer of 4 ms and eight base round trips.
	RTO units.Duration
	// Retries is after how many timeouts a message fails, at most 255; 0: 7.
	Retries int
	// Batch is how many packets a scheduling round has, and how many entries of the retransmission queue it fetches
	// at most; 0: 16.
	Batch int
	// AckInterval is the least time between acknowledgements of what is repeated although it is whole; 0: one base
	// round trip.
	AckInterval units.Duration
	// Message is how many packets a message has into which Factory splits what it carries; 0: MostPackets.
	Message int
}

const (
	defaultRTO = 4 * units.Millisecond
	// longestRTO ends the doubling, which would else pass what an instant holds before 255 rounds are over.
	longestRTO     = units.Minute
	defaultRetries = 7
	defaultBatch   = 16
	// queueMost is the bound of the retransmission queue: an entry for each packet that can be under way.
	queueMost = InFlight * MostPackets
)

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	if c.Track > Bitmap {
		return operr.New("configure", "dcp", "tracking %d: choose counter or bitmap", c.Track)
	}
	if c.Retries < 0 || c.Retries > 255 || c.Batch < 0 || c.Batch > MostPackets || c.Message < 0 || c.Message > MostPackets {
		return operr.New("configure", "dcp", "%d retries, batches of %d, messages of %d packets: must be within 0 and 255, %d and %d (0: the default)", c.Retries, c.Batch, c.Message, MostPackets, MostPackets)
	}
	for _, d := range []units.Duration{c.RTO, c.CNPInterval, c.AckInterval} {
		if d < 0 || d > 60*units.Second {
			return operr.New("configure", "dcp", "time of %d ns: must be between 0 and 60 s", int64(d))
		}
	}
	return nil
}

// Complete returns c with defaults for a path of that base round trip.
func (c Config) Complete(baseRTT units.Duration) *Config {
	c.RTO = cmp.Or(c.RTO, max(defaultRTO, 8*baseRTT))
	c.Retries = cmp.Or(c.Retries, defaultRetries)
	c.Batch = cmp.Or(c.Batch, defaultBatch)
	c.AckInterval = cmp.Or(c.AckInterval, baseRTT)
	c.Message = cmp.Or(c.Message, MostPackets)
	return &c
}
