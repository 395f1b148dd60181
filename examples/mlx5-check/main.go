// SPDX-License-Identifier: Apache-2.0

// Command mlx5-check finds out in a minute what an RDMA adapter does that no document says, and whether this module's driver
// works on it: capabilities, writes with immediate in a loop, what becomes of packets that come too late, whether taking
// memory away is a fence, and rates. Its output is meant for an issue. Nothing leaves the adapter, whose two ends are on one
// port unless -e names another device.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

const usage = `Checks an RDMA adapter and the driver of this module on it. Paste the output into an issue.

  mlx5-check -d mlx5_0

It needs access to /dev/infiniband (mostly root's), 64 MiB that may be locked (ulimit -l), and a minute.

Flags:
`

func main() {
	var c config
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.StringVar(&c.from, "d", "mlx5_0", "`device` to check")
	flag.StringVar(&c.to, "e", "", "second `device`, whose port is connected with the first's; the same one by default")
	flag.IntVar(&c.gid, "x", -1, "GID `index` on both; by default an IPv4 one of RoCEv2, if there is one")
	flag.DurationVar(&c.each, "t", 4*time.Second, "`time` of each measurement")
	flag.Parse()
	if flag.NArg() > 0 || c.each <= 0 {
		fmt.Fprintln(os.Stderr, "mlx5-check: it takes no arguments but flags, and -t above 0; -h lists them")
		os.Exit(2)
	}
	if c.to == "" {
		c.to = c.from
	}
	if err := check(os.Stdout, c); err != nil {
		fmt.Fprintln(os.Stderr, "mlx5-check:", err)
		os.Exit(1)
	}
}

type config struct {
	from, to string
	gid      int // -1: choose
	each     time.Duration
}

// errFailed is the end of a check in which a step has failed; the output says which.
var errFailed = errors.New("a step failed")

// output is where a check is written to. It keeps the first failure, such as a full disk.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// check runs all steps, and says when not all of what they say could be written.
func check(w io.Writer, c config) error {
	o := &output{w: w}
	err := steps(o, c)
	return errors.Join(err, o.err)
}

// steps runs all steps. One that fails doesn't keep others from running, as long as they can.
func steps(w io.Writer, c config) error {
	environment(w)
	if err := device(w, c.from); err != nil {
		return err
	}
	p, err := newPair(c, false)
	if err != nil {
		return err
	}
	defer p.close()
	capabilities(w, p)
	failed := false
	for _, s := range []struct {
		name string
		run  func(io.Writer, *pair, config) error
	}{
		{"writes with immediate", writes}, {"late packets", latePackets}, {"fence", fence}, {"keys", keys}, {"latency", latency}, {"rate", rate},
	} {
		fmt.Fprintf(w, "\n%s\n", s.name)
		if err := s.run(w, p, c); err != nil {
			fmt.Fprintf(w, "  FAILED: %v\n", err)
			failed = true
		}
	}
	if failed {
		return errFailed
	}
	fmt.Fprintln(w, "\nno step failed")
	return nil
}

// line prints a property.
func line(w io.Writer, name, format string, a ...any) {
	fmt.Fprintf(w, "  %-28s %s\n", name, fmt.Sprintf(format, a...))
}

func environment(w io.Writer) {
	fmt.Fprintln(w, "environment")
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		line(w, "kernel", "%s %s", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
	}
	version := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		version = b.Main.Version
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
				version += " " + s.Key + " " + s.Value
			}
		}
	}
	line(w, "this program", "%s, %s", version, runtime.Version())
	line(w, "processors", "%d", runtime.NumCPU())
}

// device prints what the adapter says of itself.
func device(w io.Writer, name string) error {
	ctx, err := verbs.Open(name)
	if err != nil {
		return err
	}
	defer ctx.Close()
	info := ctx.Info()
	a, err := ctx.QueryDevice()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\ndevice %s\n", name)
	line(w, "driver, firmware", "%s, %s", info.Driver, a.FirmwareVersion)
	line(w, "vendor, part", "%#x, %d (hardware version %d)", a.VendorID, a.VendorPartID, a.HWVer)
	line(w, "limits", "%d QPs of %d requests of %d pieces, %d CQs of %d, %d MRs", a.MaxQP, a.MaxQPWR, a.MaxSGE, a.MaxCQ, a.MaxCQE, a.MaxMR)
	line(w, "capabilities", "%v", a.Caps)
	_, null := ctx.NullMkey()
	line(w, "DEVX, null key", "%v, %v", ctx.HasMkeys(), null)
	line(w, "receives out of order", "RC %d, UC %d, UD %d", ctx.MaxOutOfOrder(verbs.RC), ctx.MaxOutOfOrder(verbs.UC), ctx.MaxOutOfOrder(verbs.UD))
	for port := 1; port <= int(a.PhysPorts); port++ {
		p, err := ctx.QueryPort(port)
		if err != nil {
			return err
		}
		line(w, fmt.Sprintf("port %d", port), "%v, %v, MTU %v of %v, %v %v, %g Gbit/s", p.State, p.LinkLayer, p.ActiveMTU, p.MaxMTU, p.ActiveWidth, p.ActiveSpeed, p.Rate())
	}
	table, err := ctx.GIDTable()
	if err != nil {
		return err
	}
	types := map[string]int{}
	for _, g := range table {
		types[g.Type.String()]++
	}
	var all []string
	for t, n := range types {
		all = append(all, fmt.Sprintf("%d of %s", n, t))
	}
	line(w, "GIDs", "%s", strings.Join(all, ", ")) // not the addresses themselves: the output is for others
	return nil
}
