// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/internal/result"
)

// A run of a sweep. Runs with the same scenario have the same name.
type sweepRun struct {
	name string // of its file
	s    scenario
	cost float64 // relative to other runs, for the time that is left
}

// sweep runs what isn't in dir yet, workers at a time, and stores each report there as soon as it is
// there: a sweep that is killed loses only what was running. A stored report counts if the same
// version, or where that doesn't say which source the same program, made it from the same scenario.
func sweep(ctx context.Context, dir string, runs []sweepRun, workers int, m *meter) ([]*report, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out := make([]*report, len(runs))
	var todo []int
	for i, r := range runs {
		rep, err := stored(pathOf(dir, r), &r.s)
		if err != nil {
			return nil, err
		}
		if out[i] = rep; rep == nil {
			todo = append(todo, i)
		} else {
			m.skip(i)
		}
	}
	if n := len(runs) - len(todo); n > 0 {
		m.say("%d of %d simulations are taken from %s, where an earlier call has left them", n, len(runs), dir)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs, next := make([]error, len(runs)), make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				if out[i], errs[i] = runAndStore(ctx, dir, runs[i], m.piece(i)); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	for _, i := range todo {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	for _, err := range errs { // what went wrong, before what that stopped
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	return out, ctx.Err()
}

func pathOf(dir string, r sweepRun) string { return filepath.Join(dir, r.name+".json") }

func runAndStore(ctx context.Context, dir string, r sweepRun, progress func(float64)) (*report, error) {
	o, err := simulate(ctx, &r.s, progress)
	if err != nil {
		return nil, err
	}
	progress(1)
	rep := o.report(&r.s)
	rep.Program = program()
	return rep, result.Write(nil, pathOf(dir, r), rep)
}

// program says which program this is where its version doesn't: a version without a commit, or with one that was changed, is that of
// any number of models. It is empty where the version says all, and where the program can't be read.
var program = sync.OnceValue(func() string {
	v := release.Version()
	if !strings.Contains(v, "-dev") || strings.Contains(v, "+") && !strings.HasSuffix(v, ".modified") {
		return ""
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // opened for reading
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

// stored is the report in a file, if it is one of this scenario and program.
func stored(path string, s *scenario) (*report, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rep report
	if json.Unmarshal(b, &rep) != nil || rep.Config != *s || rep.Version != release.Version() || rep.Program != program() {
		return nil, nil // of another sweep: it is written anew
	}
	return &rep, nil
}
