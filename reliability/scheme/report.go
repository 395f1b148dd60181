// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/internal/varint"
)

// MinReport is the least room for a report.
const MinReport = binary.MaxVarintLen32 + 1

// AppendReport appends to frame what a receiver of total units has: the first
// missing one, and behind it a bit for each from there on, as far as the frame may
// grow, to room bytes, at least MinReport. It is a convenience for schemes without a
// format of their own; ParseReport reads it.
func AppendReport(frame []byte, v View, total, room int) []byte {
	front := v.NextMissing(0)
	frame = binary.AppendUvarint(frame, uint64(front))
	head := len(frame)
	to := min(front+8*max(room-head, 0), total)
	for u := v.NextPresent(front, to); u < to; u = v.NextPresent(u+1, to) {
		for len(frame) <= head+(u-front)/8 {
			frame = append(frame, 0)
		}
		frame[head+(u-front)/8] |= 1 << ((u - front) % 8)
	}
	return frame
}

// ErrReport is returned by ParseReport for what is no report, or one of units that
// were never sent.
var ErrReport = errors.New("scheme: malformed report")

// ParseReport reads a report, which comes from the network, of a transfer of which
// the units below sent have been sent. It calls arrived for each unit from from on
// that is in place, and returns the first missing one.
func ParseReport(frame []byte, from, sent int, arrived func(Unit)) (front int, err error) {
	r := varint.NewReader(frame)
	front = r.Int(sent)
	bitmap := r.Rest()
	if last := len(bitmap) - 1; r.Failed() || last >= 0 && front+8*last+bits.Len8(bitmap[last]) > sent {
		return 0, ErrReport
	}
	for u := from; u < front; u++ {
		arrived(Unit(u))
	}
	for i, b := range bitmap {
		for ; b != 0; b &= b - 1 {
			if u := front + 8*i + bits.TrailingZeros8(b); u >= from {
				arrived(Unit(u))
			}
		}
	}
	return front, nil
}
