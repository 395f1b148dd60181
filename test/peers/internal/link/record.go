// SPDX-License-Identifier: Apache-2.0

package link

import "time"

// Bin is how long each of a flow's Records is.
const Bin = 10 * time.Millisecond

// A Record is what happened to the packets of a flow within one Bin.
type Record struct {
	// Bytes left the queue within the Bin, and arrived later.
	Bytes uint64
	// Packets came within the Bin. Dropped of them found the queue full or were dropped early, Lost got
	// lost behind it or in an outage, and Marked were marked.
	Packets, Dropped, Lost, Marked uint64
	// Wait is how long those that were taken waited in the queue in all, and Most the longest queue that
	// one of them found or made, in bytes.
	Wait time.Duration
	Most int
}

// Add adds what happened to other packets.
func (r *Record) Add(x *Record) {
	r.Bytes += x.Bytes
	r.Packets += x.Packets
	r.Dropped += x.Dropped
	r.Lost += x.Lost
	r.Marked += x.Marked
	r.Wait += x.Wait
	r.Most = max(r.Most, x.Most)
}

// records are those of one direction, by flow. Only its thread writes them.
type records struct {
	begun  int64 // nanoseconds; 0: nothing is recorded yet
	flows  [][]Record
	before Record // what isn't recorded
}

func (r *records) at(flow int, t int64) *Record {
	if r.begun == 0 || t < r.begun {
		return &r.before
	}
	i := int((t - r.begun) / Bin.Nanoseconds())
	for len(r.flows[flow]) <= i {
		r.flows[flow] = append(r.flows[flow], Record{})
	}
	return &r.flows[flow][i]
}
