// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/internal/varint"
)

// params is what START says of a transfer: a byte, five unsigned varints and
// the acknowledgements' parameters.
//
//	version   3
//	tail      the first unit of the tail
//	groups    how many groups the tail has; 0: none
//	rows      how many rows each has at first
//	wantTail  how many units the tail would have, given room for parity
//	n         the length of what follows: the parameters of package loss
type params struct {
	plan
	repeat []byte
}

const paramsVersion = 3

func (p *params) append(b []byte) []byte {
	b = append(b, paramsVersion)
	for _, v := range [...]int{p.tail, p.groups, p.rows, p.wantTail, len(p.repeat)} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return append(b, p.repeat...)
}

var errParams = errors.New("adaptive: the peer's parameters make no sense or are not those of this version; configure both ends alike")

// parseParams reads what the peer said of a transfer of n units, which may be
// anything.
func parseParams(b []byte, n int) (params, error) {
	if len(b) == 0 || b[0] != paramsVersion {
		return params{}, errParams
	}
	r := varint.NewReader(b[1:])
	p := params{plan: plan{units: n}}
	p.tail = r.Int(n)
	p.groups = r.Int(mostGroups(n - p.tail))
	p.rows = r.Int(maxGroup)
	p.wantTail = r.Int(n)
	size := r.Int(len(r.Rest()))
	if r.Failed() || size != len(r.Rest()) {
		return params{}, errParams
	}
	p.repeat = r.Rest()
	if p.groups == 0 {
		if p.tail != n || p.rows != 0 {
			return params{}, errParams
		}
		return p, nil
	}
	if p.rows == 0 || p.k()+p.rows > maxGroup {
		return params{}, errParams
	}
	return p, nil
}
