// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"runtime"
	"sync"

	"github.com/sdr-rdma/go-sdr/internal/erasure"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// Coders are the goroutines that compute parity for all Conns of an Endpoint, half as many
// as there are processors: with some for each Conn, many Conns would fight over the
// processors, and the workers of the Endpoint with them. They run from the first job of a
// Conn until the last Conn that has had one is closed.
type coders struct {
	mu    sync.Mutex
	users int             // guarded by mu
	jobs  chan *codingJob // set while there are users
	group sync.WaitGroup
}

// maxQueuedJobs bounds the jobs that wait; beyond, a worker of the Endpoint runs them
// itself.
const maxQueuedJobs = 1024

type codersKey struct{}

// codersOf returns the coders of an Endpoint; release gives them back.
func codersOf(ep *sdr.Endpoint) *coders {
	k := ep.Value(codersKey{}, func() any { return new(coders) }).(*coders)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users == 0 {
		k.jobs = make(chan *codingJob, maxQueuedJobs)
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			k.group.Go(k.work)
		}
	}
	k.users++
	return k
}

// release stops the goroutines if nobody else uses them. The caller's jobs have all run.
func (k *coders) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users--; k.users == 0 {
		close(k.jobs)
		k.group.Wait()
	}
}

// queue gives a job to a coder; false: too many wait.
func (k *coders) queue(j *codingJob) bool {
	select {
	case k.jobs <- j:
		return true
	default:
		return false
	}
}

func (k *coders) work() {
	var coder erasure.Coder
	for j := range k.jobs {
		j.run(&coder)
		j.coding.finish(j)
	}
}
