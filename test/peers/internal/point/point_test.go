// SPDX-License-Identifier: Apache-2.0

package point

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// measure runs both sides over the loopback and returns what the sender reports.
// It asks for n transfers. spoil changes what the receiver is told.
func measure(t *testing.T, s Spec, n int, spoil func(*Spec)) (reports []Report, err error) {
	t.Helper()
	s.Sender, s.Receiver = netip.MustParseAddr("127.0.76.1"), netip.MustParseAddr("127.0.76.2")
	s.MTU, s.LinkRate = 4200, units.Gbit
	s.Settle = time.Millisecond
	a, b := pair(t)
	answers, answer := io.Pipe()
	lines, out := io.Pipe()
	received := make(chan error, 1)
	go func() {
		r := s
		r.Side = transport.Receiving
		spoil(&r)
		received <- Serve(t.Context(), &r, b, nil, io.Discard)
		b.Close()
	}()
	sent := make(chan error, 1)
	go func() {
		sent <- Serve(t.Context(), &s, a, answers, out)
		a.Close()
		out.Close()
	}()
	took := 0
	for d := json.NewDecoder(lines); ; {
		var r Report
		if d.Decode(&r) != nil {
			break
		}
		reports = append(reports, r)
		if r.Took > 0 {
			took++
			word := More
			if took == n {
				word = "end"
			}
			_, err := io.WriteString(answer, word+"\n")
			require.NoError(t, err)
		}
	}
	return reports, errors.Join(<-sent, <-received)
}

func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "turns")
		ends[i], err = net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, ends[i].SetDeadline(time.Now().Add(time.Minute)))
	}
	return ends[0], ends[1]
}

func same(*Spec) {}

func TestTransports(t *testing.T) {
	for _, name := range []string{"adaptive", "sr-nack", "bbr", "cubic", "quic", "srt"} {
		t.Run(name, func(t *testing.T) {
			if err := transport.Missing(name); err != nil {
				t.Skip(err)
			}
			if name == "srt" {
				program, err := transport.BuildSRT(t.TempDir())
				require.NoError(t, err)
				t.Setenv(transport.SRTProgram, program)
			}
			for _, cold := range []bool{false, true} {
				s := Spec{
					Transport: name, Size: 1 << 20, WarmupSize: 1 << 16, Warmups: 2, Cold: cold,
					Limit: 20 * time.Second, Seed: 5, ReceiverReady: 2,
				}
				reports, err := measure(t, s, 3, same)
				require.NoError(t, err)
				require.Len(t, reports, 4)
				for _, r := range reports[:3] {
					require.Positive(t, r.Took)
				}
				require.NotEmpty(t, reports[3].Version)
			}
		})
	}
}

// Content that isn't the sender's is found.
func TestWrongContent(t *testing.T) {
	s := Spec{Transport: "cubic", Size: 1 << 20, Limit: 20 * time.Second, Seed: 5}
	reports, err := measure(t, s, 1, func(r *Spec) { r.Seed++ })
	require.ErrorContains(t, err, "the content of transfer 0 is wrong at byte 0")
	require.Contains(t, reports[len(reports)-1].Err, "the other end: the content")
}

func TestContent(t *testing.T) {
	b := make([]byte, 1<<16)
	fill(b, 1, 2)
	require.NoError(t, check(b, 1, 2))
	require.Error(t, check(b, 1, 3))
	require.Error(t, check(b, 2, 2))
	require.Error(t, check(b[4096:], 1, 2))
	b[len(b)-1] ^= 1
	require.Error(t, check(b, 1, 2))
}

// A receiver that doesn't answer in time is a result: stopped.
func TestStopped(t *testing.T) {
	s := Spec{Transport: "cubic", Size: 64 << 20, Limit: time.Millisecond, Seed: 5}
	reports, _ := measure(t, s, 1, same)
	require.Len(t, reports, 1)
	require.True(t, reports[0].Stopped)
}
