// SPDX-License-Identifier: Apache-2.0

// Package result is what sdr-perf, test/grid and test/peers write as JSON: an object for each point that was
// measured. "sdr-model compare" reads it.
package result

import (
	"os"
	"runtime"
	"strings"

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
	// CompletionNs are times at the sender.
	CompletionNs Completion `json:"completion_ns"`
	// IdealNs is size/rate + RTT of the emulated link, else null.
	IdealNs *units.Duration `json:"ideal_ns"`
	// ThroughputGbps is user data over the average completion time, in 1e9 bit/s.
	ThroughputGbps float64 `json:"throughput_gbps"`
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
}

// Link is the emulated link.
type Link struct {
	RTTNs      units.Duration `json:"rtt_ns"`
	RateBps    units.Rate     `json:"rate_bps"` // headers included; 0: no limit
	Drop       float64        `json:"drop"`     // per packet
	Burst      float64        `json:"burst"`
	Reorder    float64        `json:"reorder"`
	Duplicate  float64        `json:"duplicate"`
	QueueBytes units.Bytes    `json:"queue_bytes"`
	// HeaderBytes are counted with each packet, and in the ideal (test/grid).
	HeaderBytes units.Bytes `json:"header_bytes,omitempty"`
}

// Congestion is a congestion control and its model of the path; 0 where it has none.
type Congestion struct {
	Name     string         `json:"name"`
	RateBps  units.Rate     `json:"rate_bps"` // found, of user data
	MinRTTNs units.Duration `json:"min_rtt_ns"`
	QueueNs  units.Duration `json:"queue_ns"` // how long packets waited
	State    string         `json:"state"`
}

// Packets counts packets.
type Packets struct {
	Sent            uint64 `json:"sent"`
	Received        uint64 `json:"received"`
	DroppedEmulated uint64 `json:"dropped_emulated"`
	// DroppedReal were dropped by the devices, whatever the reason, late ones aside.
	DroppedReal uint64 `json:"dropped_real"`
	// LostUnseen were sent, not dropped by the emulated link, and never received: lost in the
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
	// Timeouts and Fallbacks are what made the sender repeat (test/grid).
	Timeouts  uint64 `json:"timeouts,omitempty"`
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

// Completion summarises completion times.
type Completion struct {
	Avg  units.Duration `json:"avg"`
	P50  units.Duration `json:"p50"`
	P99  units.Duration `json:"p99"`
	P999 units.Duration `json:"p999"`
	Min  units.Duration `json:"min"`
	Max  units.Duration `json:"max"`
}

// Environment is where a result comes from. Nothing in it names the machine.
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
