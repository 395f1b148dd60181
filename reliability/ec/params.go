// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/units"
)

// params is what START says of a transfer: five bytes and an unsigned varint.
//
//	version   1
//	code      1 XOR, 2 MDS
//	layout    1: group g has the data units from g·k on and the parity units from
//	          g·m on, which are sent behind them
//	k, m
//	unitTime  how long a unit takes at the sender's paced rate, in ns; 0: not paced
type params struct {
	code     Code
	k, m     int
	unitTime units.Duration
}

const (
	paramsVersion = 1
	layoutGroups  = 1
	// maxUnitTime bounds what a peer may claim.
	maxUnitTime = 10 * units.Second
)

func (p *params) append(b []byte) []byte {
	w := varint.Writer{B: append(b, paramsVersion, byte(p.code), layoutGroups, byte(p.k), byte(p.m))}
	w.Uint(uint64(p.unitTime))
	return w.B
}

var errParams = errors.New("ec: the peer's parameters are not those of this version and code; configure both ends alike")

// parseParams reads the peer's parameters, in which it may have written anything.
func parseParams(b []byte, code Code) (params, error) {
	if len(b) < 6 || b[0] != paramsVersion || Code(b[1]) != code || b[2] != layoutGroups {
		return params{}, errParams
	}
	p := params{code: code, k: int(b[3]), m: int(b[4])}
	if err := checkCode(p.k, p.m); err != nil {
		return params{}, fmt.Errorf("ec: %w (the peer's choice)", err)
	}
	r := varint.NewReader(b[5:])
	p.unitTime = units.Duration(r.Uint(uint64(maxUnitTime)))
	if r.Failed() || len(r.Rest()) > 0 {
		return params{}, errParams
	}
	return p, nil
}
