// SPDX-License-Identifier: Apache-2.0

//go:build linux

package qemu

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFullDisk: when the jobs' output can't be written the VM isn't kept from printing on, and the failure is told.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	vm := make(chan error, 1)
	go func() {
		_, err := w.Write(make([]byte, 1<<20)) // more than a pipe holds
		w.Close()
		vm <- err
	}()
	require.ErrorIs(t, copyAll(full, r), unix.ENOSPC)
	require.NoError(t, <-vm)
}
