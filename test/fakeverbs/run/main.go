// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Command run runs a program on fake mlx5 and rxe devices: see package fakeverbs.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
)

const usage = `Runs a program on a machine with fake mlx5 and rxe devices, which are connected.

  go run ./test/fakeverbs/run [flags] -- PROGRAM [ARGUMENTS]

  go run ./test/fakeverbs/run -- ibv_devinfo -v
  go run ./test/fakeverbs/run -devices rxe0,rxe1 -- sh -c 'ibv_rc_pingpong -d rxe0 -g 0 & sleep 1; ibv_rc_pingpong -d rxe1 -g 0 localhost'
  go run ./test/fakeverbs/run -roce -addr 127.1.0.1 -- sh -c 'ib_write_bw -d fake0 -x 0 -c UC & sleep 1; ib_write_bw -d fake1 -x 0 -c UC localhost'
  go run ./test/fakeverbs/run -- sh -c 'ibv_uc_pingpong -d fake0 -g 0 & sleep 1; ibv_uc_pingpong -d fake1 -g 0 localhost'

The exit status is the program's.

Flags:
`

func main() {
	fakeverbs.Init()
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	names := flag.String("devices", "fake0,fake1", "comma-separated `names` of the devices; those that begin with rxe are for librxe, the others for libmlx5")
	addr := flag.String("addr", "192.0.2.1", "IPv4 `address` of the first device; the others have those that follow")
	network := flag.Bool("roce", false, "connect the devices by the machine's network, RoCEv2 over UDP port 4791 of their addresses (try -addr 127.1.0.1)")
	trace := flag.Bool("trace", false, "print each call that the program makes on a device")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	first, err := netip.ParseAddr(*addr)
	if err == nil {
		var ports []fakeverbs.Port
		for _, n := range strings.Split(*names, ",") {
			p := fakeverbs.Port{Name: n, Addr: first, RoCE: *network}
			if strings.HasPrefix(n, "rxe") {
				p.Driver = fakeverbs.RXE
			}
			ports = append(ports, p)
			first = first.Next()
		}
		err = run(ports, *trace, flag.Args())
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "fakeverbs:", err)
		os.Exit(1)
	}
}

// passSignals leaves it to the program what a signal ends: its devices are here as long as it runs. Ctrl-C reaches it from the
// terminal, SIGTERM is passed on.
func passSignals(got <-chan os.Signal, p *os.Process) {
	for s := range got {
		if s == syscall.SIGTERM {
			_ = p.Signal(s)
		}
	}
}

func run(ports []fakeverbs.Port, trace bool, argv []string) error {
	h, err := fakeverbs.NewHost(ports...)
	if err != nil {
		return err
	}
	defer h.Close()
	if trace {
		h.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	cmd := exec.Command(path, argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM) // before the program runs, which a signal would otherwise leave without its devices
	defer signal.Stop(got)
	p, err := h.Start(cmd)
	if err != nil {
		return err
	}
	go passSignals(got, cmd.Process)
	err = p.Wait()
	for i := range ports {
		for _, v := range h.Device(i).Stats().Violations {
			fmt.Fprintf(os.Stderr, "fakeverbs: %s: %s\n", ports[i].Name, v)
			err = errors.Join(err, errors.New("the program did what hardware would not forgive"))
		}
	}
	return err
}
