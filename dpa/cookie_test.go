// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// lifeSends says what the model has of sends.
type lifeSends uint8

const (
	noSends     lifeSends = iota
	sendsInside           // handled before the worker leaves the batch
	sendsAfter            // handled after it has left, which must not happen
)

// lifeOwners is how many queue pairs have the cookie one after the other.
const lifeOwners = 2

type lifePhase uint8

const (
	fenced lifePhase = iota
	posted
	completed
)

// cookie closes the queue pair that has the cookie, whose reports are in no later poll, or makes the next.
func (w *lifeWorld) cookie() {
	if w.owner >= 0 {
		w.owner, w.workers[0].cqSent = -1, nil
		for i := range w.workers {
			w.closedAt[i] = w.workers[i].Epoch()
		}
		return
	}
	w.owner, w.reported = w.owners, false
	w.owners++
}

// credit handles the reports of a batch.
func (w *lifeWorld) credit(x *lifeWorker) {
	for _, q := range x.batchSent {
		w.miscredited = w.miscredited || w.owner >= 0 && w.owner != q
	}
	x.batchSent = nil
}

// afterPackets is what a worker does when it has handled the packets of a batch.
func (w *lifeWorld) afterPackets(x *lifeWorker) lifeState {
	if w.sends == sendsInside && len(x.batchSent) > 0 {
		return crediting
	}
	return leaving
}

// TestSendHandledTooLate: completions of sends must be handled before the worker leaves the batch, since
// the cookie may be another queue pair's from then on.
func TestSendHandledTooLate(t *testing.T) {
	_, wrong := explore(1, true, sendsAfter)
	require.Contains(t, wrong, "credited to the queue pair that got its cookie next")
}
