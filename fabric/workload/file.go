// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

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

func atoi(s string, most int) (int, bool) {
	v, err := strconv.Atoi(s)
	return v, err == nil && v >= 0 && v <= most
}

// ReadNS3 reads the flow.txt of HPCC's ns-3 simulator and its descendants: the number of flows, then
// a line for each with source, destination, priority, destination port, bytes and start in seconds:
//
//	2133
//	12 20 3 100 2090 2.000025862
//
// The run begins when the first flow starts: that instant is subtracted, except for the whole-second
// part, so that nanoseconds stay those of the file. Source ports are numbered from 10000 for each pair
// of hosts, as there. The priority is not used: all flows are of the default class.
func ReadNS3(r io.Reader) ([]Flow, error) {
	in := &lines{s: bufio.NewScanner(r)}
	flows, err := readNS3(in)
	if err != nil {
		return nil, operr.New("read", fmt.Sprintf("flow list, line %d", in.n), "%w", err)
	}
	return flows, nil
}

func readNS3(in *lines) ([]Flow, error) {
	head, err := in.fields()
	if err != nil {
		return nil, err
	}
	n, ok := atoi(head[0], MaxFlows)
	if !ok || len(head) != 1 {
		return nil, fmt.Errorf("want the number of flows, at most %d: found %q", MaxFlows, strings.Join(head, " "))
	}
	var flows []Flow
	ports := map[[2]int]uint16{}
	first := int64(math.MaxInt64)
	for i := range n {
		f, err := in.fields()
		if err != nil {
			return nil, fmt.Errorf("%w, behind %d of %d flows", err, i, n)
		}
		flow, err := ns3Flow(f)
		if err != nil {
			return nil, err
		}
		pair := [2]int{flow.Src, flow.Dst}
		flow.SrcPort = 10000 + ports[pair]
		ports[pair]++
		first = min(first, int64(flow.Start))
		flows = append(flows, flow)
	}
	for i := range flows {
		flows[i].Start -= units.Instant(first / 1e9 * 1e9)
		if flows[i].Start > maxStart {
			return nil, fmt.Errorf("flow %d starts more than a minute behind the first one", i)
		}
	}
	return flows, nil
}

func ns3Flow(f []string) (flow Flow, err error) {
	bad := fmt.Errorf("want source, destination, priority, port, bytes and start in seconds: found %q", strings.Join(f, " "))
	if len(f) != 6 {
		return flow, bad
	}
	var ok [5]bool
	var port, size int
	flow.Src, ok[0] = atoi(f[0], math.MaxInt32)
	flow.Dst, ok[1] = atoi(f[1], math.MaxInt32)
	_, ok[2] = atoi(f[2], 255)
	port, ok[3] = atoi(f[3], math.MaxUint16)
	size, ok[4] = atoi(f[4], int(MaxSize))
	if ok != [5]bool{true, true, true, true, true} || size == 0 {
		return flow, bad
	}
	flow.DstPort, flow.Size = uint16(port), units.Bytes(size)
	// Exact to the nanosecond; ParseDuration takes no exponents.
	whole, part, _ := strings.Cut(f[5], ".")
	part = (part + "000000000")[:9]
	s, err1 := strconv.ParseUint(whole, 10, 31)
	ns, err2 := strconv.ParseUint(part, 10, 31)
	if err1 != nil || err2 != nil {
		return flow, bad
	}
	flow.Start = units.Instant(s*1e9 + ns)
	return flow, nil
}

// ReadHtsim reads a connection matrix (.cm) of htsim: Nodes and Connections, then a line for each
// connection, with its start in picoseconds, or the trigger it waits for, and its size in bytes; and
// the triggers:
//
//	0->13 id 1 start 0 size 2000000 send_done_trigger 1
//	13->0 id 2 trigger 1 size 2000000
//	trigger id 1 oneshot
//
// Starts are rounded down to nanoseconds. A trigger pulled when sending is done counts as pulled when
// all has been received. A barrier is passed when all connections that name it are done, which must be
// as many as its count says; another trigger may have one such connection only. Failures belong to the
// topology and are refused.
func ReadHtsim(r io.Reader) ([]Flow, error) {
	in := &lines{s: bufio.NewScanner(r)}
	m := matrix{pulledBy: map[int][]int32{}, barrier: map[int]int{}}
	for {
		f, err := in.fields()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = m.line(f)
		}
		if err != nil {
			return nil, operr.New("read", fmt.Sprintf("connection matrix, line %d", in.n), "%w", err)
		}
	}
	flows, err := m.resolve()
	if err != nil {
		return nil, operr.New("read", "connection matrix", "%w", err)
	}
	return flows, nil
}

type matrix struct {
	nodes, connections int
	flows              []Flow
	waits              []int           // the trigger of each flow; 0: none
	pulledBy           map[int][]int32 // flows by trigger
	barrier            map[int]int     // the count of each barrier
}

func (m *matrix) line(f []string) error {
	if strings.Contains(f[0], "->") {
		return m.connection(f)
	}
	switch f[0] {
	case "Nodes", "Connections", "Triggers", "Failures":
		if len(f) != 2 {
			return fmt.Errorf("want a number behind %s", f[0])
		}
		v, ok := atoi(f[1], MaxFlows)
		switch {
		case !ok:
			return fmt.Errorf("%s %q: want a number from 0 to %d", f[0], f[1], MaxFlows)
		case f[0] == "Nodes":
			m.nodes = v
		case f[0] == "Connections":
			m.connections = v
		case f[0] == "Failures" && v > 0:
			return fmt.Errorf("failures are not read: describe them with the topology")
		}
		return nil
	case "trigger":
		return m.trigger(f[1:])
	}
	return fmt.Errorf("want a connection such as \"0->13 start 0 size 2000000\" or a trigger: found %q", strings.Join(f, " "))
}

func (m *matrix) connection(f []string) error {
	src, dst, _ := strings.Cut(f[0], "->")
	var flow Flow
	var ok1, ok2 bool
	flow.Src, ok1 = atoi(src, m.nodes-1)
	flow.Dst, ok2 = atoi(dst, m.nodes-1)
	if !ok1 || !ok2 {
		return fmt.Errorf("%q: want two of the %d nodes that Nodes says", f[0], m.nodes)
	}
	if len(m.flows) == MaxFlows {
		return fmt.Errorf("more than %d connections", MaxFlows)
	}
	if len(f)%2 == 0 {
		return fmt.Errorf("want pairs of a keyword and a number behind %s", f[0])
	}
	trigger, started := 0, false
	for i := 1; i < len(f); i += 2 {
		v, err := strconv.ParseFloat(f[i+1], 64)
		if err != nil || !(v >= 0 && v <= float64(MaxSize)*1000) {
			return fmt.Errorf("%s %q: want a number that is not negative", f[i], f[i+1])
		}
		switch f[i] {
		case "start":
			flow.Start, started = units.Instant(v/1000), true
		case "size":
			flow.Size = units.Bytes(v)
		case "trigger":
			trigger = int(v)
		case "send_done_trigger", "recv_done_trigger":
			m.pulledBy[int(v)] = append(m.pulledBy[int(v)], int32(len(m.flows)))
		case "id", "msg", "prio":
		default:
			return fmt.Errorf("unknown keyword %q", f[i])
		}
	}
	switch {
	case started == (trigger != 0):
		return fmt.Errorf("%s needs either a start or a trigger", f[0])
	case flow.Size == 0 || flow.Size > MaxSize || flow.Start > maxStart:
		return fmt.Errorf("%s: want a size from 1 to %d, and a start within a minute", f[0], MaxSize)
	}
	m.flows, m.waits = append(m.flows, flow), append(m.waits, trigger)
	return nil
}

func (m *matrix) trigger(f []string) error {
	id, count, barrier := 0, 0, false
	for i := 0; i < len(f); i++ {
		switch f[i] {
		case "id", "count":
			ok := i+1 < len(f)
			v := 0
			if ok {
				v, ok = atoi(f[i+1], MaxFlows)
			}
			if !ok {
				return fmt.Errorf("want a number behind %s", f[i])
			}
			if f[i] == "id" {
				id = v
			} else {
				count = v
			}
			i++
		case "oneshot", "multishot":
		case "barrier":
			barrier = true
		default:
			return fmt.Errorf("unknown keyword %q", f[i])
		}
	}
	if barrier {
		m.barrier[id] = count
	}
	return nil
}

func (m *matrix) resolve() ([]Flow, error) {
	if len(m.flows) != m.connections {
		return nil, fmt.Errorf("%d connections, but Connections says %d", len(m.flows), m.connections)
	}
	for i, t := range m.waits {
		if t == 0 {
			continue
		}
		by := m.pulledBy[t]
		count, barrier := m.barrier[t]
		switch {
		case len(by) == 0:
			return nil, fmt.Errorf("connection %d waits for trigger %d, which nothing pulls", i+1, t)
		case barrier && count != len(by):
			return nil, fmt.Errorf("barrier %d counts to %d, but %d connections pull it", t, count, len(by))
		case !barrier && len(by) > 1:
			return nil, fmt.Errorf("trigger %d is pulled by %d connections: only a barrier may be", t, len(by))
		}
		m.flows[i].After = by
	}
	return m.flows, nil
}
