// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestReadNS3(t *testing.T) {
	flows, err := ReadNS3(strings.NewReader("4 \n12 20 3 100 2090 2.000025862\n10 31 3 100 46303 2.00005055\n12 20 3 100 7 2.1\n20 12 3 200 1 3\n"))
	require.NoError(t, err)
	require.Equal(t, []Flow{
		{Src: 12, Dst: 20, Size: 2090, Start: 25_862, SrcPort: 10000, DstPort: 100},
		{Src: 10, Dst: 31, Size: 46303, Start: 50_550, SrcPort: 10000, DstPort: 100},
		{Src: 12, Dst: 20, Size: 7, Start: 100_000_000, SrcPort: 10001, DstPort: 100},
		{Src: 20, Dst: 12, Size: 1, Start: 1_000_000_000, SrcPort: 10000, DstPort: 200},
	}, flows)
	for in, want := range map[string]string{
		"":                                   "line 0: unexpected EOF",
		"x\n":                                "line 1: want the number of flows",
		"2\n1 2 3 100 5 1\n":                 "line 2: unexpected EOF, behind 1 of 2 flows",
		"1\n1 2 3 100 5\n":                   "line 2: want source, destination",
		"1\n1 2 3 100 0 1\n":                 "line 2: want source, destination",
		"1\n1 2 3 100 5 1e3\n":               "line 2: want source, destination",
		"1\n1 -2 3 100 5 1\n":                "line 2: want source, destination",
		"2\n1 2 3 100 5 1\n1 2 3 100 5 99\n": "more than a minute behind",
	} {
		_, err := ReadNS3(strings.NewReader(in))
		require.ErrorContains(t, err, want, "%q", in)
	}
}

func TestReadHtsim(t *testing.T) {
	flows, err := ReadHtsim(strings.NewReader(`Nodes 16
Connections 5
Triggers 2
0->13 id 1 start 1500000 size 2000000 send_done_trigger 1
13->0 id 2 trigger 1 size 3000000 recv_done_trigger 2
# a comment
1->2 id 3 start 0 size 5 send_done_trigger 2
2->1 id 4 trigger 2 size 6
3->1 id 5 trigger 2 size 6 prio 3
trigger id 1 oneshot
trigger id 2 barrier count 2
`))
	require.NoError(t, err)
	require.Equal(t, []Flow{
		{Src: 0, Dst: 13, Size: 2_000_000, Start: 1500},
		{Src: 13, Dst: 0, Size: 3_000_000, After: []int32{0}},
		{Src: 1, Dst: 2, Size: 5},
		{Src: 2, Dst: 1, Size: 6, After: []int32{1, 2}},
		{Src: 3, Dst: 1, Size: 6, After: []int32{1, 2}},
	}, flows)
	head := "Nodes 4\nConnections 1\n"
	for in, want := range map[string]string{
		head:                                   "0 connections, but Connections says 1",
		head + "0->4 start 0 size 1":           "want two of the 4 nodes",
		head + "0->1 start 0 size":             "want pairs of a keyword and a number",
		head + "0->1 size 1":                   "needs either a start or a trigger",
		head + "0->1 start 0 trigger 1 size 1": "needs either a start or a trigger",
		head + "0->1 start 0":                  "want a size from 1",
		head + "0->1 start -1 size 3":          "not negative",
		head + "0->1 begin 0 size 1":           `unknown keyword "begin"`,
		head + "0->1 trigger 3 size 1":         "trigger 3, which nothing pulls",
		head + "Failures 2":                    "describe them with the topology",
		head + "hello":                         "want a connection such as",
		"Nodes 4\nConnections 3\n0->1 start 0 size 1 send_done_trigger 1\n0->2 start 0 size 1 send_done_trigger 1\n1->0 trigger 1 size 1": "only a barrier may be",
		"Nodes 4\nConnections 2\n0->1 start 0 size 1 send_done_trigger 1\n1->0 trigger 1 size 1\ntrigger id 1 barrier count 2":            "barrier 1 counts to 2, but 1",
		head + "trigger id":       "want a number behind id",
		head + "trigger id 1 one": `unknown keyword "one"`,
		"Nodes x\n":               "want a number from 0",
	} {
		_, err := ReadHtsim(strings.NewReader(in))
		require.ErrorContains(t, err, want, "%q", in)
		require.NotContains(t, err.Error(), "\n")
	}
}

func env(files map[string]string) Env {
	return Env{Hosts: hosts(16), Rate: 100 * units.Gbit, Seed: 1, Open: func(name string) (io.ReadCloser, error) {
		if text, ok := files[name]; ok {
			return io.NopCloser(strings.NewReader(text)), nil
		}
		return nil, errors.New("open " + name + ": no such file")
	}}
}

func TestParse(t *testing.T) {
	e := env(map[string]string{
		"sizes.txt": "0 0\n1000 100\n", "f.txt": "1\n100 101 3 100 5 1\n", "m.cm": "Nodes 200\nConnections 1\n100->101 start 0 size 9\n",
	})
	for spec, n := range map[string]int{
		"incast:8,1MiB,to=3,jitter=5us": 8, "perm:16MiB": 16, "halves:1MiB": 8, "perm:16MiB,qps=4": 64, "ring:1MiB,chunk=1MiB": 30 * 16,
		"hd:1MiB,ranks=8,jobs=2": 2 * 8 * 6, "dbt:1MiB,chunk=512KiB,jitter=1us,place=inorder": 15 * 4, "a2a:1MiB,active=4": 240,
		"ns3:f.txt": 1, "htsim:m.cm": 1,
	} {
		flows, err := Parse(spec, e)
		require.NoError(t, err, spec)
		require.Len(t, flows, n, spec)
	}
	for _, spec := range []string{"poisson:WebSearch,0.7,3ms", "poisson:sizes.txt,0.01,1ms", "lognormal:FbHdp,0.1,1ms,sigma=1"} {
		flows, err := Parse(spec, e)
		require.NoError(t, err, spec)
		require.NotEmpty(t, flows)
	}
	for spec, want := range map[string]string{
		"":                                    "choose incast, perm",
		"flood:1":                             `unknown kind "flood"`,
		"perm":                                `size ""`,
		"halves:1MiB,2MiB":                    "it takes SIZE, such as 16MiB",
		"halves:0":                            "a byte are needed",
		"perm:1MiB,2MiB":                      "it takes SIZE, such as 16MiB",
		"perm:qps=4,1MiB":                     "put it first",
		"perm:1MiB,qps=x":                     `qps: "x": want a whole number`,
		"perm:1MiB,qps=0":                     "must be within 1",
		"perm:1MiB,qps=1,qps=2":               "qps is given twice",
		"perm:1furlong":                       "unknown unit",
		"incast:16,1MiB":                      "must be within 1 and 15",
		"incast:4,1MiB,to=16":                 "hosts are 0 to 15",
		"ring:1MiB,speed=3":                   "it takes active=, chunk=, conns=, jitter=, jobs=, place=, qps=, ranks=, server=",
		"ring:1MiB,place=best":                "only inorder can be written",
		"hd:1MiB,ranks=12":                    "a power of two, such as 8",
		"poisson:Web,0.7,1ms":                 "no such file (built in are AliStorage, FbHdp, WebSearch)",
		"poisson:WebSearch,2x,1ms":            `"2x" is no number`,
		"poisson:WebSearch,0.5,1ms,sigma=2":   "it takes none",
		"poisson:WebSearch,0,1ms":             "must be above 0",
		"poisson:WebSearch,1e-9,1us":          "no message arrives",
		"lognormal:WebSearch,1,1ms,sigma=NaN": "within 0 and 5",
		"ns3:g.txt":                           "no such file",
	} {
		_, err := Parse(spec, e)
		require.ErrorContains(t, err, want, spec)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"incast:8,1MiB,to=3", "ring:1MiB,jobs=3,ranks=4", "lognormal:f,0.3,1ms,sigma=1", "a2a:1k,active=2", "dbt:1g,chunk=1,active=99"} {
		f.Add(s, "0 0\n1000 100\n")
	}
	f.Add("ns3:f", "1\n100 101 3 100 5 1\n")
	f.Add("htsim:f", "Nodes 200\nConnections 2\n100->101 start 0 size 9 send_done_trigger 7\n101->100 trigger 7 size 2e3\n")
	f.Fuzz(func(t *testing.T, spec, file string) {
		e := env(nil)
		e.Open = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(file))), nil }
		flows, err := Parse(spec, e)
		if err == nil {
			valid(t, flows, e.Hosts)
		}
	})
}
