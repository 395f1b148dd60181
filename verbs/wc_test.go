// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// TestWCLiesAsInTheKernel: Poll copies completions as a whole, so each field of a WC must be where the
// kernel has the one of the same name.
func TestWCLiesAsInTheKernel(t *testing.T) {
	ours, kernel := reflect.TypeFor[WC](), reflect.TypeFor[uapi.Wc]()
	require.Equal(t, kernel.Size(), ours.Size())
	names := map[string]string{"Imm": "Ex", "QPN": "QpNum", "Flags": "WcFlags"}
	for f := range ours.Fields() {
		name := f.Name
		if other, ok := names[name]; ok {
			name = other
		}
		k, ok := kernel.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		require.True(t, ok, f.Name)
		require.Equal(t, [2]uintptr{k.Offset, k.Type.Size()}, [2]uintptr{f.Offset, f.Type.Size()}, f.Name)
	}
}

// TestEachSyndromeIsAFailure: an error completion of mlx5 is one, also where what the device says of it isn't known.
func TestEachSyndromeIsAFailure(t *testing.T) {
	e := make(mlx5.Completion, mlx5.CompletionSize)
	e[63] = mlx5.RecvError << 4
	for syndrome := range 256 {
		e[55] = byte(syndrome)
		var wc WC
		new(mlx5QP).complete(e, &wc)
		require.NotEqual(t, WCSuccess, wc.Status, "%#x", syndrome)
	}
}

// TestRoomForUpdates: an update of a memory key is as large as a request of an RC QP with as much inline data as UpdateMkeys says.
func TestRoomForUpdates(t *testing.T) {
	for entries := MkeyGroup; entries <= 52; entries += MkeyGroup {
		require.Equal(t, mlx5.UpdateSegments(entries), mlx5Overhead(RC)+mlx5.InlineSegments(76+16*entries))
	}
}
