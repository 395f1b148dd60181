// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// ReadNS3 reads the topology.txt of HPCC's ns-3 simulator and its descendants: a line with the numbers
// of nodes, switches and links; the numbers of the switches; and a line for each link with its two
// nodes, its rate, its delay and, in most files, the probability that it loses a packet:
//
//	50 18 75
//	32 33 34 …
//	0 32 100Gbps 1000ns 0.000000
//
// All other nodes are hosts. What follows the last link is ignored, as there, and so is a line that begins with #. Tiers are left unknown.
func ReadNS3(r io.Reader) (*Graph, error) {
	in := &lines{s: bufio.NewScanner(r)}
	in.s.Buffer(nil, 1<<20) // the line of the switches may be long
	g, err := readNS3(in)
	if err != nil {
		return nil, operr.New("read", fmt.Sprintf("topology file, line %d", in.n), "%w", err)
	}
	return g, g.Validate()
}

func readNS3(in *lines) (*Graph, error) {
	var nodes, switches, links int
	head, err := in.fields()
	if err != nil {
		return nil, err
	}
	if len(head) != 3 || !allInts(head, MaxLinks, &nodes, &switches, &links) || nodes > MaxNodes || switches > nodes {
		return nil, fmt.Errorf("want the numbers of nodes, of switches among them and of links, at most %d and %d: found %q", MaxNodes, MaxLinks, strings.Join(head, " "))
	}
	g := &Graph{Nodes: make([]Node, nodes)}
	for found := 0; found < switches; {
		ids, err := in.fields()
		if err != nil {
			return nil, fmt.Errorf("%w, behind %d of %d switches", err, found, switches)
		}
		for _, s := range ids {
			id, err := strconv.Atoi(s)
			if err != nil || id < 0 || id >= nodes {
				return nil, fmt.Errorf("switch %q: want a node from 0 to %d", s, nodes-1)
			}
			if g.Nodes[id].Kind == Switch {
				return nil, fmt.Errorf("switch %d is there twice", id)
			}
			g.Nodes[id].Kind = Switch
		}
		if found += len(ids); found > switches {
			return nil, fmt.Errorf("%d switches, but the first line says %d", found, switches)
		}
	}
	for i := range links {
		f, err := in.fields()
		if err != nil {
			return nil, fmt.Errorf("%w, behind %d of %d links", err, i, links)
		}
		l, err := ns3Link(f, nodes)
		if err != nil {
			return nil, err
		}
		if err := g.checkLink(l); err != nil {
			return nil, err
		}
		g.Links = append(g.Links, l)
	}
	for i := range g.Nodes {
		g.Nodes[i].Name = map[Kind]string{Host: "h", Switch: "s"}[g.Nodes[i].Kind] + strconv.Itoa(i)
	}
	return g, in.s.Err()
}

func ns3Link(f []string, nodes int) (l Link, err error) {
	if len(f) < 4 || len(f) > 5 || !allInts(f[:2], nodes-1, &l.A, &l.B) {
		return l, fmt.Errorf("want a link such as \"0 32 100Gbps 1000ns 0.0\", its nodes from 0 to %d: found %q", nodes-1, strings.Join(f, " "))
	}
	if l.Rate, err = units.ParseRate(f[2]); err != nil {
		return l, err
	}
	if l.Delay, err = units.ParseDuration(f[3]); err != nil {
		return l, err
	}
	if len(f) == 5 {
		if l.Loss, err = strconv.ParseFloat(f[4], 64); err != nil {
			return l, fmt.Errorf("the loss %q is no number", f[4])
		}
	}
	return l, nil
}

// lines reads lines and counts them.
type lines struct {
	s *bufio.Scanner
	n int
}

// fields returns the fields of the next line that isn't empty or a comment.
func (in *lines) fields() ([]string, error) {
	for in.s.Scan() {
		in.n++
		if f := strings.Fields(in.s.Text()); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			return f, nil
		}
	}
	if err := in.s.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

// allInts reads numbers from 0 to most.
func allInts(f []string, most int, to ...*int) bool {
	for i, p := range to {
		v, err := strconv.Atoi(f[i])
		if err != nil || v < 0 || v > most {
			return false
		}
		*p = v
	}
	return true
}
