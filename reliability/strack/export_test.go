// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// AckLine is an acknowledgement of the core as a line of a trace. The fabric's don't say which packet caused them.
func AckLine(p *transport.Packet) string {
	return fmt.Sprintf("ack by path %d, marked %v, probe %v: expected %d, beyond %d, received %d, from %d %016x",
		p.Entropy, p.Flags&transport.Echo != 0, p.Sack.Probe, p.Expected, p.Sack.Beyond, p.Sack.Received, p.Sack.Base, p.Sack.Bitmap)
}

// FrameLines are the acknowledgements of a frame as such lines.
func FrameLines(frame []byte, channels int) (lines []string) {
	var r report
	if err := r.parse(frame, channels); err != nil {
		return []string{err.Error()}
	}
	for i := range r.acks {
		a := &r.acks[i]
		p := transport.Packet{Entropy: uint16(a.channel), Expected: a.expected, Sack: &transport.Selective{
			Bitmap: a.bitmap, Base: a.base, Beyond: a.beyond, Received: units.Bytes(a.received), Probe: a.flags&flagProbe != 0,
		}}
		if a.flags&flagECN != 0 {
			p.Flags = transport.Echo
		}
		lines = append(lines, AckLine(&p))
	}
	return lines
}
