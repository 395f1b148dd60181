// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
