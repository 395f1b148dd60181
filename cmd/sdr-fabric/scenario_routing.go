// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/fabric"
)

const routingHelp = `ecmp[:mix|murmur|symmetric]   by a hash of the flow; murmur is ns-3's
entropy                       by a hash of flow and packet, as the sender wishes
random                        drawn for each packet
leastqueue[:N]                fewest bytes waiting, of all ports or of N drawn ones (DRILL)
leastqueue:weighted           the shortest time of what waits, where ports differ in rate
flowlet[:TIME]                drawn anew after a pause of that length`

// complete fills in what follows from flags that were given. A transport that names a path for each packet
// needs switches that heed it: by a hash of the flow alone all of its packets would take one.
func (s *scenario) complete() {
	if s.Routing != "" {
		return
	}
	name, _, _ := strings.Cut(s.Transport, ":")
	if s.Routing = "ecmp"; slices.Contains([]string{"mprdma", "strack", "uet"}, name) {
		s.Routing = "entropy"
	}
}

func parseRouting(s string) (r fabric.Routing, err error) {
	name, rest, more := strings.Cut(s, ":")
	switch name {
	case "ecmp":
		r.Mode = fabric.ECMP
		hashes := map[string]fabric.Hash{"": fabric.Mix, "mix": fabric.Mix, "murmur": fabric.Murmur, "symmetric": fabric.Symmetric}
		h, ok := hashes[rest]
		if !ok {
			return r, fmt.Errorf("routing %q: choose the hash mix, murmur or symmetric", s)
		}
		r.Hash, more = h, false
	case "entropy":
		r.Mode = fabric.Entropy
	case "random":
		r.Mode = fabric.Random
	case "leastqueue":
		r.Mode = fabric.LeastQueue
		if r.Weighted = rest == "weighted"; more && !r.Weighted {
			if r.Choices, err = strconv.Atoi(rest); err != nil || r.Choices < 1 {
				return r, fmt.Errorf("routing %q: write how many ports are compared, such as leastqueue:2, or leastqueue:weighted", s)
			}
		}
		more = false
	case "flowlet":
		r.Mode = fabric.Flowlet
		if more {
			err = positive(toDuration(&r.Gap))(rest)
		}
		more = false
	default:
		return r, fmt.Errorf("routing %q is unknown: choose ecmp, entropy, random, leastqueue or flowlet", name)
	}
	if err == nil && more {
		err = fmt.Errorf("%s takes no option", name)
	}
	if err != nil {
		return r, fmt.Errorf("routing %q: %w", s, err)
	}
	return r, nil
}
