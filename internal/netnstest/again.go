// SPDX-License-Identifier: Apache-2.0

package netnstest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const isAgain = "GO_SDR_TEST_IN_NAMESPACE"

// Again runs the calling test once more, in a process with a user namespace and those of flags (unix.CLONE_NEWNET, unix.CLONE_NEWNS) of its
// own, where it may do anything to them, and returns true there. To the caller it returns false, with nothing left to do; the test is
// skipped where there are no such namespaces.
func Again(t *testing.T, flags uintptr) bool {
	t.Helper()
	if os.Getenv(isAgain) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), isAgain+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("no user namespaces, or none of that kind, here: %v", err)
	}
	require.NoError(t, err, "%s", out)
	if strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Skipf("in a namespace: %s", out)
	}
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}
