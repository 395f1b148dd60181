// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A visit is what a server did for one client, by what the client told of each point.
type visit struct {
	from      net.Addr // nil until it is connected
	begun     time.Time
	points    int
	transfers int
	bytes     units.Bytes
	wrong     int
}

// What a point may be said to have at most, more than a day has at a hundred million transfers a second and 800 Gbit/s, so that no client's sums
// wrap around.
const (
	mostTransfers             = 10_000_000_000_000
	mostCarried   units.Bytes = 1 << 53
)

// begin notes who has come.
func (v *visit) begin(from net.Addr) { v.from, v.begun = from, time.Now() }

// add notes a point, whose numbers come from the network.
func (v *visit) add(r *result.Result, size units.Bytes) {
	n := min(max(r.Iterations, 0), mostTransfers)
	v.points++
	v.transfers += n
	v.bytes += min(units.Bytes(n), mostCarried/max(size, 1)) * size
	if r.Verified != nil && !*r.Verified {
		v.wrong++
	}
}

// breakOff notes a point that didn't come to its end, by what came here of it.
func (v *visit) breakOff(n int, size units.Bytes) {
	v.transfers += n
	v.bytes += units.Bytes(n) * size
}

// conclude says what a client got, and whether it stayed to the end.
func (v *visit) conclude(w io.Writer, err error) {
	if v.from == nil {
		return // nobody came
	}
	how := "done"
	if err != nil {
		how = "broke off"
	}
	fmt.Fprintf(w, "client %v %s: %s\n", v.from, how, v.text(time.Since(v.begun)))
}

func (v *visit) text(took time.Duration) string {
	text := fmt.Sprintf("%s, %s, %v in %s", plural(v.points, "point"), plural(v.transfers, "transfer"), v.bytes, units.FormatDuration(took.Round(time.Millisecond)))
	if v.wrong > 0 {
		text += fmt.Sprintf(", content WRONG in %s", plural(v.wrong, "point"))
	}
	return text
}

// A ledger is what a server that stays did for all its clients.
type ledger struct {
	begun   time.Time
	clients int
	broken  int // of clients
	all     visit
}

// enter adds a client's visit.
func (l *ledger) enter(v *visit, err error) {
	if v.from == nil {
		return
	}
	l.clients++
	if err != nil {
		l.broken++
	}
	l.all.points += v.points
	l.all.transfers += v.transfers
	l.all.bytes += v.bytes
	l.all.wrong += v.wrong
}

// conclude says what all of it was.
func (l *ledger) conclude(w io.Writer) {
	broken := ""
	if l.broken > 0 {
		broken = fmt.Sprintf(" (%d broke off)", l.broken)
	}
	fmt.Fprintf(w, "served %s%s: %s\n", plural(l.clients, "client"), broken, l.all.text(time.Since(l.begun)))
}
