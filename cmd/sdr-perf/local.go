// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// local is what concerns this process alone.
type local struct {
	device   string
	loopback bool
	port     uint16
	ibPort   int
	gidIndex gidIndex
	addr     netip.Addr
	udpPort  string
	workers  int
	spin     units.Duration
	ecn      bool
	dscp     uint8
	trim     bool
	trimDSCP uint8
	trimPath bool
	json     string
	pcap     string
	verbose  bool
	wide     bool
	sweep    sweep
	all      bool
	csv      string
	plot     string
	interval units.Duration
	bars     bars
	keep     bool
	log      *slog.Logger // of this program
	below    *slog.Logger // of what it stands on: nothing without -v, as what goes wrong there is an error here, too
}

func (l *local) register(f *pflag.FlagSet) {
	f.BoolVar(&l.loopback, "loopback", false, "be both ends")
	f.StringVarP(&l.device, "device", "d", devices.Default, "`name` of the RDMA device: userroce, softroce, or one that sdr-perf devices lists")
	f.IntVarP(&l.ibPort, "ib-port", "i", 0, "`port` of the device, from 1, a kernel's RDMA device only (default 1)")
	f.VarP(&l.gidIndex, "gid-index", "x", "entry of the port's GID table, a kernel's RDMA device only (default: that of --addr)")
	f.Uint16VarP(&l.port, "port", "p", 18515, "TCP `port` at which the ends meet; 0 at the server: any, which it says")
	f.TextVar(&l.addr, "addr", netip.Addr{}, "local `IP` for RDMA packets (default: where the TCP connection ends)")
	f.StringVar(&l.udpPort, "udp-port", "", "local UDP `PORT` for RDMA packets, or any (default: 4791; with --loopback any if that is taken)")
	f.IntVar(&l.workers, "workers", 0, "`number` of progress goroutines of an end, 1 to 8 (default: half of GOMAXPROCS or of the processors)")
	l.spin = 50 * units.Microsecond // package sdr's default
	f.Var((*units.DurationValue)(&l.spin), "spin", "how long an idle worker polls before it sleeps, longer where it has much to do: a wake-up takes tens of microseconds, polling a processor; 0: it sleeps at once")
	f.BoolVar(&l.ecn, "ecn", false, "send packets that queues may mark instead of dropping them, if the other end says so too; userroce only")
	f.Uint8Var(&l.dscp, "dscp", 0, "DiffServ `code` point of data, 0 to 63; userroce only")
	f.BoolVar(&l.trim, "trim", false, "send packets that switches may cut to their headers instead of dropping them (DCP's tag), if the other end says so too; userroce only")
	f.Uint8Var(&l.trimDSCP, "trim-dscp", 0, "with --trim: `code` point with which switches mark what they have cut, where they know no tag, 1 to 63")
	f.BoolVar(&l.trimPath, "trim-path", false, "with --trim: all switches on the path cut what they would drop, so that what gets lost otherwise is no congestion (scheme adaptive)")
	f.StringVar(&l.json, "json", "", "write the results to `FILE`, or - for stdout")
	f.StringVar(&l.pcap, "pcap", "", "capture this end's packets to `FILE`; with --loopback the sender's")
	f.BoolVar(&l.wide, "wide", false, "show all columns, more than 80 characters: p50, p99.9, repeats, processor time")
	f.BoolVarP(&l.all, "all", "a", false, "measure all sizes from 2 bytes to 8 MiB")
	f.Var(&l.sweep, "sweep", "measure points with different values of one of "+strings.Join(sweepKeys(), ", ")+": drop=1e-6..1e-2, size=4k..64m/8 for eight of them, or inflight=1,4,16")
	f.StringVar(&l.csv, "csv", "", "write the results to `FILE` as a table for other programs, or - for stdout")
	f.StringVar(&l.plot, "plot", "", "draw completion time, or bandwidth, against what was swept to `FILE`.svg or .png; of one size, without --sweep, rate, queue, marks and losses over time")
	l.interval = 100 * units.Millisecond
	f.Var((*units.DurationValue)(&l.interval), "interval", "how long the intervals are in which JSON and --plot show rate, queue, marks and losses over time")
	l.bars.register(f)
	f.BoolVar(&l.keep, "keep", false, "at the server: serve one client after another, until an interrupt")
	f.BoolVarP(&l.verbose, "verbose", "v", false, "explain each result, and log what the layers below report")
}

const (
	// maxWorkers bounds the workers of an end.
	maxWorkers = 8
	// leastInterval keeps looking at the counters from disturbing what is measured.
	leastInterval = units.Millisecond
	// maxIBPort is the most that the verbs can say.
	maxIBPort = 255
	// defaultUDPPort is RoCEv2's.
	defaultUDPPort = "4791"
)

// A gidIndex is an entry of a GID table, if given.
type gidIndex struct {
	given bool
	n     int
}

// Set reads an index.
func (g *gidIndex) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("%q: want the index of a GID, from 0 (examples/verbs-devinfo lists them)", text)
	}
	*g = gidIndex{true, int(n)}
	return nil
}

// Type names the kind of flag.
func (g *gidIndex) Type() string { return "index" }

func (g *gidIndex) String() string {
	if !g.given {
		return ""
	}
	return strconv.Itoa(g.n)
}

// check says what is wrong with the options and fills in defaults.
func (l *local) check(host string) error {
	if err := devices.Check(l.device); err != nil {
		return usage.Wrap(err)
	}
	switch {
	case l.loopback && host != "":
		return usage.Errorf("--loopback is both ends: leave out %q, or --loopback", host)
	case l.ibPort < 0 || l.ibPort > maxIBPort:
		return usage.Errorf("--ib-port %d: choose 1 to %d", l.ibPort, maxIBPort)
	case (l.ibPort != 0 || l.gidIndex.given) && !devices.Kernels(l.device):
		return usage.Errorf("--ib-port and --gid-index are for the kernel's RDMA devices, and %s is none: choose its address with --addr, or a device with --device; sdr-perf devices lists them (iperf3's -i SECONDS: each point is shown when it is done, and JSON follows it by --interval)", l.device)
	case l.gidIndex.given && l.addr.IsValid():
		return usage.Errorf("--gid-index and --addr both choose the address: leave one out")
	case l.pcap == "-":
		return usage.Errorf("--pcap -: standard output has the table: name a file")
	case l.pcap != "" && devices.Kernels(l.device):
		return usage.Errorf("--pcap: packets of %s don't pass through this program: capture them with tcpdump on its network interface", l.device)
	case devices.Kernels(l.device) && l.udpPort != "" && l.udpPort != defaultUDPPort:
		return usage.Errorf("--udp-port %s: the kernel's RDMA devices use %s only", l.udpPort, defaultUDPPort)
	case (l.ecn || l.dscp != 0 || l.trim) && l.device != devices.Default:
		return usage.Errorf("--ecn, --dscp and --trim: %s doesn't take them: an administrator sets a NIC's", l.device)
	case l.trimDSCP > 63 || l.trimDSCP != 0 && !l.trim:
		return usage.Errorf("--trim-dscp %d: choose 1 to 63, and give --trim", l.trimDSCP)
	case l.trimPath && !l.trim:
		return usage.Errorf("--trim-path: give --trim, or packets say that they may not be cut")
	case l.dscp > 63:
		return usage.Errorf("--dscp %d: choose 0 to 63", l.dscp)
	case l.interval < leastInterval || l.interval > maxDuration:
		return usage.Errorf("--interval %v: choose 1 ms to 24 hours", l.interval)
	case l.spin > units.Second:
		return usage.Errorf("--spin %v: choose 0 to 1 s", l.spin)
	case l.workers < 0 || l.workers > maxWorkers:
		return usage.Errorf("--workers %d: choose 1 to %d", l.workers, maxWorkers)
	case host == "" && !l.loopback && (l.json != "" || l.csv != "" || l.plot != "" || l.bars != (bars{}) || l.sweep.key != "" || l.all):
		return usage.Errorf("--json, --csv, --plot, --sweep, --all and what is asked of results (--min-gbps …): the client has the results and says what is measured: give it there")
	case l.plot != "" && !strings.HasSuffix(l.plot, ".svg") && !strings.HasSuffix(l.plot, ".png"):
		return usage.Errorf("--plot %s: choose a name that ends in .svg or .png", l.plot)
	case l.csv == "-" && l.json == "-":
		return usage.Errorf("--csv - and --json -: only one of them can have stdout")
	}
	if err := l.checkFiles(); err != nil {
		return err
	}
	if l.keep && (host != "" || l.loopback) {
		return usage.Errorf("--keep is the server's: start sdr-perf --keep without a HOST there")
	}
	if err := l.checkPort(host); err != nil {
		return err
	}
	if err := l.bars.check(); err != nil {
		return err
	}
	if _, err := l.rdmaPort(); err != nil {
		return usage.Wrap(err)
	}
	if l.workers == 0 { // package sdr's default, which the device must know too
		l.workers = sdr.DefaultWorkers()
	}
	if l.spin == 0 {
		l.spin = -1
	}
	l.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if l.below = slog.New(slog.DiscardHandler); l.verbose {
		l.below = l.log
	}
	return nil
}

// checkFiles refuses two files of one name, of which one would be left.
func (l *local) checkFiles() error {
	seen := map[string]string{}
	for _, f := range []struct{ flag, path string }{{"json", l.json}, {"csv", l.csv}, {"plot", l.plot}, {"pcap", l.pcap}} {
		if f.path == "" || f.path == "-" || f.path == os.DevNull {
			continue
		}
		path := filepath.Clean(f.path)
		if other, twice := seen[path]; twice {
			return usage.Errorf("--%s and --%s both write %s: give each a file of its own", other, f.flag, f.path)
		}
		seen[path] = f.flag
	}
	return nil
}

// rdmaPort is --udp-port as devices wants it.
func (l *local) rdmaPort() (uint16, error) {
	switch l.udpPort {
	case "":
		return 0, nil // devices' default
	case "any":
		return devices.AnyPort, nil
	}
	port, err := strconv.ParseUint(l.udpPort, 10, 16)
	if err != nil || port == 0 || uint16(port) == devices.AnyPort {
		return 0, fmt.Errorf("--udp-port %q: give a number from 1 to %d, or any", l.udpPort, devices.AnyPort-1)
	}
	return uint16(port), nil
}

// run is the program, once all options have been checked.
func (a *call) run(c *cobra.Command) (err error) {
	l, p := &a.local, &a.params
	if l.loopback || a.host != "" {
		// Where nobody reads the table any more (| head) the other files are written yet. A server would stay for ever.
		signal.Ignore(syscall.SIGPIPE)
	}
	out, err := l.newOutput(c.OutOrStdout(), p)
	if err != nil {
		return err
	}
	capture, err := newCapture(l.pcap)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := capture.close(); cerr != nil {
			err = errors.Join(err, cerr)
		}
	}()
	switch {
	case l.loopback:
		return l.runLoopback(c.Context(), p, out, capture)
	case a.host == "":
		return l.runServer(c.Context(), p, c.Flags(), capture)
	default:
		return l.runClient(c.Context(), p, a.host, out, capture)
	}
}
