// SPDX-License-Identifier: Apache-2.0

// Bitmap prints a partial-completion bitmap while a message arrives over a lossy link, and shows what
// it is good for: the application sees which chunks are missing, and has just those sent again.
// (SDR-RDMA paper, Figure 4.) It runs in virtual time, so that it prints the same each time; on real
// sockets only the devices and the loop of link.run would be others (link.go).
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	mtu     = 4 * units.KiB
	chunk   = 2 * mtu // one bit of the bitmap, as in the figure
	message = 64 * chunk
	tick    = 500 * units.Microsecond

	roundTrip = 4 // ticks
)

func main() {
	flag.Parse() // there are none, which -h says
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bitmap: %q: it takes no arguments\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	l, err := newLink() // 1 Gbit/s, 2 ms, 10 % of the packets are lost
	if err != nil {
		return err
	}
	defer l.close()

	recv, err := l.receiver.PostRecv(l.dst, 0, message)
	if err != nil {
		return err
	}
	send, err := l.sender.StartStream(l.src, 0, message, sdr.SendOptions{})
	if err != nil {
		return err
	}
	if err := send.Send(0, message); err != nil {
		return err
	}
	bitmap := recv.Bitmap()
	for arrived, quiet := 0, 0; arrived < bitmap.Len(); quiet++ {
		l.run(tick)
		fmt.Fprintf(w, "%6s  %s\n", units.FormatDuration(units.Duration(l.net.Now()-l.begun)), draw(&bitmap))
		before := arrived
		if arrived, err = bitmap.Count(), bitmap.Err(); err != nil {
			return err
		}
		if arrived > before {
			quiet = 0
		}
		if quiet == roundTrip { // nothing more comes
			if err := sendMissing(send, &bitmap); err != nil {
				return err
			}
			quiet = 0
		}
	}
	if err := recv.Complete(); err != nil {
		return err
	}
	return send.End()
}

// sendMissing is the selective repeat of the poor. In two processes the receiver would have to say
// which chunks it lacks; package reliability has schemes that do.
func sendMissing(s sdr.SendStream, b *sdr.Bitmap) error {
	for i := range b.Len() {
		if b.Has(i) {
			continue
		}
		if err := s.Send(b.Range(i)); err != nil {
			return err
		}
	}
	return nil
}

// draw shows a chunk that is there as # and one that is missing as a dot.
func draw(b *sdr.Bitmap) string {
	var s strings.Builder
	for i := range b.Len() {
		if b.Has(i) {
			s.WriteByte('#')
		} else {
			s.WriteByte('.')
		}
	}
	return s.String()
}
