// SPDX-License-Identifier: Apache-2.0

//go:build rxe && !race

package verbs_test

import "testing"

func TestPostAndPollDoNotAllocate(t *testing.T) { rxe.NoAllocation(t) }
