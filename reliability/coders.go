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
	endpoint *sdr.Endpoint
	jobs     chan *codingJob
	group    sync.WaitGroup
	users    int // guarded by allCoders.mu
}

// maxQueuedJobs bounds the jobs that wait; beyond, a worker of the Endpoint runs them
// itself.
const maxQueuedJobs = 1024

var allCoders struct {
	mu         sync.Mutex
	byEndpoint map[*sdr.Endpoint]*coders
}

// codersOf returns the coders of an Endpoint; release gives them back.
func codersOf(ep *sdr.Endpoint) *coders {
	all := &allCoders
	all.mu.Lock()
	defer all.mu.Unlock()
	k := all.byEndpoint[ep]
	if k == nil {
		k = &coders{endpoint: ep, jobs: make(chan *codingJob, maxQueuedJobs)}
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			k.group.Add(1)
			go k.work()
		}
		if all.byEndpoint == nil {
			all.byEndpoint = map[*sdr.Endpoint]*coders{}
		}
		all.byEndpoint[ep] = k
	}
	k.users++
	return k
}

// release stops the goroutines if nobody else uses them. The caller's jobs have all run.
func (k *coders) release() {
	all := &allCoders
	all.mu.Lock()
	k.users--
	last := k.users == 0
	if last {
		delete(all.byEndpoint, k.endpoint)
	}
	all.mu.Unlock()
	if last {
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
	defer k.group.Done()
	var coder erasure.Coder
	for j := range k.jobs {
		j.run(&coder)
		j.coding.finish(j)
	}
}
