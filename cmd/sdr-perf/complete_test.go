// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompletion: a shell is offered values, and not files.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"--reliability ":   "adaptive\nec-mds\nec-xor\nnone\nsr\nsr-nack\nstrack\nstrack-p\n:6\n",
		"--reliability s,": "s,adaptive\ns,ec-mds\ns,ec-xor\ns,none\ns,sr\ns,sr-nack\ns,strack\ns,strack-p\n:6\n",
		"--congestion ":    "auto\nnone\nfixed\nbbr\nsearch\ndcqcn\nswift\n:4\n",
		"--sweep ":         "channels\ndrop\ninflight\nrate\nrtt\nsize\nunit\n:6\n",
		"--json ":          ":0\n",
		"--rtt ":           ":4\n",
		"--udp-port ":      "any\n:4\n",
		"doctor ":          ":4\n",
		"compare ":         ":0\n",
		"--pc":             "--pcap\tcapture this end's packets to FILE; with --loopback the sender's\n:4\n",
	} {
		var out bytes.Buffer
		c := newCommand(new(bool), nil)
		c.SetOut(&out)
		c.SetArgs(append([]string{"__complete"}, strings.Split(args, " ")...))
		require.NoError(t, c.Execute())
		require.Equal(t, want, out.String(), "%q", args)
	}
}
