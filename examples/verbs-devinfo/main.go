// SPDX-License-Identifier: Apache-2.0

// Command verbs-devinfo prints what the RDMA devices of this machine can do, like ibv_devinfo, but
// without libibverbs. On a machine without any, it runs on fake ones:
//
//	go build -o /tmp/ ./examples/verbs-devinfo
//	go run ./test/fakeverbs/run -devices rxe0,fake0 -- /tmp/verbs-devinfo
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/sdr-rdma/go-sdr/verbs"
)

func main() {
	name := flag.String("d", "", "only this `device`")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Prints the RDMA devices with their limits, ports and GIDs.\n\n  verbs-devinfo [-d rxe0]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "verbs-devinfo: %q: it takes no arguments; a device is chosen by -d\n", flag.Arg(0))
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	err := run(out, *name)
	if err = errors.Join(err, out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "verbs-devinfo:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, name string) error {
	if name != "" {
		return show(w, name)
	}
	devices, err := verbs.Devices() // an error is of devices that couldn't be read; the others are listed
	if len(devices) == 0 && err == nil {
		fmt.Fprintln(w, "no RDMA devices; a soft one: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0")
	}
	for _, d := range devices {
		err = errors.Join(err, show(w, d.Name))
	}
	return err
}

func show(w io.Writer, name string) error {
	ctx, err := verbs.Open(name)
	if err != nil {
		return err
	}
	defer ctx.Close()
	info := ctx.Info()
	d, err := ctx.QueryDevice()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s (%s, driver %s, firmware %s)\n", info.Name, info.Uverbs, info.Driver, d.FirmwareVersion)
	fmt.Fprintf(w, "  node GUID        %v\n", d.NodeGUID)
	fmt.Fprintf(w, "  limits           %d QPs of %d requests, %d CQs of %d entries, %d MRs, %d MWs\n",
		d.MaxQP, d.MaxQPWR, d.MaxCQ, d.MaxCQE, d.MaxMR, d.MaxMW)
	fmt.Fprintf(w, "  pieces a request %d, shared receive queues %d of %d\n", d.MaxSGE, d.MaxSRQ, d.MaxSRQWR)
	fmt.Fprintf(w, "  capabilities     %v\n", d.Caps)
	for port := 1; port <= int(d.PhysPorts); port++ {
		p, err := ctx.QueryPort(port)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  port %d           %v (%v), %v, %v %v, path MTU %v of %v, messages up to %d bytes\n",
			port, p.State, p.PhysState, p.LinkLayer, p.ActiveWidth, p.ActiveSpeed, p.ActiveMTU, p.MaxMTU, p.MaxMessage)
	}
	gids, err := ctx.GIDTable()
	if err != nil {
		return err
	}
	for _, g := range gids {
		fmt.Fprintf(w, "  GID %d/%d          %v (%v, interface %d)\n", g.Port, g.Index, g.GID, g.Type, g.IfIndex)
	}
	return nil
}
