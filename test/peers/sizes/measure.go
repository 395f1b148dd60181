// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	schema "github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/internal/watched"
	"github.com/sdr-rdma/go-sdr/units"
)

//go:embed c
var sources embed.FS

// A sample is what one round of a point came to.
type sample struct {
	MessageRate float64 `json:"message_rate"` // a second
	Gbps        float64 `json:"gbps"`         // user data, 1e9 bit/s
	// Sender and Receiver are processor time of both ends, over the time that the messages took.
	Sender   cpu `json:"sender"`
	Receiver cpu `json:"receiver"`
	// Handover is the longer of two times that a cache line took from one processor to the other, before the round and after it.
	Handover time.Duration `json:"handover_ns"`
	version  string
}

// cpu is how many processors an end kept busy.
type cpu struct {
	User float64 `json:"user"`
	Sys  float64 `json:"sys"`
}

func (c cpu) total() float64 { return c.User + c.Sys }

func load(user, sys, elapsed time.Duration) cpu {
	if elapsed <= 0 {
		return cpu{}
	}
	return cpu{user.Seconds() / elapsed.Seconds(), sys.Seconds() / elapsed.Seconds()}
}

// programs are what was built: the file for each kind of row.
type programs map[string]string

// build builds what the chosen rows need in folder.
func (p *plan) build(ctx context.Context, folder string) (programs, error) {
	all := programs{}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	libraries := map[string][]string{"ofi": {"-lfabric"}, "ucx": {"-lucp", "-lucs"}}
	for _, r := range p.chosen() {
		if all[r.kind] != "" {
			continue
		}
		file := filepath.Join(folder, r.kind)
		switch r.kind {
		case "stream":
			file = self
		case "sdr":
			err = buildOurs(ctx, file)
		default:
			var own string
			if own, err = unpack(folder); err == nil {
				err = run(ctx, "gcc", append([]string{"-O2", "-Wall", "-o", file, filepath.Join(own, r.kind+".c")}, libraries[r.kind]...)...)
			}
		}
		if err != nil {
			return nil, err
		}
		all[r.kind] = file
	}
	return all, nil
}

// buildOurs builds sdr-perf, in its own module: this one doesn't have all that it stands on.
func buildOurs(ctx context.Context, file string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sdr-rdma/go-sdr").Output()
	if err != nil {
		return fmt.Errorf("run this in test/peers: go list: %w", err)
	}
	return run(ctx, "go", "-C", strings.TrimSpace(string(dir)), "build", "-o", file, "./cmd/sdr-perf")
}

// unpack writes the C sources to folder.
func unpack(folder string) (string, error) {
	if err := os.CopyFS(folder, sources); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return filepath.Join(folder, "c"), nil
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// A process is one end of a point.
type process struct {
	cmd    *exec.Cmd
	ended  sync.Once
	in     io.WriteCloser
	out    *bufio.Reader
	stderr watched.Buffer
}

func start(ctx context.Context, env []string, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// line is the next that it prints.
func (p *process) line() (string, error) {
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.wait()
		return "", fmt.Errorf("%s ended: %v: %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, strings.TrimSpace(p.stderr.String()))
	}
	return strings.TrimSpace(text), nil
}

// listening is the address that a server of sdr-perf says it waits on.
func (p *process) listening(ctx context.Context) (string, error) {
	for ctx.Err() == nil {
		if _, at, _ := strings.Cut(p.stderr.String(), "waiting for a client on "); strings.Contains(at, "\n") {
			at, _, _ = strings.Cut(at, "\n")
			return at, nil
		}
		time.Sleep(time.Millisecond)
	}
	return "", fmt.Errorf("sdr-perf doesn't listen: %s", strings.TrimSpace(p.stderr.String()))
}

// wait waits for its end; any number of goroutines may.
func (p *process) wait() { p.ended.Do(func() { _ = p.cmd.Wait() }) }

// kill ends it, if it hasn't ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.wait()
}

// longest is when something has gone wrong for sure.
func (p *plan) longest() time.Duration { return 3*(p.warm+p.duration) + 30*time.Second }

// measure is one round of a point.
func (p *plan) measure(ctx context.Context, all programs, r row, size units.Bytes) (*sample, error) {
	ctx, cancel := context.WithTimeout(ctx, p.longest())
	defer cancel()
	var s *sample
	var err error
	before := handover()
	if r.kind == "sdr" {
		s, err = p.measureOurs(ctx, all[r.kind], r.argument, size)
	} else {
		s, err = p.measurePeer(ctx, all[r.kind], r, size)
	}
	if err == nil {
		s.Handover = max(before, handover())
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s, err
}

// measurePeer runs two processes that speak as c/end.h says.
func (p *plan) measurePeer(ctx context.Context, program string, r row, size units.Bytes) (*sample, error) {
	begin := func(side, address string) (*process, error) {
		args := []string{side, r.argument, address, fmt.Sprint(int64(size)), fmt.Sprint(p.inflight),
			fmt.Sprint(p.warm.Milliseconds()), fmt.Sprint(p.duration.Milliseconds())}
		if r.kind == "stream" {
			args = append([]string{endArgument}, args...)
		}
		return start(ctx, []string{"UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "UCX_LOG_LEVEL=error"}, program, args...)
	}
	receiver, err := begin("receive", "")
	if err != nil {
		return nil, err
	}
	defer receiver.kill()
	text, err := receiver.line()
	if err != nil {
		return nil, err
	}
	address, ready := strings.CutPrefix(text, "ready ")
	if !ready {
		return nil, fmt.Errorf("the receiver says %q", text)
	}
	sender, err := begin("send", address)
	if err != nil {
		return nil, err
	}
	defer sender.kill()
	var ends [2]ended
	var errs [2]error
	var both sync.WaitGroup
	for i, end := range []*process{sender, receiver} {
		both.Go(func() {
			if text, err := end.line(); err != nil {
				errs[i] = err
				sender.kill() // so that the other doesn't wait for it
				receiver.kill()
			} else {
				errs[i] = json.Unmarshal([]byte(text), &ends[i])
			}
		})
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	_, _ = sender.in.Close(), receiver.in.Close()
	from, to := ends[0], ends[1]
	if to.Messages < 1 || to.Elapsed <= 0 {
		return nil, errors.New("no message came in time: give a longer -duration")
	}
	rate := float64(to.Messages) / to.Elapsed.Seconds()
	return &sample{
		MessageRate: rate, Gbps: rate * float64(size) * 8 / 1e9, Sender: load(from.User, from.Sys, from.Elapsed),
		Receiver: load(to.User, to.Sys, to.Elapsed), version: from.Version,
	}, nil
}

// measureOurs runs two processes of sdr-perf.
func (p *plan) measureOurs(ctx context.Context, program, scheme string, size units.Bytes) (*sample, error) {
	server, err := start(ctx, nil, program, "--addr", loopback.String(), "-p", "0", "--udp-port", "any")
	if err != nil {
		return nil, err
	}
	defer server.kill()
	at, err := server.listening(ctx)
	if err != nil {
		return nil, err
	}
	client, err := start(ctx, nil, program, "--addr", loopback.String(), "--udp-port", "any", "--reliability", scheme,
		"-s", fmt.Sprint(int64(size)), "-t", fmt.Sprint(p.inflight), "-D", p.duration.String(), "--json", "-", at)
	if err != nil {
		return nil, err
	}
	defer client.kill()
	text, err := io.ReadAll(client.out)
	if err != nil {
		return nil, err
	}
	if client.wait(); !client.cmd.ProcessState.Success() {
		return nil, fmt.Errorf("sdr-perf: %v: %s", client.cmd.ProcessState, strings.TrimSpace(client.stderr.String()))
	}
	var points []schema.Result
	if err := json.Unmarshal(text, &points); err != nil {
		return nil, err
	}
	if len(points) != 1 || points[0].Verified == nil || !*points[0].Verified || points[0].CPU.Receiver == nil {
		return nil, errors.New("sdr-perf has no right result")
	}
	x := &points[0]
	of := func(c schema.CPUTime) cpu { return load(c.User, c.Sys, x.ElapsedNs) }
	return &sample{MessageRate: x.MessageRate, Gbps: x.ThroughputGbps, Sender: of(x.CPU.Sender), Receiver: of(*x.CPU.Receiver), version: "this tree"}, nil
}
