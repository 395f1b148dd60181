// SPDX-License-Identifier: Apache-2.0

package backendtest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
)

// A fakeTB is a test that may fail without anybody minding.
type fakeTB struct {
	testing.TB // nil, for the method that only package testing can have
	name       string

	mu       sync.Mutex
	log      []string
	failed   bool
	skipped  bool
	cleanups []func()
}

// run runs a case as a test of its own and returns how it ended.
func (f *fakeTB) run(c backendtest.Case, mk backendtest.Maker) {
	f.protect(func() { c.Run(f, mk) })
	for len(f.cleanups) > 0 {
		last := f.cleanups[len(f.cleanups)-1]
		f.cleanups = f.cleanups[:len(f.cleanups)-1]
		f.protect(last)
	}
}

// protect calls fn where FailNow and a panic end no more than it.
func (f *fakeTB) protect(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				f.Errorf("panic: %v", p)
			}
		}()
		fn()
	}()
	<-done
}

func (f *fakeTB) Helper()           {}
func (f *fakeTB) Name() string      { return f.name }
func (f *fakeTB) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }

func (f *fakeTB) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *fakeTB) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Errorf(format string, args ...any) {
	f.Logf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
}

func (f *fakeTB) FailNow() {
	f.mu.Lock()
	f.failed = true
	f.mu.Unlock()
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) { f.Errorf(format, args...); f.FailNow() }
func (f *fakeTB) Fatal(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f *fakeTB) Skipf(format string, args ...any) {
	f.Logf(format, args...)
	f.skipped = true
	runtime.Goexit()
}

func (f *fakeTB) Skip(args ...any) { f.Skipf("%s", fmt.Sprint(args...)) }

func (f *fakeTB) text() string { return strings.Join(f.log, "\n") }

// allCases are those of every device, and those of package sdr.
func allCases() []backendtest.Case { return append(backendtest.Cases(), sdrtest.Cases()...) }

func findCase(t *testing.T, name string) backendtest.Case {
	t.Helper()
	for _, c := range allCases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no case %q", name)
	return backendtest.Case{}
}
