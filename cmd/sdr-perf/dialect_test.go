// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage/usagetest"
)

// asked runs a command line up to where it would begin, and returns what it asks for: our flags with their
// values, and the HOST. said is what is written beside.
func asked(args string) (what, said string, err error) {
	var words []string
	var stderr strings.Builder
	running := false
	c := newCommand(&running, func(a *call, _ *cobra.Command) error {
		a.given.Visit(func(f *pflag.Flag) {
			if !f.Hidden {
				words = append(words, f.Name+"="+f.Value.String())
			}
		})
		slices.Sort(words)
		words = append(words, a.host)
		return nil
	})
	c.SetErr(&stderr)
	c.SetOut(&stderr)
	c.SetArgs(translate(strings.Fields(args)))
	err = c.Execute()
	return strings.TrimSpace(strings.Join(words, " ")), stderr.String(), err
}

// TestDialects: what people type who know perftest, iperf3 and qperf. Each line works, and then want is what it asks
// for, or is answered with what to type.
func TestDialects(t *testing.T) {
	for _, c := range []struct{ args, want, answer string }{
		// perftest
		{"", "", ""},
		{"-d userroce", "device=userroce", ""},
		{"hostb", "hostb", ""},
		{"-F hostb", "hostb", "-F, --CPU-freq makes no difference"},
		{"-F --report_gbits -D 10 hostb", "duration=10 s hostb", "--report-gbits makes no difference: rates are in Gbit/s"},
		{"-s 65536 -n 5000 hostb", "iters=5000 size=64KiB hostb", ""},
		{"-a hostb", "all=true hostb", ""},
		{"-a -b -F hostb", "all=true bidirectional=true hostb", "no difference"},
		{"-c UC -s 4096 hostb", "size=4KiB hostb", "packets are those of UC"},
		{"-c RC hostb", "hostb", "--reliability makes transfers reliable"},
		{"--connection=UD hostb", "", "leave -c out"},
		{"-q 4 -t 128 -s 8388608 hostb", "inflight=128 qps=4 size=8MiB hostb", ""},
		{"--qp=4 --tx-depth=64 hostb", "inflight=64 qps=4 hostb", ""},
		{"--tx_depth 64 hostb", "inflight=64 hostb", ""},
		{"-p 18516 hostb", "port=18516 hostb", ""},
		{"--ib_dev=userroce --mtu 1024 hostb", "device=userroce mtu=1 KiB hostb", ""},
		{"-m 2048 --iters=1000 hostb", "iters=1000 mtu=2 KiB hostb", ""},
		{"--duration=5 --size=1M hostb", "duration=5 s size=1MiB hostb", ""},
		{"-R hostb", "", "without rdma_cm"},
		{"-z -N -Q 64 -r 512 hostb", "hostb", "completions are collected in batches"},
		{"-l 32 hostb", "", "one by one"},
		{"-I 0 hostb", "", "no packet is sent inline"},
		{"-e hostb", "", "--spin TIME"},
		{"--inline_recv=64 hostb", "", "no packet is sent inline"},
		{"-H hostb", "hostb", "--json has the histogram"},
		{"-U hostb", "", "single times aren't kept"},
		{"--rate_limit=10 hostb", "", "--rate 10gbit bounds the rate"},
		{"--run_infinitely hostb", "", "Ctrl-C"},
		{"--use_cuda=0 hostb", "", "no GPU memory"},
		{"--cpu_util hostb", "hostb", "CPU time of both ends"},
		{"--out_json --out_json_file=x.json hostb", "", "--json FILE"},
		{"-S 3 hostb", "", "--dscp CODE"},
		{"-o 16 hostb", "", "no reads, no atomics"},
		{"-x 3 hostb", "", "choose its address with --addr"},
		// iperf3
		{"-s", "", "sdr-perf without a HOST is the server"},
		{"-s -D", "", "sdr-perf without a HOST is the server"},
		{"-s -1 -p 5201", "", "sdr-perf without a HOST is the server"},
		{"-c hostb", "", "sdr-perf hostb"},
		{"-c hostb -t 30 -P 8", "", "-t SECONDS is -D, -P is -q"},
		{"--client hostb", "", "sdr-perf HOST is the client"},
		{"--time 30 hostb", "", "-D SECONDS"},
		{"--parallel 4 hostb", "", "-q N makes N connections"},
		{"--reverse hostb", "", "-b for both directions"},
		{"-b 1G hostb", "", "--rate 1G"},
		{"--bidir hostb", "", "-b measures both directions"},
		{"--length 128K hostb", "", "-s SIZE"},
		{"-u hostb", "", "packets are UDP anyway"},
		{"-J hostb", "", "--json -"},
		{"-w 4M hostb", "", "are the window"},
		{"-O 3 hostb", "", "--warmup N"},
		{"-i 1 hostb", "", "each point is shown when it is done"},
		{"--json hostb", "", "the client has the results"},
		{"-Z hostb", "", "segmentation offload"},
		{"--file x hostb", "", "examples/filecopy sends files"},
		{"-1", "", "serves one client and ends"},
		{"-6 hostb", "", "give an IPv6 address"},
		// qperf
		{"hostb tcp_bw", "", "only RoCEv2 is measured"},
		{"hostb rc_bw rc_lat", "", "sdr-perf -t 16 -s SIZE HOST"},
		{"hostb rc_bi_bw", "", "both directions"},
		{"hostb rc_rdma_read_bw", "", "only writes are measured"},
		{"hostb -oo msg_size:1:64K:*2 rc_bw", "", "--loop: qperf's -oo NAME:FIRST:LAST:STEP is -s 1KiB,4KiB,64KiB or -a"},
		{"hostb --loop msg_size:1:64K:*2 rc_bw", "", "--sweep KEY=FROM..TO"},
		{"hostb -lp 4000 rc_bw", "", "-p PORT is where the ends meet"},
		{"hostb -rca 1 rc_bw", "", "taskset -c CPUS"},
		{"hostb --loc_cpu_affinity 1 rc_bw", "", "taskset -c CPUS"},
		{"hostb -vvc rc_bw", "", "-v explains each result"},
		{"hostb conf", "", "sdr-perf doctor"},
		// ours, written as others do
		{"-loopback -rtt 25ms -rate=1g -size 4k", "loopback=true rate=1 Gbit/s rtt=25 ms size=4KiB", ""},
		{"-ec 16,4 -reliability ec-mds -tx_depth=4 hostb", "ec=16,4 inflight=4 reliability=[ec-mds] hostb", ""},
		{"-abs 4k hostb", "", "--size has no effect: --all measures all sizes"}, // which are three flags
		{"--loopback --rate 10g --rtt 25ms --drop 1%", "drop=0.01 loopback=true rate=10 Gbit/s rtt=25 ms", ""},
		{"--loopback --ib_port 1", "", "userroce is none"},
		{"hostb 4096", "", "4096 is no HOST"},
		{"--loopback --burst 8", "", "add --drop"},
		{"--loopback --interval 1s", "", "add --json or --plot"},
		{"-D 24h hostb", "duration=86400 s hostb", ""},
		{"--loopback --sweep unit=4k,8k --unit 4k", "", "--unit has no effect: --sweep unit gives it"},
		{"--loopback --sweep size=4k,8k -s 4k", "", "--size has no effect: --sweep size gives it"},
		{"--loopback --sweep drop=0.1,0.2 --sweep size=4k,8k", "", "one parameter is swept at a time: drop, or size"},
		{"--loopbak", "", "unknown flag: --loopbak; did you mean --loopback?"},
		{"--infligth 4 hostb", "", "did you mean --inflight?"},
		{"compare --tollerance 0.1 a.json b.json", "", "did you mean --tolerance?"},
		{"--loopback --drop 2", "", "the emulated link: drop probability 2: must be between 0 and 1"},
		{"--loopback -s 1G -D 2.5", "duration=2.5 s loopback=true size=1GiB", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			what, said, err := asked(c.args)
			if err != nil {
				require.Empty(t, c.want, "%v", err)
				require.NotEmpty(t, c.answer, "%v", err)
				require.ErrorContains(t, err, c.answer)
				return
			}
			require.Equal(t, c.want, what)
			require.Contains(t, said, c.answer)
		})
	}
}

// TestWords: these words are not taken for hosts.
func TestWords(t *testing.T) {
	for word, says := range map[string]string{"help": "Usage:", "version": "sdr-perf ", "devices": "userroce\n", "congestion": "\n    bbr "} {
		_, said, err := asked(word)
		require.NoError(t, err)
		require.Contains(t, said, says)
	}
}

func TestHelpFits(t *testing.T) { usagetest.HelpFits(t, newCommand(new(bool), (*call).run)) }

// TestHelpIsOfNoMachine: the help names neither processors nor devices of the machine that it is shown on.
func TestHelpIsOfNoMachine(t *testing.T) {
	root := func() *cobra.Command { return newCommand(new(bool), (*call).run) }
	usagetest.HelpIsOfNoMachine(t, root)
	require.Equal(t, "`name` of the RDMA device: userroce, softroce, or one that sdr-perf devices lists", root().Flag("device").Usage)
}

// TestForeignFlagsAreAnswered: each has an answer, and none hides one of ours.
func TestForeignFlagsAreAnswered(t *testing.T) {
	for _, x := range foreignFlags {
		require.NotEmpty(t, x.says, x.names)
		for _, name := range strings.Fields(x.names) {
			arg := ""
			if x.arg {
				arg = "=1"
			}
			_, said, err := asked("--" + name + arg + " hostb")
			if x.accept {
				require.NoError(t, err)
				require.Contains(t, said, x.says)
			} else {
				require.ErrorContains(t, err, x.says)
			}
		}
	}
}

// TestMisspelt: who misspells a command reads which is meant, where the name server knows no such host.
func TestMisspelt(t *testing.T) {
	unknown := fmt.Errorf("connect: %w", &net.DNSError{Err: "no such host", Name: "congestoin"})
	for host, says := range map[string]string{"congestoin": "did you mean the command congestion?", "docter": "did you mean the command doctor?", "hostb": "", "": ""} {
		err := misspelt(newCommand(new(bool), (*call).run), host, unknown)
		require.ErrorIs(t, err, unknown)
		require.True(t, strings.HasSuffix(err.Error(), says), "%v", err)
		require.Equal(t, says == "", err == unknown, "%v", err)
	}
	require.NoError(t, misspelt(newCommand(new(bool), (*call).run), "congestoin", nil))
}

// TestEmpty: what a variable that isn't set leaves of an argument is refused: it asks for something, and would be taken for nothing.
func TestEmpty(t *testing.T) {
	for _, args := range [][]string{{""}, {"--loopback", ""}, {"--loopback", "--json", ""}, {"--loopback", "--congestion="}, {"compare", "--json=", "a", "b"}} {
		c := newCommand(new(bool), func(*call, *cobra.Command) error { return nil })
		c.SetArgs(translate(args))
		err := c.Execute()
		require.True(t, isUsage(err))
		require.ErrorContains(t, err, "empty", "%q", args)
	}
}
