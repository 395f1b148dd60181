// SPDX-License-Identifier: Apache-2.0

// Controller is a congestion controller of one's own (aimd.go), and a program that moves a few transfers
// with it, and with those that go-sdr brings, through the same bottleneck: its queue is shorter than the path,
// so that aimd, which halves its window, leaves the link idle, and the others don't. It runs in virtual time, so
// that it prints the same each time. Give yours as the New of reliability.Config.Congestion; docs/congestion.md
// explains it.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	nic       = 10 * units.Gbit
	rate      = units.Gbit // of the bottleneck, which nobody is told
	queue     = 256 * units.KiB
	roundTrip = 10 * units.Millisecond
	mtu       = 4 * units.KiB
	size      = 16 * units.MiB
	transfers = 5
)

func main() {
	flag.Parse() // there are none, which -h says
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "controller: %q: it takes no arguments\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	ideal := rate.Time(size) + roundTrip
	fmt.Fprintf(w, "%d transfers of %v, %v, %v, queue %v; ideal %v\n", transfers, size, rate, units.FormatDuration(roundTrip), queue, units.FormatDuration(ideal))
	for _, c := range []congestion.Spec{
		{Name: "aimd", New: newAIMD},
		{Name: "search", New: congestion.Search()},
		{Name: "bbr", New: congestion.BBR()},
	} {
		l, err := newLink(c)
		if err != nil {
			return err
		}
		var total units.Duration
		for range transfers {
			took, err := l.move(size)
			if err != nil {
				return err
			}
			total += took
		}
		s := l.conn[0].Stats().Units
		fmt.Fprintf(w, "%-6s  mean %.2f of ideal, %.1f %% of the units repeated\n",
			c.Name, float64(total/transfers)/float64(ideal), 100*float64(s.Retransmitted)/float64(s.Sent))
		l.close()
	}
	return nil
}
