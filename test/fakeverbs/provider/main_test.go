// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/verbstest"
	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
	"github.com/sdr-rdma/go-sdr/verbs"
)

const (
	devA = "mlx5_0"
	devB = "mlx5_1"
	// sink completes every request without doing it.
	sink = "mlx5_2"
	// faulty fails the call that a test chose.
	faulty = "mlx5_3"
	// plain has firmware that takes no commands from programs.
	plain = "mlx5_4"
	// netA and netB are connected by the machine's network.
	netA = "mlx5_5"
	netB = "mlx5_6"
	// removable is removed when a test asks for it.
	removable = "mlx5_7"
	// rxeA and rxeB are Soft-RoCE devices.
	rxeA = "rxe0"
	rxeB = "rxe1"
)

// insideEnv is set in the process that runs the tests: to the file that lists the doorbells of the sink.
const insideEnv = "SDR_FAKEVERBS_INSIDE"

// longEnv has the tests run their full rounds, which take two minutes of a processor; without it they run those of -short.
const longEnv = "SDR_FAKEVERBS_LONG"

// TestMain runs the tests in another process of this program, on a host with two fake devices. They fail also when
// the devices were treated as hardware would not forgive.
func TestMain(m *testing.M) {
	fakeverbs.Init()
	if os.Getenv(insideEnv) != "" {
		flag.Parse()
		if os.Getenv(longEnv) == "" {
			_ = flag.Set("test.short", "true")
		}
		os.Exit(m.Run())
	}
	if err := runInside(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		os.Exit(1)
	}
}

func runInside() error {
	// An interrupt ends the program and what it has in the file system, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "doorbells")
	files := map[string]*os.File{}
	for _, suffix := range []string{"", faultSuffix, fateSuffix, callsSuffix, removalSuffix} {
		f, err := os.Create(name + suffix)
		if err != nil {
			return err
		}
		defer f.Close()
		files[suffix] = f
	}
	list := files[""]
	h, err := fakeverbs.NewHost(fakeverbs.Port{Name: devA, Addr: netip.MustParseAddr("192.0.2.1")},
		fakeverbs.Port{Name: devB, Addr: netip.MustParseAddr("192.0.2.2"), Fault: countCalls(files[callsSuffix])},
		fakeverbs.Port{Name: sink, Addr: netip.MustParseAddr("192.0.2.3"), Sink: true},
		fakeverbs.Port{Name: faulty, Addr: netip.MustParseAddr("192.0.2.4"), Fault: func() unix.Errno { return nextFault(files[faultSuffix]) }},
		fakeverbs.Port{Name: plain, Addr: netip.MustParseAddr("192.0.2.5"), NoDEVX: true},
		fakeverbs.Port{Name: netA, Addr: loopback(1), RoCE: true},
		fakeverbs.Port{Name: netB, Addr: loopback(2), RoCE: true},
		fakeverbs.Port{Name: removable, Addr: netip.MustParseAddr("192.0.2.8")},
		fakeverbs.Port{Name: rxeA, Addr: netip.MustParseAddr("192.0.2.9"), Driver: fakeverbs.RXE},
		fakeverbs.Port{Name: rxeB, Addr: netip.MustParseAddr("192.0.2.10"), Driver: fakeverbs.RXE})
	if err != nil {
		return err
	}
	defer h.Close()
	idle, err := net.Listen("unix", name+idleSuffix)
	if err != nil {
		return err
	}
	defer idle.Close()
	go answerIdle(idle, h)
	h.Fate = fates(files[fateSuffix])
	h.Posted = func(p fakeverbs.Posted) {
		if h.Device(2).Has(p.QPN) {
			maskQPN(&p)
			fmt.Fprintf(list, "%d %x %x %x %x %x %x %d\n", p.QPN, p.Doorbell, p.Record, p.Blocks, p.ReceiveRecord, p.ReceiveEntries, p.Register, p.BlueFlame)
		}
	}
	if os.Getenv("SDR_FAKEVERBS_TRACE") != "" {
		var mu sync.Mutex
		h.Log = func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	p, err := h.Start(cmd)
	if err != nil {
		return err
	}
	go removeOnDemand(h.Device(7), files[removalSuffix])
	err = p.Wait()
	for i := range 10 {
		s := h.Device(i).Stats()
		for _, v := range s.Violations {
			err = errors.Join(err, errors.New(v))
		}
		if s.Objects > 0 {
			err = errors.Join(err, fmt.Errorf("%d objects are left on device %d", s.Objects, i))
		}
	}
	return err
}

// loopback is an address of this machine that no other run of these tests uses.
func loopback(last byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, 64 | byte(pid>>16&63), byte(pid >> 8), byte(pid)&^3 | last})
}

// maskQPN replaces the number of the queue pair by zeros: in the doorbell, in each request's control segment, and
// in the old bytes behind inline data, which may be those of an older control segment.
func maskQPN(p *fakeverbs.Posted) {
	const block, qpn, size = 64, 4, 7 // of a block, and where a control segment has the number and the size
	clear(p.Doorbell[qpn:size])
	for b := p.Blocks; len(b) >= block; {
		clear(b[qpn:size])
		if b[3] == opcodeUMR && len(b) >= 2*block {
			clear(b[block+qpn : block+size]) // the queue pair that a window is bound to
		}
		used := 16 * int(b[size]&0x3f)
		if data := b[min(used, headers(b[3], p.UD)):used]; len(data) > 4 && data[0]&0x80 != 0 {
			clear(data[4+(int(data[2])<<8|int(data[3])):])
		}
		b = b[min(len(b), max(block, (used+block-1)/block*block)):]
	}
}

// opcodeUMR is that of a change of a memory key.
const opcodeUMR = 0x25

// headers is the size of what a request has before its data.
func headers(opcode byte, ud bool) int {
	switch {
	case ud:
		return 16 + 48
	case opcode == 0x11 || opcode == 0x12: // atomics
		return 16 + 32
	case opcode == 0x01 || opcode == 0x0a || opcode == 0x0b: // sends
		return 16
	}
	return 16 + 16
}

// What the tests of all providers share, under short names.
type (
	end    = verbstest.End
	config = verbstest.Config
)

const (
	allAccess = verbstest.AllAccess
	waitLimit = verbstest.WaitLimit
)

var (
	newEnd   = verbstest.NewEnd
	poll     = verbstest.Poll
	send     = verbstest.Send
	receive  = verbstest.Receive
	writeImm = verbstest.WriteImm
	fill     = verbstest.Fill
)

func connect(t testing.TB, a, b *end) {
	t.Helper()
	verbstest.Connect(t, a, b, verbs.MTU4096)
}

func pair(t testing.TB, c config) (a, b *end) {
	t.Helper()
	return verbstest.Pair(t, devA, devB, c)
}

// mlx5 keeps the places of requests that aren't signalled until a later one completes, and takes the completions of a QP out of its CQs
// when it is closed.
var mlx5 = verbstest.Provider{A: devA, B: devB, Received: verbstest.Received{SrcQP: true}, VendorErr: true, PlacesWait: true,
	CloseTakesCompletions: true, CQEntries: 4, LocalKey: []verbs.WCStatus{verbs.WCLocalProtErr}, ShortReceive: []verbs.WCStatus{verbs.WCRemoteInvalReqErr}}

// TestProvider runs the cases that each provider must pass.
func TestProvider(t *testing.T) { mlx5.Run(t) }
