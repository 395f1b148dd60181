// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeFuzzer in the environment makes this test binary print its value and wait for an interrupt. A
// shell can't play that part: one that was started in the background may not trap SIGINT.
const fakeFuzzer = "SDR_FAKE_FUZZER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(talker); dir != "" {
		os.Exit(talk(dir))
	}
	says, ok := os.LookupEnv(fakeFuzzer)
	if !ok {
		os.Exit(m.Run())
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	fmt.Println("fuzz: elapsed: 0s, " + says)
	<-interrupt
	if says == fuzzerFinds {
		os.Exit(1)
	}
}

const fuzzerFinds = "execs: 12345 (1/sec), failing input"

// TestFuzzerIsInterrupted: the fuzzer gets an interrupt when its time is up, and what it says then counts.
func TestFuzzerIsInterrupted(t *testing.T) {
	if !apart(t) {
		return
	}
	for _, tc := range []struct{ name, says, last string }{
		{"finds nothing", "execs: 12345 (1/sec)", "1 passed, 0 failed"},
		{"finds something", fuzzerFinds, "0 passed, 1 failed"},
		{"tries nothing", "gathering baseline coverage: 0/2 completed", "0 passed, 1 failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(fakeFuzzer, tc.says)
			_, out := runFake(t, t.Context(), options{}, step{name: "fuzz", budget: 20 * time.Second,
				run: func(c *stepContext) error {
					c.fuzzOne(fuzzTarget{name: "FuzzIt", pkg: ".", binary: os.Args[0]}, 50*time.Millisecond)
					return nil
				}})
			require.Equal(t, tc.last, lastLine(out), out)
			require.NotContains(t, out, "over its budget")
		})
	}
}
