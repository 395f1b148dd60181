// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// Switches heed the path that a transport names for each packet, unless another way is asked for; then a permutation of STrack takes much
// less than over one path a message.
func TestRoutingFollowsTransport(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"", "ecmp"},
		{"--transport irn:ack=4", "ecmp"},
		{"--transport dcp --trim 60,n=16", "ecmp"},
		{"--transport strack", "entropy"},
		{"--transport strack:prompt=marked,paths=16", "entropy"},
		{"--transport uet --trim 64,w=1000", "entropy"},
		{"--transport mprdma", "entropy"},
		{"--transport strack --routing ecmp", "ecmp"},
		{"--transport gbn --routing entropy", "entropy"},
	} {
		out, err := command(t, append([]string{"run", "--topo", "leafspine:2x2x2", "--load", "perm:100kB", "-q", "--json", "-"}, strings.Fields(tc.args)...)...)
		require.NoError(t, err, tc.args)
		var r report
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		require.Equal(t, tc.want, r.Config.Routing, tc.args)
	}
	longest := func(args ...string) float64 {
		out, err := command(t, append([]string{"run", "--topo", "leafspine:8x8x8,400G,1us", "--load", "perm:4MB", "--transport", "strack:base=8us", "--ecn", "100kB,300kB,1",
			"--buffer", "256MB,queue=2MB", "-q", "--json", "-"}, args...)...)
		require.NoError(t, err)
		var r report
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		return r.FCT.Max
	}
	require.Greater(t, longest("--routing", "ecmp"), 1.5*longest(), "sprayed")
}

// Everything that a flag's help names can be used.
func TestHelpIsTrue(t *testing.T) {
	for _, args := range []string{
		"--transport gbn:window=64KiB,ack=2,rto=1ms,nakdelay=1us,nakinterval=10us,cnp=packets", "--transport irn:rtolow=50us,lowflight=2",
		"--transport dcp:track=bitmap,ho=60,message=100,batch=8,rto=1ms,retries=3 --trim 60,n=16,acks=safe,threshold=100kB@400G,control=1MB --forced 0.01",
		"--transport dcp:ho=57,track=counter --trim 57,w=1.5", "--transport timeout:rto=1ms",
		"--transport racktlp:window=100kB,span=3,reorder=5us,rto=1ms", "--transport mprdma:initial=10,delta=32,bitmap=128,rto=1ms",
		"--transport strack:prompt=marked,paths=16,target=9us --ecn 20kB,80kB,1", "--routing entropy", "--routing leastqueue:2", "--routing leastqueue:weighted --topo leafspine:2x2x2,slow=1x4 --load perm:10kB", "--routing flowlet:10us", "--routing ecmp:symmetric",
		"--buffer 16MiB,pfc,headroom=ns3,shift=2,reserve=1KiB,resume=2KiB", "--buffer 1MiB,queue=200kB,alpha=1,deep=8", "--ecn 20kB,80kB,0.2@100G;30kB,90kB,1",
		"--load incast:3,100kB,to=2,jitter=1us", "--load dbt:100kB,chunk=10kB", "--load poisson:AliStorage,0.3,100us", "--cc swift", "--until 5us", "--switch-latency 500ns",
	} {
		_, err := command(t, append([]string{"run", "--topo", "leafspine:2x4x2", "-q"}, strings.Fields(args)...)...)
		require.NoError(t, err, args)
	}
	for _, sub := range []string{"run", "figure", "table", "total", "compare", "check", "topo", "bench"} {
		out, err := command(t, sub, "--help")
		require.NoError(t, err)
		require.Greater(t, len(out), 300, sub)
	}
}

func FuzzScenario(f *testing.F) {
	f.Add("irn:window=4KiB,ack=2", "leastqueue:3", "1MiB,pfc,shift=2", "3kB,4kB,0.5@100G;1,2,1")
	f.Add("gbn:rto=1us", "flowlet:1ns", "9GB,deep=1+2,alpha=0.5,queue=3", "none")
	f.Fuzz(func(t *testing.T, transport, routing, buffer, ecn string) {
		s := defaultScenario()
		s.Transport, s.Routing, s.Buffer, s.ECN = transport, routing, buffer, ecn
		_, err := s.config()
		var mistake usage.Error
		require.True(t, err == nil || errors.As(err, &mistake))
	})
}

// Memory that isn't reserved is said as 0, which fabric.Buffer has for its default.
func TestNoReserve(t *testing.T) {
	none, err := parseBuffer("1MiB,pfc,reserve=0")
	require.NoError(t, err)
	require.Negative(t, none.Reserve)
	usual, err := parseBuffer("1MiB,pfc")
	require.NoError(t, err)
	require.Zero(t, usual.Reserve)
}
