// SPDX-License-Identifier: Apache-2.0

// Package vmjob is the contract between the VM runner on the host and the init program in the
// guest: the manifest that goes in with the initramfs, and the events that come back, one JSON
// object a line, on a serial port of their own.
package vmjob

// Paths inside the guest.
const (
	// ManifestPath is where init finds its Manifest.
	ManifestPath = "/job/manifest.json"
	// ModulesDir holds NAME.ko of every module of Manifest.Modules.
	ModulesDir = "/job/modules"
	// BinDir holds the programs to run.
	BinDir = "/job/bin"
	// FilesDir holds files that the runner was asked to add.
	FilesDir = "/job/files"
)

// Serial ports of the guest: ttyS0 carries the kernel's log.
const (
	// OutputTTY carries the jobs' standard output and error, byte for byte.
	OutputTTY = "/dev/ttyS1"
	// EventTTY carries Events.
	EventTTY = "/dev/ttyS2"
)

// Manifest tells init what to do.
type Manifest struct {
	// Modules are loaded in this order, from ModulesDir.
	Modules []string `json:"modules"`
	// Network describes the links made before the first job; nil leaves only lo.
	Network *Network `json:"network,omitempty"`
	// Uplink is the cable to another VM; nil for none.
	Uplink *Uplink `json:"uplink,omitempty"`
	// Jobs run one after another, whatever the status of those before.
	Jobs []Job `json:"jobs"`
}

// Network is a veth pair in the initial namespace with one rxe device on each end: rxe of
// Debian's kernels lives in the initial namespace only, and netem has no effect on traffic of a
// device to itself.
type Network struct {
	// Links are the names of both ends of the veth pair.
	Links [2]string `json:"links"`
	// MTU of both ends, in bytes. Path MTU 4096 needs 4176 or more.
	MTU int `json:"mtu"`
	// RDMA are the names of the rxe devices on Links; empty names make none.
	RDMA [2]string `json:"rdma"`
}

// Job is one program run in the guest.
type Job struct {
	// Name labels the job in events and progress lines.
	Name string `json:"name"`
	// Argv is the program's path in the guest and its arguments.
	Argv []string `json:"argv"`
	// Dir is the working directory in the guest.
	Dir string `json:"dir"`
	// Env is the whole environment.
	Env []string `json:"env"`
	// LimitSeconds ends the job by SIGKILL; 0 means no limit of its own.
	LimitSeconds int `json:"limit_seconds"`
}

// Kinds of events.
const (
	Booted = "booted" // user space runs
	Ready  = "ready"  // modules are loaded, links are up
	Start  = "start"  // a job starts
	Exit   = "exit"   // a job has ended
	Failed = "failed" // init could not do its part: Message says what
	Done   = "done"   // all jobs have ended; the guest powers off
)

// Event is what init reports.
type Event struct {
	Kind string `json:"kind"`
	// Uptime is the guest's, in seconds.
	Uptime float64 `json:"uptime"`
	Kernel string  `json:"kernel,omitempty"`
	Job    string  `json:"job,omitempty"`
	// Status is the exit status of the job; 128 plus the signal's number when a signal ended it.
	Status  int    `json:"status"`
	Message string `json:"message,omitempty"`
}
