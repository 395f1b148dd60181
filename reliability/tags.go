// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// A tagTable remembers the units in the device's hands. Each queue pair completes
// in order and has a bounded depth, so a ring for each does without a map.
type tagTable struct {
	mask  uint64
	paths []tagRing
}

type tagRing struct {
	next    uint64
	entries []tagged
}

type tagged struct {
	t    *sendTransfer
	sent scheme.Sent
}

// A tag is the path in the high 16 bits and the ring position below.
const tagShift = 48

func (x *tagTable) init(q sdr.QPConfig) {
	x.mask = 1<<bits.Len(uint(q.SendDepth)) - 1
	x.paths = make([]tagRing, q.Channels*q.Generations)
}

// put notes a transmission and returns its tag.
func (x *tagTable) put(path int, t *sendTransfer, s scheme.Sent) uint64 {
	r := &x.paths[path]
	if r.entries == nil {
		r.entries = make([]tagged, x.mask+1)
	}
	at := r.next & x.mask
	r.next++
	r.entries[at] = tagged{t, s}
	return uint64(path)<<tagShift | at
}

// take returns the transmission of a tag.
func (x *tagTable) take(tag uint64) (*sendTransfer, scheme.Sent) {
	path, at := tag>>tagShift, tag&(1<<tagShift-1)
	if path >= uint64(len(x.paths)) || at >= uint64(len(x.paths[path].entries)) {
		return nil, scheme.Sent{}
	}
	e := &x.paths[path].entries[at]
	t, s := e.t, e.sent
	e.t = nil
	return t, s
}
