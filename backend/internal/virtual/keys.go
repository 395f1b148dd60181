// SPDX-License-Identifier: Apache-2.0

package virtual

import "github.com/sdr-rdma/go-sdr/internal/ring"

// A keyUse says what an rkey opens: message n of a table, or all of it.
type keyUse struct {
	table *table // nil: nothing
	n     uint64
	root  bool
}

// keys hands out rkeys as NICs do: an index in the upper 24 bits and a variant
// in the lower 8 that changes with each use of the index, so that a dead key
// stays dead for long.
type keys struct {
	uses    []keyUse
	variant []uint8
	free    ring.Ring[uint32]
}

// maxKeys is what fits beside the variant.
const maxKeys = 1 << 24

func (k *keys) add(u keyUse) (rkey uint32, ok bool) {
	var i uint32
	switch {
	case k.free.Len() > 0:
		i = k.free.Pop()
	case len(k.uses) < maxKeys:
		i = uint32(len(k.uses))
		k.uses = append(k.uses, keyUse{})
		k.variant = append(k.variant, 0)
	default:
		return 0, false
	}
	k.variant[i]++
	k.uses[i] = u
	return i<<8 | uint32(k.variant[i]), true
}

func (k *keys) find(rkey uint32) keyUse {
	i := rkey >> 8
	if i >= uint32(len(k.uses)) || k.variant[i] != uint8(rkey) {
		return keyUse{}
	}
	return k.uses[i]
}

func (k *keys) remove(rkey uint32) {
	i := rkey >> 8
	k.uses[i] = keyUse{}
	k.free.Push(i)
}
