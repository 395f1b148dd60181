// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/sdr-rdma/go-sdr/internal/verbstest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// The tests with build tag rxe need a kernel with two rxe devices whose interfaces are connected:
//
//	go run ./test/vm -suite short
//
// They never skip: where the devices are missing, they fail.
const (
	devA = "rxe0"
	devB = "rxe1"
)

func TestMain(m *testing.M) {
	if os.Getenv("SDR_VM") == "" {
		fmt.Fprintln(os.Stderr, "these tests change QPs and links of rxe0 and rxe1: run them in the VM, go run ./test/vm -suite short")
		os.Exit(1)
	}
	if args := os.Getenv(senderEnv); args != "" {
		if err := runSender(args); err != nil {
			fmt.Fprintln(os.Stderr, "sender:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// What the tests of all providers share, under short names.
type (
	end       = verbstest.End
	endConfig = verbstest.Config
)

const (
	allAccess = verbstest.AllAccess
	waitLimit = verbstest.WaitLimit
)

var (
	newEnd    = verbstest.NewEnd
	connect   = verbstest.Connect
	poll      = verbstest.Poll
	quiet     = verbstest.Quiet
	postRecvs = verbstest.PostRecvs
	send      = verbstest.Send
	writeImm  = verbstest.WriteImm
	fill      = verbstest.Fill
)

func pair(t testing.TB, c endConfig) (a, b *end) {
	t.Helper()
	return verbstest.Pair(t, devA, devB, c)
}

// rxe claims a route header for connected QPs, too, whose receives have none (rxe_resp.c, do_complete). It finds out that a local key is
// dead when it copies; Linux 7 flushes the request that has it, as those behind.
var rxe = verbstest.Provider{A: devA, B: devB, Received: verbstest.Received{Flags: verbs.WCWithGRH}, CQEntries: 3,
	LocalKey:     []verbs.WCStatus{verbs.WCLocalQPOpErr, verbs.WCLocalProtErr, verbs.WCFlushErr},
	ShortReceive: []verbs.WCStatus{verbs.WCRemoteOpErr, verbs.WCRemoteInvalReqErr}}

// TestProvider runs the cases that each provider must pass.
func TestProvider(t *testing.T) { rxe.Run(t) }
