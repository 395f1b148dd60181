// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

var discard = slog.New(slog.DiscardHandler)

// getHost gets a host of s for cfg at an address, with a port that is free.
func getHost(t *testing.T, s *hosts, cfg Config, at netip.Addr) *host {
	cfg.Logger = discard
	c, err := cfg.complete()
	require.NoError(t, err)
	h, err := s.get(c, at, userroce.AnyPort)
	require.NoError(t, err)
	return h
}

// TestHostsAreShared: connections that agree in what makes a device have one, until the last of them gives it up.
func TestHostsAreShared(t *testing.T) {
	var s hosts
	local := netip.MustParseAddr("127.0.0.1")
	h := getHost(t, &s, Config{}, local)
	require.Same(t, h, getHost(t, &s, Config{}, local))
	require.Same(t, h, getHost(t, &s, Config{Rate: units.Gbit, Window: 3, Addr: local}, netip.MustParseAddr("127.0.0.9")), "where it is counts, not what was dialled")
	others := []*host{
		getHost(t, &s, Config{}, netip.MustParseAddr("127.0.0.2")),
		getHost(t, &s, Config{Link: linkemu.Config{Rate: units.Gbit}}, local),
		getHost(t, &s, Config{Link: linkemu.Config{Rate: units.Gbit}}, local), // a link of its own
	}
	a, _ := netnstest.Pair(t, 1500)
	a.Do(func() { others = append(others, getHost(t, &s, Config{}, local)) })
	seen := map[*host]bool{h: true}
	for _, o := range others {
		require.False(t, seen[o])
		seen[o] = true
		require.NoError(t, s.release(o))
	}
	require.Len(t, s.all, 1)
	for range 2 {
		require.NoError(t, s.release(h))
		require.Len(t, s.all, 1)
	}
	require.NoError(t, s.release(h))
	require.Empty(t, s.all)
	_, err := h.endpoint.NewQP(sdr.QPConfig{})
	require.ErrorIs(t, err, sdr.ErrClosed)
}

// TestHostThatFailed: a device that has failed is no connection's any more but of those that it has, of which the last closes it.
func TestHostThatFailed(t *testing.T) {
	var s hosts
	local := netip.MustParseAddr("127.0.0.1")
	h := getHost(t, &s, Config{}, local)
	require.NoError(t, h.dev.Close())
	require.Eventually(t, func() bool { return h.endpoint.Err() != nil }, 10*time.Second, time.Millisecond)
	again := getHost(t, &s, Config{}, local)
	require.NotSame(t, h, again)
	require.NoError(t, s.release(again))
	require.Empty(t, s.all)
	_ = s.release(h) // whose device says that it was closed already
	require.True(t, h.left)
}
