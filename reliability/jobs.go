// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/sdr-rdma/go-sdr/internal/erasure"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A codingJob is a scheme.Job with its memory. It has copies of the job's slices: a
// core may settle a group, and use its memory again, while the job still runs.
type codingJob struct {
	s    *sendTransfer // Encode
	r    *recvTransfer // Decode
	kind scheme.JobKind
	id   uint32
	code erasure.Code
	due  units.Instant // in virtual time

	data, parity [][]byte
	rows         []int
	missing      []int
	out          [][]byte      // scratch, never the network's memory
	units        []scheme.Unit // that out is for
	sizeOnly     bool
	err          error
}

// A jobRunner runs coding jobs: on goroutines of its own, started with the first
// job, or at once where time is virtual or the caller runs everything.
type jobRunner struct {
	c      *Conn
	inline bool
	queue  chan *codingJob
	group  sync.WaitGroup
	coder  erasure.Coder // of the inline form

	mu      sync.Mutex
	done    []*codingJob
	scratch sync.Pool // []byte of one unit
}

// maxQueuedJobs bounds the jobs that wait; beyond, the worker runs them itself.
const maxQueuedJobs = 1024

func (r *jobRunner) init(c *Conn) {
	r.c = c
	r.inline = c.qp.Context().Manual()
	r.scratch.New = func() any { b := make([]byte, c.cfg.Unit); return &b }
}

// start runs or queues a job; the Conn's lock is held.
func (r *jobRunner) start(now units.Instant, j *codingJob) {
	if r.inline {
		j.run(&r.coder)
		j.due = now.Add(r.c.cfg.CodingTime)
		r.done = append(r.done, j)
		r.c.qp.Kick()
		return
	}
	if r.queue == nil {
		r.queue = make(chan *codingJob, maxQueuedJobs)
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			r.group.Add(1)
			go r.work(r.queue)
		}
	}
	select {
	case r.queue <- j:
	default:
		j.run(&r.coder)
		r.finish(j)
	}
}

func (r *jobRunner) work(queue chan *codingJob) {
	defer r.group.Done()
	var coder erasure.Coder
	for j := range queue {
		j.run(&coder)
		r.finish(j)
		r.c.qp.Kick()
	}
}

func (r *jobRunner) finish(j *codingJob) {
	r.mu.Lock()
	r.done = append(r.done, j)
	r.mu.Unlock()
}

// stop ends the goroutines once the queue is empty.
func (r *jobRunner) stop() {
	if r.queue != nil {
		close(r.queue)
		r.group.Wait()
		r.queue = nil
	}
}

// collect reports the finished jobs to their cores and returns when the next
// will be; the Conn's lock is held.
func (r *jobRunner) collect(now units.Instant) (next units.Instant) {
	r.mu.Lock()
	jobs := r.done
	r.done = nil
	r.mu.Unlock()
	next = units.Never
	for _, j := range jobs {
		if j.due > now {
			r.done = append(r.done, j)
			next = min(next, j.due)
			continue
		}
		if j.s != nil {
			r.c.encoded(now, j)
		} else {
			r.c.decoded(now, j)
		}
		r.recycle(j)
	}
	return next
}

func (r *jobRunner) recycle(j *codingJob) {
	for i := range j.out {
		r.scratch.Put(&j.out[i])
	}
	j.out = nil
}

// run does the arithmetic.
func (j *codingJob) run(c *erasure.Coder) {
	switch {
	case j.sizeOnly:
	case j.kind == scheme.Encode:
		j.err = c.Encode(j.code, j.data, j.rows, j.parity)
	default:
		if j.err = c.Decode(j.code, j.data, j.rows, j.parity, j.missing, j.out); j.err == nil {
			j.place()
		}
	}
}

// place copies what was decoded to where it belongs. A late original may be
// written at the same moment: with the same bytes.
func (j *codingJob) place() {
	for i, u := range j.units {
		t := j.r
		off := t.off + units.Bytes(u.Index())*t.info.UnitBytes
		copyShared(t.mr.Bytes()[off:off+t.info.UnitLen(u)], j.out[i])
	}
}

// copyShared is a copy that the race detector does not watch; tests with
// canaries do.
//
//go:norace
func copyShared(dst, src []byte) { copy(dst, src) }

// startJobs gives jobs to the runner: for the sending transfer s or the
// receiving one r.
func (c *Conn) startJobs(s *sendTransfer, r *recvTransfer, jobs []scheme.Job) {
	for i := range jobs {
		var j *codingJob
		var err error
		if s != nil {
			j, err = c.encodeJob(s, &jobs[i])
		} else {
			j, err = c.decodeJob(r, &jobs[i])
		}
		if err != nil {
			err = fmt.Errorf("coding job: %w", err)
			if s != nil {
				c.failSend(s, err)
			} else {
				c.failRecv(r, err)
			}
			return
		}
		c.jobs.start(c.now, j)
	}
}

func codeOf(j *scheme.Job) erasure.Code {
	if j.Code == scheme.XOR {
		return erasure.XOR(j.M)
	}
	return erasure.MDS()
}

// unitBytes is the memory of a data unit.
func unitBytes(mem []byte, off units.Bytes, t *scheme.Transfer, u scheme.Unit) []byte {
	at := off + units.Bytes(u.Index())*t.UnitBytes
	return mem[at : at+t.UnitLen(u)]
}

func (c *Conn) encodeJob(t *sendTransfer, job *scheme.Job) (*codingJob, error) {
	j := &codingJob{s: t, kind: job.Kind, id: job.ID, code: codeOf(job), rows: slices.Clone(job.Rows), sizeOnly: t.mr.Bytes() == nil}
	for _, u := range job.Parity {
		m := t.par[u.Index()/c.parity.unitsPerSlot]
		switch {
		case m == nil:
			return nil, fmt.Errorf("%w: parity unit %d was not granted", sdr.ErrArgument, u.Index())
		case j.sizeOnly:
		case m.slot == nil:
			// The receiver has completed this message already, and its memory serves another.
			j.parity = append(j.parity, make([]byte, c.cfg.Unit))
		default:
			off, n := c.parityRange(m.slot, u)
			j.parity = append(j.parity, m.slot.mr.Bytes()[off:off+n])
		}
	}
	if !j.sizeOnly {
		for _, u := range job.Data {
			j.data = append(j.data, unitBytes(t.mr.Bytes(), t.off, &t.info, u))
		}
	}
	t.coding++
	return j, nil
}

func (c *Conn) decodeJob(t *recvTransfer, job *scheme.Job) (*codingJob, error) {
	j := &codingJob{r: t, kind: job.Kind, id: job.ID, code: codeOf(job), rows: slices.Clone(job.Rows), missing: slices.Clone(job.Missing), sizeOnly: t.mr.Bytes() == nil}
	for _, u := range job.Parity {
		i := u.Index() / c.parity.unitsPerSlot
		if i >= len(t.par) || t.par[i].slot == nil {
			return nil, fmt.Errorf("%w: parity unit %d is not posted", sdr.ErrArgument, u.Index())
		}
		if !j.sizeOnly {
			off, n := c.parityRange(t.par[i].slot, u)
			j.parity = append(j.parity, t.par[i].slot.mr.Bytes()[off:off+n])
		}
	}
	for _, at := range job.Missing {
		j.units = append(j.units, job.Data[at])
		if !j.sizeOnly {
			j.out = append(j.out, *c.jobs.scratch.Get().(*[]byte))
		}
	}
	if !j.sizeOnly {
		for _, u := range job.Data {
			j.data = append(j.data, unitBytes(t.mr.Bytes(), t.off, &t.info, u))
		}
	}
	t.coding++
	return j, nil
}

// encoded reports parity that is ready to send.
func (c *Conn) encoded(now units.Instant, j *codingJob) {
	t := j.s
	t.coding--
	t.touched = true
	switch {
	case t.closing || t.core == nil:
	case j.err != nil:
		c.failSend(t, j.err)
	default:
		t.core.OnJob(now, j.id)
	}
}

// decoded marks units in place that decoding computed.
func (c *Conn) decoded(now units.Instant, j *codingJob) {
	t := j.r
	t.coding--
	switch {
	case t.closing:
	case j.err != nil:
		c.failRecv(t, j.err)
	default:
		for _, u := range j.units {
			c.placeUnit(t, u)
		}
		t.core.OnJob(now, j.id)
	}
}

// placeUnit sets the bits of a unit whose bytes are in place.
func (c *Conn) placeUnit(t *recvTransfer, u scheme.Unit) {
	per, ppu := t.view.perMessage(), t.view.packets()
	p := t.view.message(u.Index() / per)
	if p == nil || p.completed {
		return // it has become whole by itself
	}
	first := u.Index() % per * ppu
	_ = p.packets.Place(first, min(ppu, p.packets.Len()-first))
}
