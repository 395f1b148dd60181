// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"crypto/subtle"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/reedsolomon"

	"github.com/sdr-rdma/go-sdr/units"
)

// Sizes of Figure 11: "128 MiB buffer, 64 KiB chunk size, k = 32, m = 8".
const (
	encodeBuffer = 128 * units.MiB
	encodeUnit   = 64 * units.KiB
	encodeK      = 32
	encodeM      = 8
)

// An encoder fills the last encodeM of its shards from the first encodeK.
type encoder func(shards [][]byte) error

// reedSolomon asks for two goroutines a call although the submessages themselves are coded in
// parallel: with one, the library takes a serial path that doesn't use GFNI and is half as fast.
func reedSolomon() (encoder, error) {
	rs, err := reedsolomon.New(encodeK, encodeM, reedsolomon.WithMaxGoroutines(2))
	if err != nil {
		return nil, err
	}
	return rs.Encode, nil
}

// xorParity computes parity i as the XOR of the data units j with j mod m = i. Whole units measured
// faster than blocks that fit the first-level cache.
func xorParity(shards [][]byte) error {
	for i := range encodeM {
		parity, first := shards[encodeK+i], shards[i]
		for j := i + encodeM; j < encodeK; j += encodeM {
			subtle.XORBytes(parity, first, shards[j])
			first = parity
		}
	}
	return nil
}

// A codingBench encodes the whole buffer, submessage by submessage.
type codingBench struct{ groups [][][]byte }

func newCodingBench() *codingBench {
	data := make([]byte, encodeBuffer)
	fill := rand.NewChaCha8([32]byte{1})
	_, _ = fill.Read(data) // never fails
	b := &codingBench{}
	for len(data) > 0 {
		parity := make([]byte, encodeM*encodeUnit)
		var shards [][]byte
		for range encodeK {
			shards, data = append(shards, data[:encodeUnit:encodeUnit]), data[encodeUnit:]
		}
		for range encodeM {
			shards, parity = append(shards, parity[:encodeUnit:encodeUnit]), parity[encodeUnit:]
		}
		b.groups = append(b.groups, shards)
	}
	return b
}

// rate returns the rate of data with that many cores in the best of several passes: whatever else the
// machine does only slows one down.
func (b *codingBench) rate(enc encoder, cores, passes int) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	best := 0.0
	for range passes {
		start := time.Now()
		if err := b.pass(enc, cores); err != nil {
			return 0, err
		}
		best = max(best, float64(encodeBuffer)*8/time.Since(start).Seconds())
	}
	return best, nil
}

func (b *codingBench) pass(enc encoder, workers int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for {
				n := int(next.Add(1) - 1)
				if n >= len(b.groups) {
					return
				}
				if err := enc(b.groups[n]); err != nil {
					errs[w] = fmt.Errorf("submessage %d: %w", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
