// SPDX-License-Identifier: Apache-2.0

// Package result is what sdr-perf, test/grid and test/peers write as JSON: an object for each point that was
// measured. "sdr-model compare" reads it.
package result

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// Version changes when a field changes its meaning or goes away.
const Version = 1

// A Result is one point.
type Result struct {
	Version     int         `json:"version"`
	Device      string      `json:"device"`
	Backend     string      `json:"backend"`
	Reliability string      `json:"reliability"`
	SizeBytes   units.Bytes `json:"size_bytes"`
	ChunkBytes  units.Bytes `json:"chunk_bytes"`
	MTU         units.Bytes `json:"mtu"`
	Channels    int         `json:"channels"`
	Workers     int         `json:"workers"`
	// Iterations is how many transfers were measured, Warmup how many came before.
	Iterations int `json:"iterations"`
	Warmup     int `json:"warmup"`
	// Link is null when none was emulated.
	Link *Link `json:"link"`
	// Congestion is what the sender's congestion control had found out in the end.
	Congestion Congestion `json:"congestion"`
	// Inflight is how many transfers were under way on each of QPs connections, Bidirectional whether in both
	// directions.
	Inflight      int  `json:"inflight"`
	QPs           int  `json:"qps"`
	Bidirectional bool `json:"bidirectional"`
	// CompletionNs are times at the sender, of single transfers; Histogram has the same as pairs of an upper bound
	// in nanoseconds and how many were at most so long, and longer than the pair before.
	CompletionNs Completion `json:"completion_ns"`
	Histogram    []Bucket   `json:"histogram"`
	// IdealNs is size/rate + RTT of the emulated link, else null. Of transfers that overlap it is that of all of
	// them together or, if that is longer, as often that of one as they follow each other in one of Inflight × QPs
	// places. Where paths have rates of their own, and transfers don't overlap, it is how long those that live take for
	// them on average, from when they began on, + RTT.
	IdealNs *units.Duration `json:"ideal_ns"`
	// LongestStallNs is for how long, at most, nothing new of a transfer came at the receiver, from its beginning on; it is
	// measured in the same case, and null else.
	LongestStallNs *units.Duration `json:"longest_stall_ns"`
	// ElapsedNs is how long all transfers took: the sum of their times, or from the first post to the last
	// completion where they overlap. TOverIdeal is that, or the average time, over IdealNs.
	ElapsedNs  units.Duration `json:"elapsed_ns"`
	TOverIdeal *float64       `json:"t_over_ideal"`
	// ThroughputGbps is user data over the time that it took, in 1e9 bit/s, and MessageRate how many transfers
	// were completed a second: with one under way that time is the average completion time. Those of two
	// directions are added.
	ThroughputGbps float64 `json:"throughput_gbps"`
	MessageRate    float64 `json:"message_rate"`
	// Latency says that times are of round trips, and BareUDPNs are those of the same bytes in plain datagrams on
	// blocking sockets, measured right after; null if there was no such ping-pong.
	Latency   bool        `json:"latency"`
	BareUDPNs *Completion `json:"bare_udp_ns"`
	// CPU is what moving the data took of processors' time.
	CPU CPU `json:"cpu"`
	// Packets counts both ends and all kinds of packets, during the measured transfers.
	Packets Packets `json:"packets"`
	// Chunks counts repair units, during the measured transfers.
	Chunks Chunks `json:"chunks"`
	// Params are those of the scheme; only what applies.
	Params Params `json:"params"`
	// Incomplete says that the point was interrupted or failed: these are the transfers before that. If
	// the receiver could not be asked any more, Packets are zero and Verified is null.
	Incomplete bool `json:"incomplete"`
	// Verified is null when the content wasn't checked, or when units are missing and the others right.
	Verified    *bool       `json:"verified"`
	Seed        uint64      `json:"seed"`
	Environment Environment `json:"environment"`
	// Run says which run this is of, nil where nothing was run (test/grid).
	Run *Run `json:"run,omitempty"`
}

// Run is when, where and by which call a point was measured. It names machines: leave it out of what is published.
type Run struct {
	// Start is when the point began, by the client's clock.
	Start time.Time `json:"start"`
	// Command is the client's command line, with its program's name.
	Command []string `json:"command"`
	// Client is the name of the client's host, Server what it calls the server's: the HOST of the command line, its
	// own name where both ends are one process. ClientAddr and ServerAddr are where their TCP connection ended.
	Client     string `json:"client"`
	Server     string `json:"server"`
	ClientAddr string `json:"client_addr"`
	ServerAddr string `json:"server_addr"`
}

// Link is the emulated link.
type Link struct {
	RTTNs units.Duration `json:"rtt_ns"`
	// JitterNs is by up to how much each packet takes longer.
	JitterNs   units.Duration `json:"jitter_ns"`
	RateBps    units.Rate     `json:"rate_bps"` // headers included; 0: no limit
	Drop       float64        `json:"drop"`     // per packet
	Burst      float64        `json:"burst"`
	Reorder    float64        `json:"reorder"`
	Duplicate  float64        `json:"duplicate"`
	QueueBytes units.Bytes    `json:"queue_bytes"`
	// MarkAboveBytes is how much must wait for packets to be marked; 0: none is.
	MarkAboveBytes units.Bytes `json:"mark_above_bytes"`
	// HeaderBytes are counted with each packet of data: those of IPv6 are more than those of IPv4. test/grid counts them in the
	// ideal, too. 0: nobody said.
	HeaderBytes units.Bytes `json:"header_bytes,omitempty"`
}

// Congestion is a congestion control and its model of the path; 0 where it has none. Rate, round trip, queue and state
// are those of the first connection in the end.
type Congestion struct {
	Name     string         `json:"name"`
	RateBps  units.Rate     `json:"rate_bps"` // found, of user data
	MinRTTNs units.Duration `json:"min_rtt_ns"`
	QueueNs  units.Duration `json:"queue_ns"` // how long packets waited
	State    string         `json:"state"`
	// MeanRateBps is what all connections together had found, and MeanQueueNs how long packets waited, on average over
	// the intervals of Course.
	MeanRateBps units.Rate     `json:"mean_rate_bps"`
	MeanQueueNs units.Duration `json:"mean_queue_ns"`
	// Jain is Jain's index of what the connections carried in all, null where there is one: 1 says the same each.
	Jain *float64 `json:"jain"`
	// Course is what happened over time, nil where nobody looked.
	Course []Interval `json:"course"`
}

// An Interval is what the sender saw of its connections within some time.
type Interval struct {
	// EndNs is when it ended, since counting began; the time between transfers is left out.
	EndNs units.Duration `json:"end_ns"`
	// GoodputBps is user data that arrived. FoundBps is what the congestion controls had found, PaceBps what they
	// and the configured rate allowed, both in the end and in sum; 0: nothing, and no limit.
	GoodputBps units.Rate `json:"goodput_bps"`
	FoundBps   units.Rate `json:"found_bps"`
	PaceBps    units.Rate `json:"pace_bps"`
	// QueueNs is how long packets waited in the end, smoothed, on average over the connections.
	QueueNs units.Duration `json:"queue_ns"`
	// Sent and Repeated count repair units; Marks notifications of marks that were heeded; and the others losses that were
	// proved, by what the sender took them for.
	Sent         uint64 `json:"sent"`
	Repeated     uint64 `json:"repeated"`
	Marks        uint64 `json:"marks"`
	LostRandom   uint64 `json:"lost_random"`
	LostQueue    uint64 `json:"lost_queue"`
	LostBlackout uint64 `json:"lost_blackout"`
	// State is what the first connection's control was doing in the end.
	State string `json:"state"`
	// Jain is the index of the connections' goodput and FlowBps that of each, where there are several; FlowBps only
	// of 16 or fewer.
	Jain    *float64     `json:"jain,omitempty"`
	FlowBps []units.Rate `json:"flow_bps,omitempty"`
}

// Packets counts packets.
type Packets struct {
	Sent            uint64 `json:"sent"`
	Received        uint64 `json:"received"`
	DroppedEmulated uint64 `json:"dropped_emulated"`
	// DroppedReal were received and dropped by the devices, whatever the reason, late ones aside, and at most as many as got lost: what
	// strangers send to the devices' port isn't told apart.
	DroppedReal uint64 `json:"dropped_real"`
	// LostUnseen are the others that were sent and not dropped by the emulated link: lost in the
	// network or in the kernel's buffers. Both ends are counted when nothing is under way, unless
	// one of them gave up: then it is inexact by the few packets that were.
	LostUnseen    uint64 `json:"lost_unseen"`
	LateDiscarded uint64 `json:"late_discarded"`
	Duplicate     uint64 `json:"duplicate"`
	ICRCErrors    uint64 `json:"icrc_errors"`
	// Data packets that a queue had marked, and the notifications of it, by mlx5's names.
	NPMarked     uint64 `json:"np_ecn_marked_roce_packets"`
	NPCNPSent    uint64 `json:"np_cnp_sent"`
	RPCNPHandled uint64 `json:"rp_cnp_handled"`
	RPCNPIgnored uint64 `json:"rp_cnp_ignored"`
	// Header-only packets that switches had left of data: those that came in, were sent back to the sender, and were
	// reported there.
	TrimmedSeen     uint64 `json:"trimmed_seen,omitempty"`
	TrimmedSentBack uint64 `json:"trimmed_sent_back,omitempty"`
	TrimmedReported uint64 `json:"trimmed_reported,omitempty"`
}

// Chunks counts repair units of UnitBytes.
type Chunks struct {
	UnitBytes     units.Bytes `json:"unit_bytes"`
	Sent          uint64      `json:"sent"`
	Retransmitted uint64      `json:"retransmitted"`
	// Spurious counts those of Retransmitted that weren't needed (reliability.Stats).
	Spurious  uint64 `json:"spurious"`
	Parity    uint64 `json:"parity"`
	Recovered uint64 `json:"recovered"`
	// Missing were lost for good, which only an unreliable scheme allows.
	Missing uint64 `json:"missing"`
	// Timeouts counts expired timers, Fallbacks what a code could not recover in time (test/grid).
	Timeouts  uint64 `json:"timeouts"`
	Fallbacks uint64 `json:"fallbacks,omitempty"`
}

// Params are a scheme's parameters.
type Params struct {
	// Alpha is the α of sr's timeout RTT + α·RTT, Beta the β of ec's fallback.
	Alpha float64 `json:"alpha,omitempty"`
	Beta  float64 `json:"beta,omitempty"`
	// K data units and M parity units make a group.
	K       int    `json:"k,omitempty"`
	M       int    `json:"m,omitempty"`
	Explain string `json:"explain,omitempty"` // what the scheme chose and why
}

// Completion summarises completion times. A percentile that so few times don't have is 0 here and null in JSON.
type Completion struct {
	Avg    units.Duration `json:"avg"`
	Stddev units.Duration `json:"stddev"` // of a sample
	P50    units.Duration `json:"p50"`
	P90    units.Duration `json:"p90"`
	P99    units.Duration `json:"p99"`
	P999   units.Duration `json:"p999"`
	P9999  units.Duration `json:"p9999"`
	Min    units.Duration `json:"min"`
	Max    units.Duration `json:"max"`
}

// MarshalJSON writes null for percentiles that aren't known: no time is 0.
func (c Completion) MarshalJSON() ([]byte, error) {
	known := func(d units.Duration) *units.Duration {
		if d == 0 {
			return nil
		}
		return &d
	}
	return json.Marshal(struct {
		Avg    units.Duration  `json:"avg"`
		Stddev units.Duration  `json:"stddev"`
		P50    units.Duration  `json:"p50"`
		P90    *units.Duration `json:"p90"`
		P99    *units.Duration `json:"p99"`
		P999   *units.Duration `json:"p999"`
		P9999  *units.Duration `json:"p9999"`
		Min    units.Duration  `json:"min"`
		Max    units.Duration  `json:"max"`
	}{c.Avg, c.Stddev, c.P50, known(c.P90), known(c.P99), known(c.P999), known(c.P9999), c.Min, c.Max})
}

// A Bucket is how many times were at most UpTo and longer than the bucket before.
type Bucket struct {
	UpTo  units.Duration
	Count int64
}

// MarshalJSON writes a bucket as a pair, because there are many.
func (b Bucket) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{int64(b.UpTo), b.Count}) }

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bucket) UnmarshalJSON(text []byte) error {
	var pair []int64
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || pair[0] < 0 || pair[1] < 0 {
		return errors.New("a bucket of a histogram is a pair of a time in nanoseconds and a count")
	}
	*b = Bucket{units.Duration(pair[0]), pair[1]}
	return nil
}

// CPU is processors' time, without that for making and checking content. Receiver is null when both ends are one
// process: then Sender has both.
type CPU struct {
	Sender   CPUTime  `json:"sender"`
	Receiver *CPUTime `json:"receiver"`
	// NsPerPacket is that of both ends over the packets that both sent.
	NsPerPacket float64 `json:"ns_per_packet"`
	// Load is how many processors were busy, of both ends together.
	Load float64 `json:"load"`
}

// Both is what both ends spent.
func (c *CPU) Both() CPUTime {
	if c.Receiver == nil {
		return c.Sender
	}
	return c.Sender.Plus(*c.Receiver)
}

// CPUTime is what a process has spent of processors' time.
type CPUTime struct {
	User units.Duration `json:"user_ns"`
	Sys  units.Duration `json:"sys_ns"`
}

// Since is what was spent after o.
func (c CPUTime) Since(o CPUTime) CPUTime { return CPUTime{c.User - o.User, c.Sys - o.Sys} }

// Plus adds what another spent.
func (c CPUTime) Plus(o CPUTime) CPUTime { return CPUTime{c.User + o.User, c.Sys + o.Sys} }

// Total is user and system time together.
func (c CPUTime) Total() units.Duration { return c.User + c.Sys }

// Environment is what a result was measured on. Nothing in it names the machine: Run does.
type Environment struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	Kernel  string `json:"kernel"`
	Version string `json:"version"` // of the program
}

// Here is this machine and the program's version.
func Here(version string) Environment {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Environment{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Kernel: strings.TrimSpace(string(kernel)), Version: version,
	}
}
