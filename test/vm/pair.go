// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
	"golang.org/x/sys/unix"
)

// pairSuite is the suite that runs in two VMs with a cable between them.
const pairSuite = "pair"

// A cableEnd is what one VM of a pair has. Both run the same jobs; SDR_PAIR tells a job which VM it is
// in, SDR_PAIR_ADDRS and SDR_PAIR_PEER the addresses of the VM and of the other, IPv4 first.
type cableEnd struct {
	addrs  []string
	mac    string
	output *prefixer
}

var cableEnds = [2]cableEnd{
	{[]string{"10.8.0.1/24", "fd00:8::1/64"}, "52:54:00:08:00:01", &prefixer{out: os.Stdout}},
	{[]string{"10.8.0.2/24", "fd00:8::2/64"}, "52:54:00:08:00:02", &prefixer{out: os.Stdout, mark: "[VM 2] "}},
}

// runPair boots two VMs and returns the exit status of the first that failed. The second VM's output
// has a mark before each line.
func (b *suiteBuild) runPair(ctx context.Context, base bootJobs) (int, error) {
	cable, err := newCable()
	if err != nil {
		return 0, err
	}
	var statuses [2]int
	var errs [2]error
	var wg sync.WaitGroup
	for i := range cable {
		wg.Go(func() {
			defer cable[i].Close()
			statuses[i], errs[i] = bootOnce(ctx, b.config, b.prepared, b.pairEnd(base, i, cable[i]))
			if errs[i] != nil {
				errs[i] = fmt.Errorf("VM %d: %w", i+1, errs[i])
			}
		})
	}
	wg.Wait()
	return max(statuses[0], statuses[1]), errors.Join(errs[:]...)
}

// newCable makes the two ends of a cable, for QEMU's socket netdev.
func newCable() ([2]*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return [2]*os.File{}, fmt.Errorf("socket pair: %w", err)
	}
	return [2]*os.File{os.NewFile(uintptr(fds[0]), "cable"), os.NewFile(uintptr(fds[1]), "cable")}, nil
}

// pairEnd is base as VM i of a pair boots it.
func (b *suiteBuild) pairEnd(base bootJobs, i int, cable *os.File) bootJobs {
	own, peer := cableEnds[i], cableEnds[1-i]
	base.manifest.Network = nil
	base.manifest.Uplink = &vmjob.Uplink{Link: "eth0", MTU: b.config.mtu, RDMA: "rxe0", Addrs: own.addrs}
	base.manifest.Jobs = slices.Clone(base.manifest.Jobs)
	for j := range base.manifest.Jobs {
		job := &base.manifest.Jobs[j]
		job.Env = append(slices.Clone(job.Env), fmt.Sprintf("SDR_PAIR=%d", i),
			"SDR_PAIR_ADDRS="+hostsOf(own.addrs), "SDR_PAIR_PEER="+hostsOf(peer.addrs))
	}
	base.cable, base.mac, base.output = cable, own.mac, own.output
	return base
}

// hostsOf are addresses without their prefix lengths, with commas between them.
func hostsOf(addrs []string) string {
	hosts := make([]string, len(addrs))
	for i, a := range addrs {
		hosts[i], _, _ = strings.Cut(a, "/")
	}
	return strings.Join(hosts, ",")
}

// A prefixer passes on whole lines, each behind a prefix, so that the lines of two VMs don't mix.
type prefixer struct {
	out  io.Writer
	mark string
	rest []byte // of a line that hasn't ended
}

// oneLine is held while a prefixer writes.
var oneLine sync.Mutex

func (m *prefixer) Write(b []byte) (int, error) {
	m.rest = append(m.rest, b...)
	for {
		line, rest, ok := bytes.Cut(m.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		if err := m.line(line); err != nil {
			return 0, err
		}
		m.rest = append([]byte(nil), rest...)
	}
}

func (m *prefixer) line(line []byte) error {
	oneLine.Lock()
	defer oneLine.Unlock()
	_, err := fmt.Fprintf(m.out, "%s%s\n", m.mark, line)
	return err
}
