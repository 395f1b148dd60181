// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/result"
)

// A sweep that was stopped goes on: what is stored and right is not run again, anything else is.
func TestSweepResumes(t *testing.T) {
	dir := t.TempDir()
	var runs []sweepRun
	for seed := range uint64(4) {
		s := defaultScenario()
		s.Topo, s.Load, s.Seed = "star:4", "perm:20kB", seed
		runs = append(runs, sweepRun{fmt.Sprint("run", seed), s, 1})
	}
	all := func() ([]*report, error) {
		return sweep(context.Background(), dir, runs, 2, newMeter(nil, "", 1, 1, 1, 1))
	}
	first, err := all()
	require.NoError(t, err)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, r := range runs {
		require.NoError(t, os.Chtimes(pathOf(dir, r), old, old))
	}
	require.NoError(t, os.Remove(pathOf(dir, runs[1])))                             // never ended
	require.NoError(t, os.WriteFile(pathOf(dir, runs[2]), []byte("{\"ver"), 0o644)) // half written by something else
	runs[3].s.MTU = 1024                                                            // the run that is asked for has another MTU now
	second, err := all()
	require.NoError(t, err)
	for i, r := range runs {
		info, err := os.Stat(pathOf(dir, r))
		require.NoError(t, err)
		require.Equal(t, i == 0, info.ModTime().Equal(old), "run %d", i)
		if i < 3 {
			require.Equal(t, first[i].Hash, second[i].Hash)
		}
	}
	require.NotEqual(t, first[3].Hash, second[3].Hash)

	// What another build of the same version made is run again, too: the model may have been changed.
	var rep report
	require.NoError(t, readJSON(pathOf(dir, runs[0]), &rep))
	require.NotEmpty(t, rep.Program, "tests are a build that no commit names")
	rep.Program, rep.Events = "another", 1
	require.NoError(t, result.Write(nil, pathOf(dir, runs[0]), rep))
	var said bytes.Buffer
	third, err := sweep(context.Background(), dir, runs, 2, newMeter(&said, "figure", 1, 1, 1, 1))
	require.NoError(t, err)
	require.Equal(t, first[0].Events, third[0].Events)
	require.Equal(t, "sdr-fabric: figure: 3 of 4 simulations are taken from "+dir+", where an earlier call has left them\n", said.String())
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file stays")
}

// Results, and the files of a sweep, don't depend on how many run at once or in which order.
func TestSweepOrder(t *testing.T) {
	var runs []sweepRun
	var costs []float64
	for seed := range uint64(8) {
		s := defaultScenario()
		s.Topo, s.Load, s.Seed = "leafspine:2x4x2", fmt.Sprintf("perm:%dkB", 50*(8-seed)), seed
		runs, costs = append(runs, sweepRun{fmt.Sprint("run", seed), s, 1}), append(costs, 1)
	}
	backward := slices.Clone(runs)
	slices.Reverse(backward)
	var want []string
	for _, tc := range []struct {
		runs    []sweepRun
		workers int
	}{{runs, 1}, {runs, 2}, {runs, 8}, {backward, 3}} {
		dir := t.TempDir()
		_, err := sweep(context.Background(), dir, tc.runs, tc.workers, newMeter(nil, "", costs...))
		require.NoError(t, err)
		var got []string
		for _, r := range runs {
			var rep report
			require.NoError(t, readJSON(pathOf(dir, r), &rep))
			rep.WallS, rep.EventsPerS, rep.RSSBytes = 0, 0, 0 // of this run, not of its result
			b, err := json.Marshal(rep)
			require.NoError(t, err)
			got = append(got, string(b))
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%d at once", tc.workers)
	}
}

// A sweep that is stopped leaves what has ended, whole; one that fails says why.
func TestSweepStops(t *testing.T) {
	dir := t.TempDir()
	small, big := defaultScenario(), defaultScenario()
	small.Topo, small.Load = "star:4", "perm:20kB"
	big.Topo, big.Load = "leafspine:8x16x16,400G,1us", "perm:1GiB"
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "small.json")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	runs := []sweepRun{{"small", small, 1}, {"big", big, 1}}
	_, err := sweep(ctx, dir, runs, 2, newMeter(nil, "", 1, 1))
	require.ErrorIs(t, err, context.Canceled)
	rep, err := stored(filepath.Join(dir, "small.json"), &small)
	require.NoError(t, err)
	require.NotNil(t, rep)
	_, err = os.Stat(filepath.Join(dir, "big.json"))
	require.ErrorIs(t, err, os.ErrNotExist)

	bad := small
	bad.CC = "luck"
	_, err = sweep(context.Background(), dir, []sweepRun{{"bad", bad, 1}}, 1, newMeter(nil, "", 1))
	require.ErrorContains(t, err, `"luck": it is unknown`)
}
