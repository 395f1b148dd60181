// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
)

// The test binary is its own host process, as the command is.
func TestMain(m *testing.M) {
	hosts.Serve("peers", serveHost)
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	p, err := parse([]string{"-quick", "-drop", "0,1e-2", "-reps", "1", "-only", "^sdr adaptive$|^TCP bbr$", "-json", file})
	require.NoError(t, err)
	_, err = p.run(t.Context())
	if errors.Is(err, hosts.ErrPrivilege) {
		t.Skip(err)
	}
	require.NoError(t, err)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var records []record
	require.NoError(t, json.Unmarshal(b, &records))
	require.Len(t, records, 4)
	for _, r := range records {
		if r.Err != "" {
			require.Equal(t, "bbr", r.Transport, r.Err)
			continue
		}
		require.Len(t, r.TimesNs, 1)
		require.Greater(t, *r.Multiple, 1.0)
		require.Equal(t, r.Link.Drop > 0, r.Link.To.Lost > 0)
		require.Greater(t, r.Link.To.Bytes, uint64(r.SizeBytes))
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"-drop", "0.6"}, {"-drop", "-1"}, {"-size", "1"}, {"-size", "4KiB,2GiB"}, {"-reps", "0"}, {"-limit", "1ms"},
		{"-slower", "0"}, {"-within", "1s"}, {"-only", "nothing"}, {"-only", "("}, {"extra"},
	} {
		_, err := parse(bad)
		require.Error(t, err, "%q", bad)
	}
	p, err := parse([]string{"-quick", "-size", "4KiB"})
	require.NoError(t, err)
	require.EqualValues(t, 4096, p.sizes[0])
	require.Equal(t, list[float64]{1e-3}, p.drops)
	require.False(t, p.goals())
}

func TestIdeal(t *testing.T) {
	p, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, 8*8388608*time.Nanosecond+25*time.Millisecond, p.ideal(8<<20))
	require.True(t, p.goals())
}

// A stopped transfer counts as long as it ran.
func TestAverage(t *testing.T) {
	p := &plan{slower: 1}
	one := p.ideal(8 << 20)
	r := &result{plan: p, limit: 30 * time.Second, size: 8 << 20, times: []time.Duration{one, 2 * one, 3 * one}}
	require.Equal(t, "2.00", r.cell())
	r.times, r.stopped = []time.Duration{10 * time.Second}, true
	require.Equal(t, "> 217", r.cell())
	r.err = errors.New("no")
	require.Equal(t, "–", r.cell())
}

func TestDisturbedTransfersAreRepeated(t *testing.T) {
	r := &result{row: row{reps: 2}, until: time.Now().Add(time.Hour)}
	for _, disturbed := range []bool{true, false, true, true} {
		r.book(time.Second, disturbed)
	}
	require.Equal(t, 2, len(r.again))
	require.Equal(t, 2, len(r.times))
	require.Equal(t, 1, r.disturbed)
	require.Equal(t, "end", r.answer())
}

func TestStolen(t *testing.T) {
	require.Equal(t, 358400*time.Millisecond, parseStolen("cpu  1938777 311370 648310 652623 4068 0 13902 35840 0 0\ncpu0 1 2\n"))
	require.Zero(t, parseStolen("nothing"))
	second := time.Second
	require.False(t, robbed(second*time.Duration(runtime.NumCPU())/50, second))
	require.True(t, robbed(second*time.Duration(runtime.NumCPU())/49, second))
}
