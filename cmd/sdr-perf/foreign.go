// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// A foreign flag is one of perftest, iperf3 or qperf that isn't ours. Who types one hears what does the same
// here, or why nothing does; those that make no difference are accepted, which is said too.
type foreign struct {
	short  string // one letter, "" for none
	names  string // long names, separated by spaces
	arg    bool   // it takes an argument
	accept bool
	says   string
}

// Reasons that several flags share.
const (
	noGPU      = "no GPU memory is used: buffers are of the host"
	noRaw      = "raw Ethernet isn't measured: packets are RoCEv2"
	noAtomics  = "only writes are measured: no reads, no atomics"
	noTCP      = "nothing of TCP or SCTP is measured: iperf3 does that"
	noKeys     = "there is no encryption and no log-in here"
	numbersAll = "all numbers are shown, or written with --json"
)

// foreignFlags are the flags of perftest 25.04, iperf3 3.19 and qperf 0.4.11, by what they are about. A letter
// that two programs use for different things gets both answers.
var foreignFlags = []foreign{
	// Accepted: what they ask for is so anyway.
	{"F", "CPU-freq", false, true, "no clock cycles are counted, so the frequency doesn't matter (iperf3's -F FILE: see examples/filecopy)"},
	{"N", "noPeak no-delay", false, true, "no peak is measured, and no packet waits for others"},
	{"z", "comm-rdma-cm com-rdma-cm", false, true, "the ends meet over TCP at --port"},
	{"r", "rx-depth", true, true, "receives are posted to suit --inflight"},
	{"Q", "cq-mod", true, true, "completions are collected in batches"},
	{"H", "report-histogrm report-histogram", false, true, "--json has the histogram"},
	{"", "report-gbits", false, true, "rates are in Gbit/s"},
	{"", "report-both use-bits-per-sec", false, true, "both are shown: Gbit/s and messages a second"},
	{"", "perform-warm-up", false, true, "each point is warmed up: see --warmup"},
	{"", "cpu-util", false, true, "the CPU time of both ends is in the table and in --json"},
	{"", "dont-xchg-versions use-old-post-send disable-pcie-relaxed no-lock no-enhanced-reorder", false, true, "there is no such thing to turn off"},
	{"", "data-validation", false, true, "content is checked: see --verify"},
	{"", "udp-counters-64bit get-server-output forceflush no-fq-socket-pacing dont-fragment", false, true, "it is so anyway"},
	{"", "unify-nodes unify-units", false, true, "the table has one unit a column"},

	// What another flag does.
	{"", "msg-size", true, false, "-s SIZE is the size"},
	{"", "loop", true, false, "qperf's -oo NAME:FIRST:LAST:STEP is -s 1KiB,4KiB,64KiB or -a for sizes, and --sweep KEY=FROM..TO for sizes and much else"},
	{"l", "length post-list recv-post-list", true, false, "iperf3's length is -s SIZE; requests are posted one by one, as perftest's -l 1 does"},
	{"P", "parallel nstreams", false, false, "-q N makes N connections"},
	{"R", "rdma-cm reverse reversed flip", false, false, "data flows from client to server: start the server at the other end, or use -b for both directions; the ends meet over TCP without rdma_cm"},
	{"", "bidir", false, false, "-b measures both directions"},
	{"", "time", true, false, "-D SECONDS is how long each point is measured"},
	{"", "bytes", true, false, "-n N is the number of transfers of -s SIZE"},
	{"k", "blockcount no-msgs source-port", true, false, "-n N is the number of transfers"},
	{"O", "omit dualport", false, false, "--warmup N is the number of transfers that don't count; one device, one port: start a second sdr-perf for another"},
	{"J", "dest-ip out-json json-stream", false, false, "--json FILE writes JSON, --json - to stdout"},
	{"", "json-stream-full-output", false, false, "--json FILE writes JSON, --json - to stdout"},
	{"", "out-json-file logfile", true, false, "--json FILE writes JSON"},
	{"B", "bind source-mac bind-source-ip source-ip local-ip host", true, false, "--addr IP is the local address"},
	{"", "bind-dev id", true, false, "-d DEVICE is the RDMA device, --addr IP the local address"},
	{"X", "xbind vector", true, false, "--addr IP is the local address; there are no completion vectors"},
	{"", "cport local-port", true, false, "--udp-port PORT is the local port"},
	{"K", "dest-port remote-port remote-ip", true, false, "the HOST is an argument: sdr-perf HOST, or HOST:PORT"},
	{"", "listen-port ip-port alt-port", true, false, "-p PORT is where the ends meet"},
	{"w", "window limit-bw", true, false, "--rate 10gbit bounds the rate; --inflight N and --channels N are the window"},
	{"y", "limit-msgrate", true, false, "--rate 10gbit bounds the rate: messages times their size"},
	{"", "bitrate bandwidth rate-limit rate-limit-type rate-units fq-rate static-rate pacing-timer", true, false, "--rate 10gbit bounds the rate"},
	{"", "typical-pkt-size", true, false, "-m MTU is the payload of a packet"},
	{"M", "MGID set-mss mtu-size", true, false, "-m MTU is the payload of a packet; there is no multicast"},
	{"S", "sl tos service-level", true, false, "--dscp CODE marks packets, on userroce; an administrator sets a NIC's"},
	{"T", "tclass title", true, false, "--dscp CODE marks packets; titles aren't printed: the JSON has the command line"},
	{"C", "report-cycles linux-congestion congest-type", false, false, "--congestion NAME chooses the congestion control; times are in the table"},
	{"W", "report-counters", true, false, "-v and --json have the counters of both ends"},
	{"o", "outs rd-atomic", true, false, "-t N is the number of transfers under way; " + noAtomics},
	{"", "burst-size", true, false, "-t N transfers are under way; --burst is about losses"},
	{"u", "udp qp-timeout", false, false, "packets are UDP anyway (RoCEv2); --alpha sets the timeout of --reliability sr, --timeout when to give up"},
	{"", "retry-count", true, false, "there is no limit: --timeout says when to give up"},
	{"", "connect-timeout idle-timeout rcv-timeout snd-timeout wait wait-server server-timeout", true, false, "--timeout TIME says when to give up"},
	{"", "run-infinitely", false, false, "-D 24h is the longest; Ctrl-C ends a run and shows what was measured"},
	{"", "latency-gap", true, false, "-t 1 has one transfer under way, and no gap after it"},
	{"", "precision format margin", true, false, numbersAll},
	{"f", "", true, false, "results are shown for each point, not for each second; " + numbersAll},
	{"U", "report-unsorted output", false, false, numbersAll + "; single times aren't kept"},
	{"V", "", false, false, "sdr-perf version says it; -v explains each result"},
	{"", "verbose-conf verbose-stat verbose-time verbose-used verbose-more verbose-more-conf verbose-more-stat verbose-more-time verbose-more-used", false, false, "-v explains each result"},
	{"", "debug", false, false, "-v logs what the layers below report"},
	{"1", "one-off", false, false, "a server serves one client and ends: that is what it does without --keep"},
	{"", "daemon", false, false, "--keep serves one client after another: leave it to your init system to start it"},
	{"", "server", false, false, "sdr-perf without a HOST is the server"},
	{"", "client", false, false, "sdr-perf HOST is the client"},
	{"", "connectionless ip-v4 version4", false, false, "the HOST's address decides"},
	{"4", "", false, false, "the HOST's address decides: give an IPv4 address"},
	{"6", "version6 ipv6 ipv6-addr raw-ipv6", false, false, "the HOST's address decides: give an IPv6 address"},
	{"A", "affinity cpu-affinity atomic-type pin-cores cpu-id numa-node", true, false, "taskset -c CPUS or numactl before sdr-perf bind it; " + noAtomics},
	{"", "disable-numa", false, false, "taskset or numactl before sdr-perf bind it; it does nothing by itself"},
	{"e", "events", false, false, "--spin TIME says how long workers poll before they sleep; with 0 they sleep at once"},
	{"", "cq-poll cqe-poll poll", true, false, "--spin TIME says how long workers poll before they sleep"},
	{"", "disable-dynamic-polling", false, false, "--spin TIME says how long workers poll before they sleep"},
	{"", "sock-buf-size", true, false, "sysctl net.core.rmem_max bounds it and the largest is taken: see sdr-perf doctor"},

	// What has no counterpart.
	{"I", "inline-size inline-recv pidfile", true, false, "no packet is sent inline: userroce copies, a kernel's device reads memory"},
	{"g", "mcg raw-mcast promiscuous sniffer", false, false, "there is no multicast and no capture here: --pcap FILE captures the run's packets"},
	{"L", "hop-limit flowlabel flow-label", true, false, "the kernel chooses it"},
	{"G", "use-rss mac-fwd tcp", false, false, noRaw},
	{"E", "dest-mac remote-mac local-mac ethertype vlan-pcp flows flows-burst reply-every force-link client-port server-port", true, false, noRaw},
	{"Y", "", true, false, noRaw},
	{"Z", "zerocopy gsro skip-rx-copy", false, false, "userroce uses segmentation offload where the kernel has it: sdr-perf doctor says; a kernel's device copies nothing"},
	{"j", "", true, false, "--addr IP is the local address"},
	{"", "vlan-en report-per-port", false, false, noRaw},
	{"", "use-srq mr-per-qp use-null-mr odp use-hugepages use-ooo unsolicited-write write-with-imm send-with-imm", false, false, "each connection has a queue pair and memory of its own, registered once"},
	{"", "pkey-index dlid src-path-bits", true, false, "that is InfiniBand's: packets are RoCEv2"},
	{"", "use-cm access-recv", true, false, "the ends meet over TCP, and the content is checked"},
	{"", "payload-file-path file extra-data mmap mmap-offset", true, false, "the content follows from --seed; examples/filecopy sends files"},
	{"", "repeating-payload", false, false, "the content follows from --seed"},
	{"", "wait-destroy", true, false, "nothing is waited for when a run ends"},
	{"", "timestamps cntl-ka", false, false, "the table has no times of day (pipe it through ts(1)); --json has that at which each point began"},
	{"", "use-cuda use-cuda-bus-id cuda-mem-type use-musa use-musa-bus-id use-rocm use-neuron use-hl use-mlu use-opencl opencl-platform-id gpu-touch use-ib-dm-dmabuf", true, false, noGPU},
	{"", "use-cuda-dmabuf use-cuda-pcie-mapping use-data-direct use-musa-dmabuf use-musa-pcie-mapping use-rocm-dmabuf use-neuron-dmabuf use-mlu-dmabuf", false, false, noGPU},
	{"", "aes-xts encrypt-on-tx sig-before sig-offload data-validation-debug", false, false, noKeys + ", and no signature offload"},
	{"", "aes-block-size kek-path credentials-path data-enc-keys-number data-enc-key-app-path username rsa-public-key-path rsa-private-key-path authorized-users-path time-skew-threshold", true, false, noKeys},
	{"", "use-pkcs1-padding", false, false, noKeys},
	{"", "log-dci-streams log-active-dci-streams tph-mem ph", true, false, "that is of adapters, and no provider here has it"},
	{"", "sctp mptcp", false, false, noTCP},
	{"", "server-bitrate-limit server-max-duration", true, false, "the client says what is measured: stop the server to stop it"},
}

// asOurs are foreign names of flags that mean the same here.
var asOurs = map[string]string{
	"tx-depth": "inflight",
	"qp":       "qps",
	"ib-dev":   "device",
}

// severalLetters are qperf's flags of several letters behind one hyphen, which would be read as several.
var severalLetters = map[string]string{
	"-ca": "--cpu-affinity", "-cp": "--cq-poll", "-cp1": "--disable-dynamic-polling", "-cpo": "--disable-dynamic-polling",
	"-lp": "--listen-port", "-ip": "--ip-port", "-mt": "--mtu-size", "-nr": "--rd-atomic", "-oo": "--loop",
	"-sb": "--sock-buf-size", "-sl": "--service-level", "-sp": "--src-path-bits", "-sr": "--static-rate", "-to": "--timeout",
	"-ub": "--use-bits-per-sec", "-un": "--unify-nodes", "-uu": "--unify-units", "-vc": "--verbose-conf", "-vs": "--verbose-stat",
	"-vt": "--verbose-time", "-vu": "--verbose-used", "-vv": "--verbose-more", "-vvc": "--verbose-more-conf", "-vvs": "--verbose-more-stat",
	"-vvt": "--verbose-more-time", "-vvu": "--verbose-more-used", "-ws": "--wait-server", "-ar": "--access-recv",
	"-ap": "--alt-port", "-cm": "--use-cm", "-li": "--id", "-ri": "--id",
	"-help": "--help", // as Go's and perftest's users write it
}

// strangers are the foreign flags that a command line has.
type strangers struct {
	refused  []error
	accepted []string
}

// A stranger is a foreign flag as pflag sees it.
type stranger struct {
	*foreign
	met  *strangers
	name string
}

func (s stranger) String() string   { return "" }
func (s stranger) Type() string     { return "text" }
func (s stranger) IsBoolFlag() bool { return !s.arg }

// Set notes that the flag was given.
func (s stranger) Set(string) error {
	if s.accept {
		s.met.accepted = append(s.met.accepted, fmt.Sprintf("%s makes no difference: %s", s.name, s.says))
	} else {
		s.met.refused = append(s.met.refused, usage.Errorf("%s: %s", s.name, s.says))
	}
	return nil
}

// register adds the foreign flags, hidden. Ours must be there already: they win.
func (met *strangers) register(f *pflag.FlagSet) {
	for i := range foreignFlags {
		x := &foreignFlags[i]
		names, short := strings.Fields(x.names), x.short
		if len(names) == 0 {
			names = []string{"letter-" + short}
		}
		for _, name := range names { // the letter goes with the first
			met.add(f, x, name, short)
			short = ""
		}
	}
	c := &connection{met: met}
	f.VarP(c, "connection", "c", "")
	hide(f, "connection")
}

func (met *strangers) add(f *pflag.FlagSet, x *foreign, name, short string) {
	shown := "--" + name
	switch {
	case short != "" && strings.HasPrefix(name, "letter-"):
		shown = "-" + short
	case short != "":
		shown = "-" + short + ", " + shown
	}
	f.VarP(stranger{x, met, shown}, name, short, "")
	hide(f, name)
	if !x.arg {
		f.Lookup(name).NoOptDefVal = "true"
	}
}

func hide(f *pflag.FlagSet, name string) {
	f.Lookup(name).Hidden = true
}

// connection is -c: perftest's type of connection, or iperf3's host.
type connection struct{ met *strangers }

func (c *connection) String() string { return "" }
func (c *connection) Type() string   { return "text" }

func (c *connection) Set(text string) error {
	switch strings.ToUpper(text) {
	case "UC":
		c.met.accepted = append(c.met.accepted, "-c UC makes no difference: packets are those of UC")
	case "RC":
		c.met.accepted = append(c.met.accepted, "-c RC makes no difference: packets are those of UC, and --reliability makes transfers reliable")
	case "UD", "XRC", "DC", "SRD", "RAWETH":
		c.met.refused = append(c.met.refused, usage.Errorf("-c %s: packets are those of UC, which all devices here have: leave -c out", text))
	default:
		c.met.refused = append(c.met.refused, usage.Errorf("-c %s: the HOST has no flag: sdr-perf %s (iperf3's -t SECONDS is -D, -P is -q, -b RATE is --rate, --bidir is -b)", printable(text), printable(text)))
	}
	return nil
}
