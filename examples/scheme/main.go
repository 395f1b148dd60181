// SPDX-License-Identifier: Apache-2.0

// Scheme is a reliability scheme of one's own, in under 100 lines (rounds.go), and a
// program that moves a few transfers with it, and with schemes that go-sdr brings,
// over the same emulated link. It runs in virtual time, so that it prints the same
// each time. docs/schemes.md explains it.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	rate      = 10 * units.Gbit
	roundTrip = 20 * units.Millisecond
	drop      = 1e-3 // per packet
	mtu       = 4 * units.KiB
	size      = 16 * units.MiB
	transfers = 10
)

func main() {
	flag.Parse() // there are none, which -h says
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "scheme: %q: it takes no arguments\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	ideal := rate.Time(size) + roundTrip
	fmt.Fprintf(w, "%d transfers of %v, %v, %v, %g of the packets of %v lost; ideal %v\n", transfers, size, rate, units.FormatDuration(roundTrip), drop, mtu, units.FormatDuration(ideal))
	for _, newScheme := range []func() (scheme.Scheme, error){
		func() (scheme.Scheme, error) { return none.New(), nil },
		func() (scheme.Scheme, error) { return rounds{}, nil },
		func() (scheme.Scheme, error) { return sr.New(sr.Config{}) },
		func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) },
	} {
		l, err := newLink(newScheme)
		if err != nil {
			return err
		}
		var total units.Duration
		missing := 0
		for range transfers {
			took, lost, err := l.move(size)
			if err != nil {
				return err
			}
			total, missing = total+took, missing+lost
		}
		s := l.conn[0].Stats().Units
		mean := total / transfers
		fmt.Fprintf(w, "%-8s  mean %5.1f ms, %.2f of ideal, %2d units repeated, %2d missing\n",
			l.name, 1e3*mean.Seconds(), float64(mean)/float64(ideal), s.Retransmitted, missing)
		l.close()
	}
	return nil
}
