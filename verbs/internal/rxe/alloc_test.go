// SPDX-License-Identifier: Apache-2.0

//go:build !race

package rxe

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueuesDoNotAllocate(t *testing.T) {
	fd, mi, kernel := kernelQueue(t, 8, 64)
	q, err := MapSend(fd, mi)
	require.NoError(t, err)
	defer q.Unmap()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for range 8 {
			w, _ := q.NextSend()
			w.SetRDMA(1, 2)
			AddSGE(&w.Dma, 3, 4, 5)
		}
		q.Publish()
		kernel.ConsumerIndex = kernel.ProducerIndex
	}))
}
