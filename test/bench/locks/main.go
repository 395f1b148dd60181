// SPDX-License-Identifier: Apache-2.0

// Command locks counts lock operations per unit sent, by the function that locks:
//
//	go run ./test/bench/locks
//
// It runs TestLockOperations of package reliability against a sync package whose mutexes count their callers,
// which the go command's -overlay puts in the place of the real one.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// counter goes to the end of sync/mutex.go.
const counter = `
// LockSites are the places that lock, each with how often it has.
var LockSites [1 << 14]struct {
	PC uintptr
	N  uint64
}

func countLock() {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	for i := pc[0] % uintptr(len(LockSites)); ; i = (i + 1) % uintptr(len(LockSites)) {
		s := &LockSites[i]
		if atomic.LoadUintptr(&s.PC) == pc[0] || atomic.CompareAndSwapUintptr(&s.PC, 0, pc[0]) {
			atomic.AddUint64(&s.N, 1)
			return
		}
	}
}
`

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "Counts lock operations per unit sent, by the function that locks. There are no arguments: go run ./test/bench/locks")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "sync", "mutex.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	counting := string(source)
	for _, r := range [][2]string{
		{"isync \"internal/sync\"", "isync \"internal/sync\"\n\t\"runtime\"\n\t\"sync/atomic\""},
		{"\tm.mu.Lock()\n", "\tcountLock()\n\tm.mu.Lock()\n"},
		{"\treturn m.mu.TryLock()\n", "\tcountLock()\n\treturn m.mu.TryLock()\n"},
	} {
		if strings.Count(counting, r[0]) != 1 {
			return fmt.Errorf("%s is not as expected: no single %q", original, r[0])
		}
		counting = strings.Replace(counting, r[0], r[1], 1)
	}
	replacement := filepath.Join(dir, "mutex.go")
	if err := os.WriteFile(replacement, []byte(counting+counter), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replacement}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	c := exec.Command("go", "test", "-overlay", file, "-tags", "lockcount", "-run", "^TestLockOperations$", "-count", "1", "-v",
		"github.com/sdr-rdma/go-sdr/reliability")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
