// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// A finding is one thing that the doctor looked at.
type finding struct {
	backend string // which it matters for
	what    string
	state   string // as it is
	fix     string // the line to type; "" if it is well
	why     string // what that is good for, or where; may be ""
}

// A patient is the machine that the doctor looks at; root is "/" but in tests.
type patient struct{ root string }

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what this machine can, and what to type for the rest", Args: usage.Args(cobra.NoArgs),
		Run: func(c *cobra.Command, _ []string) { show(c.OutOrStdout(), patient{"/"}.examine()) },
	}
}

// show prints findings, a line each, with what to type below, and below that what it is good for.
func show(w io.Writer, all []finding) {
	for _, f := range all {
		fmt.Fprintf(w, "%-9s %-22s %s\n", f.backend, f.what, f.state)
		if f.fix != "" {
			fmt.Fprintf(w, "    -> %s\n", f.fix)
			if f.why != "" {
				fmt.Fprintf(w, "       # %s\n", f.why)
			}
		}
	}
}

// examine looks at everything that measurements depend on.
func (p patient) examine() []finding {
	all := []finding{{backend: "all", what: "kernel", state: p.text("proc/sys/kernel/osrelease")}, p.clock()}
	all = append(all, p.port(), p.offload(), p.buffer("rmem_max"), p.buffer("wmem_max"))
	all = append(all, interfaces()...)
	return append(all, p.rdma()...)
}

// text is the content of a file, without the line feed.
func (p patient) text(name string) string {
	b, err := os.ReadFile(filepath.Join(p.root, name))
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

func (p patient) clock() finding {
	f := finding{backend: "all", what: "clock source", state: p.text("sys/devices/system/clocksource/clocksource0/current_clocksource")}
	if f.state == "hpet" || f.state == "acpi_pm" {
		f.fix, f.why = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource", "reading it takes a microsecond"
	}
	return f
}

// wantBuffer is what a socket buffer should be able to hold: a millisecond of 40 Gbit/s, and what the kernel adds.
const wantBuffer = 8 * units.MiB

func (p patient) buffer(name string) finding {
	text := p.text("proc/sys/net/core/" + name)
	n, err := strconv.ParseInt(text, 10, 64)
	f := finding{backend: "userroce", what: "net.core." + name, state: text}
	if err == nil {
		f.state = units.Bytes(n).String()
	}
	if err == nil && units.Bytes(n) < wantBuffer {
		f.fix, f.why = fmt.Sprintf("sudo sysctl -w net.core.%s=%d", name, int64(wantBuffer)), "fast senders overrun less"
	}
	return f
}

// port says whether RoCEv2's UDP port is free.
func (p patient) port() finding {
	f := finding{backend: "userroce", what: fmt.Sprintf("UDP port %d", roce.UDPPort), state: "free"}
	c, err := net.ListenUDP("udp", &net.UDPAddr{Port: roce.UDPPort})
	if err != nil {
		f.state, f.fix = "taken: "+userroce.PortTaken(roce.UDPPort).Held(), "sdr-perf --udp-port any …"
		return f
	}
	_ = c.Close()
	return f
}

// offload says whether the kernel takes and gives trains of datagrams at once.
func (p patient) offload() finding {
	f := finding{backend: "userroce", what: "segmentation offload", state: "UDP_SEGMENT and UDP_GRO"}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		f.state = "unknown"
		return f
	}
	defer unix.Close(fd)
	if unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1024) != nil || unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) != nil {
		f.state, f.fix, f.why = "not in this kernel", "install Linux 5.0 or later", "packets go one by one until then"
	}
	return f
}

// jumbo is the least MTU of an interface that carries packets of 4096 bytes: with IPv6, UDP and RoCEv2's headers.
const jumbo = 4096 + 40 + 8 + 12 + 16 + 4

func interfaces() (all []finding) {
	list, _ := net.Interfaces()
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		f := finding{backend: "all", what: "MTU of " + i.Name, state: strconv.Itoa(i.MTU)}
		if i.MTU < jumbo {
			f.fix, f.why = fmt.Sprintf("sudo ip link set %s mtu 9000", i.Name), fmt.Sprintf("where the whole path can: packets of 4096 bytes need %d", jumbo)
		}
		all = append(all, f)
	}
	return all
}

// rdma looks at the kernel's devices.
func (p patient) rdma() []finding {
	found, err := verbs.Devices()
	devs := finding{backend: "softroce", what: "RDMA devices"}
	for _, d := range found {
		devs.state += d.Name + " " + rc.Prefix + d.Name + " " // as -d takes them
	}
	if devs.state == "" {
		devs.state = "none"
		if err != nil {
			devs.state = "none: " + err.Error()
		}
		devs.fix = "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth0"
	}
	lock := finding{backend: "softroce", what: "locked memory", state: "no limit"}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
		lock.state = units.Bytes(limit.Cur).String()
		lock.fix, lock.why = "ulimit -l unlimited", "in a root shell, or memlock in limits.conf: registered memory is locked"
	}
	return []finding{devs, lock}
}
