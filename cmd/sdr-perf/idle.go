// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// checkIdle refuses flags that were given and that would change nothing: whoever gives one expects that it
// does. A server hears from its client what is measured, so that it can't tell.
func (a *call) checkIdle() error {
	p, host, loopback, given := &a.params, a.host, a.loopback, a.given
	if host == "" && !loopback {
		return nil
	}
	uses := func(prefixes ...string) bool {
		return slices.ContainsFunc(p.Schemes, func(s string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
		})
	}
	_, ownPort := withPort(host, 0)
	names := strings.Join(p.Schemes, ",")
	for _, x := range []struct {
		flag string
		idle bool
		why  string
		fix  string // "": there is none
	}{
		{"alpha", !uses("sr"), names + " has no timeout to set", "add --reliability sr or sr-nack"},
		{"beta", !uses("ec"), names + " has no groups to wait for", "add --reliability ec-mds or ec-xor"},
		{"ec", !uses("ec"), names + " takes no code from the user", "add --reliability ec-mds or ec-xor"},
		{"duration", p.Iters > 0, "--iters says how many transfers are measured", "leave out --iters"},
		{"burst", p.Link.Drop == 0 && a.sweep.key != "drop", "nothing is lost", "add --drop"},
		{"interval", a.json == "" && a.plot == "" && p.Congestion == "", "nothing shows what happens over time", "add --json or --plot"},
		{"size", a.all, "--all measures all sizes", ""},
		{a.sweep.key, a.sweep.key != "", "--sweep " + a.sweep.key + " gives it", ""},
		{"all", a.sweep.key == "size", "--sweep size gives the sizes", ""},
		{"seed", !p.Verify && !p.Link.emulated() && a.sweep.key == "", "there is no content to check and no emulated link", ""},
		{"port", loopback, "with --loopback the ends meet by themselves", ""},
		{"port", ownPort, "the HOST has a port of its own", ""},
	} {
		if x.idle && given.Changed(x.flag) {
			if x.fix != "" {
				x.fix += ", or "
			}
			return usage.Errorf("--%s has no effect: %s: %sleave it out", x.flag, x.why, x.fix)
		}
	}
	return nil
}
