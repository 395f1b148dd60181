// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/bare"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// A scenario is everything that decides the result of a run. Its JSON is the config of a report.
type scenario struct {
	Topo          string         `json:"topo"`
	Load          string         `json:"load"`
	Transport     string         `json:"transport"`
	CC            string         `json:"cc"`
	Routing       string         `json:"routing"`
	Buffer        string         `json:"buffer"`
	ECN           string         `json:"ecn"`
	MTU           units.Bytes    `json:"mtu_bytes"`
	Header        units.Bytes    `json:"header_bytes"`
	AckSize       units.Bytes    `json:"ack_bytes"`
	PauseSize     units.Bytes    `json:"pause_bytes"`
	SwitchLatency units.Duration `json:"switch_latency_ns"`
	Loss          float64        `json:"loss_per_packet"`
	Trim          string         `json:"trim,omitempty"`
	Forced        float64        `json:"forced_per_packet,omitempty"`
	Until         units.Duration `json:"until_ns"`
	Seed          uint64         `json:"seed"`
	// Sample is how often queues and rates are looked at; 0: never.
	Sample units.Duration `json:"sample_ns,omitempty"`
	// Check verifies conservation while the run goes on. It changes no result.
	Check bool `json:"-"`
}

func defaultScenario() scenario {
	return scenario{
		Topo: "leafspine:4x8x8,100G,1us", Load: "perm:1MiB", Transport: "gbn", CC: "none", Routing: "ecmp", Buffer: "endless", ECN: "none",
		MTU: 4096, Header: 64, AckSize: 64, PauseSize: 64, Seed: 1,
	}
}

func (s *scenario) register(f *pflag.FlagSet) {
	*s = defaultScenario()
	s.Routing = "" // follows the transport
	s.registerNetwork(f)
	f.StringVar(&s.Load, "load", s.Load, "traffic: see the values above")
	f.StringVar(&s.Transport, "transport", s.Transport, "how NICs repair losses: see above")
	f.StringVar(&s.CC, "cc", s.CC, "congestion control: see above")
	f.StringVar(&s.Routing, "routing", s.Routing, "how switches choose among paths; default: entropy with mprdma, strack and uet, ecmp with others; see above")
	f.Var(&s.PauseSize, "pause-size", "bytes of a PFC frame")
	f.Float64Var(&s.Loss, "loss", s.Loss, "probability that a link loses a packet, per packet and link")
	f.StringVar(&s.Trim, "trim", s.Trim, "switches cut data to their headers instead of dropping them; default: they don't; see above")
	f.Float64Var(&s.Forced, "forced", s.Forced, "probability that a switch loses a data packet although it has room, per packet and switch: trims it with --trim, else drops it")
	f.Var((*units.DurationValue)(&s.Until), "until", "simulated time to stop at, such as 5ms; 0: when all messages are complete")
	f.Var((*units.DurationValue)(&s.Sample), "sample", "how often queues and rates are looked at, for the report's \"samples\"; 0: never")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "of everything that is drawn: the same seed gives the same result")
	f.BoolVar(&s.Check, "check", s.Check, "verify while it runs that no packet and no byte appears or vanishes (slower)")
}

// networkValues are those of registerNetwork's flags, allValues of register's.
func networkValues() string {
	return usage.Values("topo", topo.Help) + "\n" + usage.Values("buffer", bufferHelp) + "\n" + usage.Values("ecn", ecnHelp)
}

func allValues() string {
	return networkValues() + "\n" + usage.Values("load", workload.Help) + "\n" + usage.Values("transport", transportHelp) + "\n" +
		usage.Values("cc", congestion.Help) + "\n" + usage.Values("routing", routingHelp) + "\n" + usage.Values("trim", trimHelp)
}

// registerNetwork has the flags of what doesn't send.
func (s *scenario) registerNetwork(f *pflag.FlagSet) {
	f.StringVar(&s.Topo, "topo", s.Topo, "network, or a file as ns-3's topology.txt, or htsim's if it ends in .topo; see above")
	f.StringVar(&s.Buffer, "buffer", s.Buffer, "memory of each switch: see above")
	f.StringVar(&s.ECN, "ecn", s.ECN, "marking by RED: see above")
	f.Var(&s.MTU, "mtu", "payload of a full packet")
	f.Var(&s.Header, "header", "what a data packet takes on the wire besides")
	f.Var(&s.AckSize, "ack-size", "bytes of acknowledgements and notifications")
	f.Var((*units.DurationValue)(&s.SwitchLatency), "switch-latency", "what a switch adds to the delay of the links to it")
}

const transportHelp = `gbn[:OPTION,...]   go-back-N, as ConnectX-5
irn[:OPTION,...]   selective repeat and a window of one bandwidth-delay product (IRN)
     window=SIZE ack=N rto=TIME rtolow=TIME lowflight=N nakdelay=TIME nakinterval=TIME cnp=packets
     repace        a packet that waits for its pace hears of a new rate, as with htsim's DCQCN
     marks=kept    a mark within the interval of a notification is told when it is over, as in DCQCN's paper, not forgotten
     reorder=N     of irn: how many packets may arrive before a missing one is taken for lost
timeout[:OPTION,...] packets in any order; only a timeout tells of a loss (options of gbn; a window of 512 packets)
racktlp[:OPTION,...] selective repeat by time (RACK-TLP), a window of one bandwidth-delay product
     window=SIZE span=WINDOWS reorder=TIME rto=TIME
mprdma[:OPTION,...] many paths by the clock of acknowledgements (MP-RDMA); wants --ecn and PFC
     initial=PACKETS delta=PACKETS bitmap=PACKETS rto=TIME
dcp[:OPTION,...]   headers that switches have cut off come back and are repeated (DCP); wants --trim, takes --cc dcqcn or fixed
     track=bitmap ho=57 message=PACKETS batch=N rto=TIME retries=N
strack[:OPTION,...] a path for each packet and a window of its own (STrack); wants --ecn
     oblivious paths=N ack=SIZE rto=TIME base=TIME; wmax=1.5 and w0=1 in products of rate and base, gamma=0.8
     target=TIME   the delay that windows settle at; default: base
     prompt=marked  what is acknowledged at once besides gaps: gaps (nothing), marked or expected packets
     corruption=P  parity for messages of a window, against losses at that rate on the way (beyond the paper)
uet[:OPTION,...]   a path for each packet, headers of trimmed ones are reported (Ultra Ethernet); wants --ecn and --trim
     oblivious paths=N ack=SIZE rto=TIME base=TIME; --cc nscc is the default
bare               a window of 100 packets, an acknowledgement for four, no repair: the engine's own speed`

const bufferHelp = `endless, or SIZE[,OPTION...]
     pfc                      pause senders instead of dropping
     headroom=ns3             three times rate times delay, not the exact one
     shift=N reserve=SIZE resume=SIZE  of PFC's dynamic threshold
     queue=SIZE               of each queue; beyond it is dropped
     alpha=1                  dynamic limit of each queue, as a multiple of the free memory
     deep=48+49               switches with endless memory`

const ecnHelp = `none, or KMIN,KMAX,PMAX[@RATE][;...], such as "400kB,1600kB,0.2@100G;800kB,6400kB,0.2@400G"`

// graph builds the network, or reads it where the specification is a file's name.
func (s *scenario) graph() (*topo.Graph, error) {
	g, err := s.readGraph()
	if err != nil {
		return nil, usage.Wrap(err)
	}
	if !(s.Loss >= 0 && s.Loss <= 1) {
		return nil, usage.Errorf("--loss %g: must be a probability from 0 to 1", s.Loss)
	}
	for i := range g.Links {
		if s.Loss > 0 {
			g.Links[i].Loss = s.Loss
		}
	}
	return g, nil
}

// ends refuses to run for ever.
func (s *scenario) ends(g *topo.Graph) error {
	if s.Until > 0 || s.Forced != 1 && carries(g) {
		return nil
	}
	return usage.Errorf("a loss of 1, by --loss, --forced or in the file of the network, cuts hosts off: not all messages ever complete: say with --until when to stop, such as 5ms")
}

// carries reports whether all hosts can reach each other over links that don't lose everything.
func carries(g *topo.Graph) bool {
	dead := func(l topo.Link) bool { return l.Loss == 1 }
	if !slices.ContainsFunc(g.Links, dead) {
		return true
	}
	return (&topo.Graph{Nodes: g.Nodes, Links: slices.DeleteFunc(slices.Clone(g.Links), dead)}).Validate() == nil
}

// lacks says what the transport or the controller lives on and the network doesn't give; "" where it gives all.
func (s *scenario) lacks() string {
	transport, _, _ := strings.Cut(s.Transport, ":")
	cc, _, _ := strings.Cut(s.CC, ":")
	var wants []string
	marks := slices.Contains([]string{"strack", "uet", "mprdma"}, transport) || cc == "nscc" || cc == "dcqcn" && transport != "dcp" // whose headers notify
	if marks && s.ECN == "none" {
		wants = append(wants, "--ecn")
	}
	if s.Trim == "" && (transport == "uet" || transport == "dcp") {
		wants = append(wants, "--trim")
	}
	if transport == "mprdma" && !slices.Contains(strings.Split(s.Buffer, ","), "pfc") {
		wants = append(wants, "--buffer SIZE,pfc")
	}
	if len(wants) == 0 {
		return ""
	}
	return fmt.Sprintf("--transport %s with --cc %s wants %s beside it: it runs without", transport, cc, strings.Join(wants, " and "))
}

// readGraph takes what is no specification of a network for a file.
func (s *scenario) readGraph() (*topo.Graph, error) {
	read := topo.ReadNS3
	switch filepath.Ext(s.Topo) {
	case ".topo":
		read = topo.ReadHtsim
	case ".txt":
	default:
		g, err := topo.Parse(s.Topo)
		if info, none := os.Stat(s.Topo); err == nil || none != nil || !info.Mode().IsRegular() {
			return g, err
		}
	}
	f, err := os.Open(s.Topo)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return read(f)
}

func openFile(name string) (io.ReadCloser, error) { return os.Open(name) }

// flows makes the load for a graph.
func (s *scenario) flows(g *topo.Graph) ([]workload.Flow, error) {
	rates := ratesOf(g)
	env := workload.Env{Hosts: g.Hosts(), Rates: func(host int) units.Rate { return rates[host] }, Seed: s.Seed, Open: openFile}
	flows, err := workload.Parse(s.Load, env)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	return flows, nil
}

// ratesOf are what the working links of each node carry together.
func ratesOf(g *topo.Graph) []units.Rate {
	rates := make([]units.Rate, len(g.Nodes))
	for _, l := range g.Links {
		if !l.Down {
			rates[l.A] += l.Rate
			rates[l.B] += l.Rate
		}
	}
	return rates
}

// linkOf is the first link of a host.
func linkOf(g *topo.Graph, host int) topo.Link {
	for _, l := range g.Links {
		if (l.A == host || l.B == host) && !l.Down {
			return l
		}
	}
	return topo.Link{}
}

// checkSizes refuses the zeros that the simulator would take for its defaults: the config of a report is what ran.
func (s *scenario) checkSizes() error {
	for _, f := range []struct {
		name string
		size units.Bytes
	}{{"mtu", s.MTU}, {"header", s.Header}, {"ack-size", s.AckSize}, {"pause-size", s.PauseSize}} {
		if f.size < 1 || f.size > largestPacket {
			return usage.Errorf("--%s %d: must be within 1 and %d bytes", f.name, int64(f.size), largestPacket)
		}
	}
	return nil
}

// largestPacket is the simulator's limit.
const largestPacket = 65535

// config is the simulator's.
func (s *scenario) config() (c fabric.Config, err error) {
	if err := s.checkSizes(); err != nil {
		return c, err
	}
	c = fabric.Config{MTU: s.MTU, Header: s.Header, AckSize: s.AckSize, PauseSize: s.PauseSize, Latency: s.SwitchLatency, Seed: s.Seed}
	if s.Check {
		c.CheckEvery = 1 << 20
	}
	cc, err := congestion.Parse(s.CC)
	if err != nil {
		return c, usage.Wrap(err)
	}
	c.INT = cc.Telemetry
	if c.Transport, err = parseTransport(s.Transport, cc, s.Seed); err != nil {
		return c, usage.Wrap(err)
	}
	if c.Routing, err = parseRouting(s.Routing); err != nil {
		return c, usage.Wrap(err)
	}
	if c.Buffer, err = parseBuffer(s.Buffer); err != nil {
		return c, usage.Wrap(err)
	}
	if c.ECN, err = parseECN(s.ECN); err != nil {
		return c, usage.Wrap(err)
	}
	if c.Trim, err = parseTrim(s.Trim, s.MTU+s.Header); err != nil {
		return c, usage.Wrap(err)
	}
	c.Forced = s.Forced
	return c, nil
}

func parseTransport(s string, cc congestion.Spec, seed uint64) (transport.Factory, error) {
	if s == "bare" {
		if cc.Name != "none" {
			return nil, fmt.Errorf("transport bare has no congestion control: choose --cc none")
		}
		return bare.Factory(100, 4), nil
	}
	name, rest, _ := strings.Cut(s, ":")
	if control, _, _ := strings.Cut(cc.Name, ":"); control == "dcqcn" && (name == "strack" || name == "uet") {
		return nil, fmt.Errorf("transport %q: it sends no notifications, of which this controller lives: choose another --cc", s)
	}
	var parse func() (transport.Factory, error)
	switch name {
	case "strack":
		parse = func() (transport.Factory, error) { return parseSTrack(rest, cc) }
	case "uet":
		parse = func() (transport.Factory, error) { return parseUET(rest, cc) }
	case "dcp":
		parse = func() (transport.Factory, error) { return parseDCP(rest, cc) }
	case "racktlp":
		parse = func() (transport.Factory, error) { return parseRACK(rest, cc) }
	case "mprdma":
		parse = func() (transport.Factory, error) { return parseMPRDMA(rest, cc, seed) }
	}
	if parse != nil {
		f, err := parse()
		if err != nil {
			return nil, fmt.Errorf("transport %q: %w", s, err)
		}
		return f, nil
	}
	c, err := parseRC(s)
	if err != nil {
		return nil, err
	}
	if cc.Name != "none" { // which would be asked for each packet
		c.Congestion, c.CNPInterval = cc.New, cc.CNPInterval
	}
	return c.Factory(), nil
}

func parseRC(s string) (*rc.Config, error) {
	c := &rc.Config{}
	name, rest, _ := strings.Cut(s, ":")
	switch name {
	case "gbn":
	case "irn":
		c.Mode = rc.IRN
	case "timeout":
		c.Mode = rc.Timeout
	default:
		return nil, fmt.Errorf("transport %q is unknown: choose gbn, irn, timeout, racktlp, mprdma, dcp, strack, uet or bare", name)
	}
	err := setOptions(rest, []option{
		{"window=", positive(c.Window.Set)},
		{"ack=", positive(toInt(&c.AckEvery))},
		{"rto=", positive(toDuration(&c.RTO))},
		{"rtolow=", positive(toDuration(&c.RTOLow))},
		{"lowflight=", positive(toInt(&c.LowFlight))},
		{"nakdelay=", toDuration(&c.NakDelay)},
		{"nakinterval=", toDuration(&c.NakInterval)},
		{"reorder=", toInt(&c.Reorder)},
		{"repace", toTrue(&c.Repace)},
		{"cnp=", only("packets", "notifications ride on acknowledgements", &c.CNPPackets)},
		{"marks=", only("kept", "they are forgotten", &c.KeepMarks)},
	})
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("transport %q: %w", s, err)
	}
	return c, nil
}

func parseBuffer(s string) (b fabric.Buffer, err error) {
	if s == "endless" {
		return b, nil
	}
	size, rest, _ := strings.Cut(s, ",")
	if err := b.Size.Set(size); err != nil {
		return b, fmt.Errorf("buffer %q: %w, or endless", s, err)
	}
	if b.Size == 0 {
		return b, fmt.Errorf("buffer %q: write a size of at least a byte, or endless", s)
	}
	var ns3 bool
	err = setOptions(rest, []option{
		{"pfc", toTrue(&b.PFC)},
		{"headroom=", only("ns3", "headroom is exact", &ns3)},
		{"shift=", positive(toInt(&b.Shift))},
		{"reserve=", func(value string) error {
			err := b.Reserve.Set(value)
			if err == nil && b.Reserve == 0 {
				b.Reserve = -1 // none; 0 is the default
			}
			return err
		}},
		{"resume=", positive(b.Resume.Set)},
		{"queue=", b.QueueLimit.Set},
		{"alpha=", func(value string) error {
			var alpha float64
			err := toFloat(&alpha)(value)
			if err == nil && !(alpha >= 0.125 && alpha <= 1000) {
				err = fmt.Errorf("%s: must be within 0.125 and 1000", value)
			}
			b.Alpha = int(alpha * 8)
			return err
		}},
		{"deep=", func(value string) error {
			for n := range strings.SplitSeq(value, "+") {
				node, err := strconv.Atoi(n)
				if err != nil {
					return fmt.Errorf("%q: write numbers of nodes, such as 48+49", value)
				}
				b.Deep = append(b.Deep, node)
			}
			return nil
		}},
	})
	if err != nil {
		return b, fmt.Errorf("buffer %q: %w", s, err)
	}
	if ns3 {
		b.Headroom = fabric.HeadroomNS3
	}
	return b, nil
}

func parseECN(s string) ([]fabric.ECN, error) {
	if s == "none" {
		return nil, nil
	}
	var out []fabric.ECN
	for _, profile := range strings.Split(s, ";") {
		marks, rate, hasRate := strings.Cut(profile, "@")
		f := strings.Split(marks, ",")
		var e fabric.ECN
		err := fmt.Errorf("write it like %s", ecnHelp)
		if len(f) == 3 {
			if err = e.KMin.Set(f[0]); err == nil {
				err = e.KMax.Set(f[1])
			}
			if err == nil {
				err = toFloat(&e.PMax)(f[2])
			}
		}
		if err == nil && hasRate {
			e.Rate, err = topo.ParseRate(rate)
		}
		if err != nil {
			return nil, fmt.Errorf("ecn %q: %w", s, err)
		}
		out = append(out, e)
	}
	return out, nil
}
