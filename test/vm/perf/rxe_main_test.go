// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package perf

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A scene is where both ends of a test are. In a pair of VMs the same tests run in both, in step: the
// first VM has the clients, the second the servers. In a single VM both are here, on rxe0 and rxe1.
type scene struct {
	pair   bool
	server bool     // this is the second VM of a pair
	own    []string // addresses of this VM, IPv4 first
	peer   []string // addresses of the other
	step   net.Conn
	lines  *bufio.Reader
}

// here is set by TestMain.
var here scene

// stepPort is the TCP port at which the VMs of a pair keep step.
const stepPort = "18500"

// waitLimit bounds each wait. An emulated VM on a busy host is slow.
const waitLimit = 100 * time.Second

// The tests never skip.
func TestMain(m *testing.M) {
	if os.Getenv("SDR_VM") == "" {
		fmt.Fprintln(os.Stderr, "these tests need the VM: go run ./test/vm -suite pair")
		os.Exit(1)
	}
	if err := here.enter(); err != nil {
		fmt.Fprintln(os.Stderr, "the other VM:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enter connects the VMs of a pair.
func (s *scene) enter() (err error) {
	role := os.Getenv("SDR_PAIR")
	if role == "" {
		return nil
	}
	s.pair, s.server = true, role == "1"
	s.own = strings.Split(os.Getenv("SDR_PAIR_ADDRS"), ",")
	s.peer = strings.Split(os.Getenv("SDR_PAIR_PEER"), ",")
	if s.server {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(s.own[0], stepPort)); err == nil {
			s.step, err = l.Accept()
			l.Close()
		}
	} else {
		// The other VM boots at its own pace.
		for until := time.Now().Add(waitLimit); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
			if s.step, err = net.DialTimeout("tcp", net.JoinHostPort(s.peer[0], stepPort), 2*time.Second); err == nil {
				break
			}
		}
	}
	if err == nil {
		s.lines = bufio.NewReader(s.step)
	}
	return err
}

// meet waits until the other VM has come to the same place of the same test.
func (s *scene) meet(t *testing.T, where string) {
	t.Helper()
	if !s.pair {
		return
	}
	mark := t.Name() + ": " + where
	require.NoError(t, s.step.SetDeadline(time.Now().Add(waitLimit)))
	_, err := fmt.Fprintln(s.step, mark)
	require.NoError(t, err, "the other VM is gone at %q", mark)
	line, err := s.lines.ReadString('\n')
	require.NoError(t, err, "the other VM did not come to %q", mark)
	require.Equal(t, mark, strings.TrimSpace(line), "the other VM is somewhere else: its test has failed")
}
