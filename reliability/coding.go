// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
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
	coding *coding
	send   *sendTransfer // whose parity it computes, or
	recv   *recvTransfer // what is missing of it
	id     uint32
	code   erasure.Code
	due    units.Instant // in virtual time

	data, parity [][]byte
	rows         []int
	missing      []int
	out          [][]byte      // scratch, never the network's memory
	units        []scheme.Unit // that out is for
	sizeOnly     bool
	err          error
}

// A coding runs the coding jobs of a Conn: on the coders of its Endpoint, or at once where
// time is virtual or the caller runs everything.
type coding struct {
	link    *link
	inline  bool
	coder   erasure.Coder // of the inline form
	coders  *coders       // nil before the first job
	scratch sync.Pool     // []byte of one unit
	// running counts the jobs that coders have.
	running sync.WaitGroup

	mu   sync.Mutex
	done []*codingJob // guarded by mu
}

func (c *coding) init(l *link) {
	c.link = l
	c.inline = l.qp.Endpoint().Manual()
	c.scratch.New = func() any { b := make([]byte, l.unit); return &b }
}

// start runs or queues a job.
func (c *coding) start(j *codingJob) {
	j.coding = c
	if c.inline {
		j.run(&c.coder)
		j.due = c.link.now.Add(c.link.cfg.CodingTime)
		c.done = append(c.done, j)
		c.link.qp.Kick()
		return
	}
	if c.coders == nil {
		c.coders = codersOf(c.link.qp.Endpoint())
	}
	c.running.Add(1)
	if !c.coders.queue(j) {
		j.run(&c.coder)
		c.finish(j)
	}
}

// finish handles a job that a coder has run.
func (c *coding) finish(j *codingJob) {
	c.mu.Lock()
	c.done = append(c.done, j)
	c.mu.Unlock()
	c.link.qp.Kick()
	c.running.Done()
}

// stop waits for the jobs that still run; none is started any more.
func (c *coding) stop() {
	c.running.Wait()
	if c.coders != nil {
		c.coders.release()
		c.coders = nil
	}
}

// collect reports the finished jobs to their cores and returns when the next
// will be.
func (c *coding) collect() (next units.Instant) {
	c.mu.Lock()
	jobs := c.done
	c.done = nil
	c.mu.Unlock()
	next = units.Never
	for _, j := range jobs {
		if j.due > c.link.now {
			c.done = append(c.done, j) // in virtual time, where there is one goroutine
			next = min(next, j.due)
			continue
		}
		if j.send != nil {
			j.send.encoded(j)
		} else {
			j.recv.decoded(j)
		}
		for i := range j.out {
			c.scratch.Put(&j.out[i])
		}
		j.out = nil
	}
	return next
}

// run does the arithmetic.
func (j *codingJob) run(c *erasure.Coder) {
	switch {
	case j.sizeOnly:
	case j.send != nil:
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
	t := j.recv
	for i, u := range j.units {
		copyShared(unitBytes(t.mr.Bytes(), t.off, &t.info, u), j.out[i])
	}
}

// copyShared is a copy that the race detector does not watch; tests with
// canaries do.
//
//go:norace
func copyShared(dst, src []byte) { copy(dst, src) }

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

// parityBytesOf is the memory of a parity unit of n bytes in a slot.
func (l *layout) parityBytesOf(s *paritySlot, u scheme.Unit, n units.Bytes) []byte {
	from := s.off + l.parityOffset(u)
	return s.mr.Bytes()[from : from+n]
}

// checkJob says what a job of a transfer names that there isn't. It would be other memory than the transfer's.
func (l *link) checkJob(job *scheme.Job, t *scheme.Transfer) error {
	for _, u := range job.Data {
		if !u.IsData() || u.Index() >= t.Units {
			return l.broken("asks for a job on data unit %d, and there are %d", u.Index(), t.Units)
		}
	}
	for _, at := range job.Missing {
		if at < 0 || at >= len(job.Data) {
			return l.broken("asks for a job whose unit %d is missing, and it has %d", at, len(job.Data))
		}
	}
	return nil
}

// startJobs starts the jobs that the core asks for.
func (t *sendTransfer) startJobs() error {
	for i := range t.o.out.Jobs {
		j, err := t.encodeJob(&t.o.out.Jobs[i])
		if err != nil {
			return fmt.Errorf("coding job: %w", err)
		}
		t.coding++
		t.o.coding.start(j)
	}
	return nil
}

func (t *sendTransfer) encodeJob(job *scheme.Job) (*codingJob, error) {
	if err := t.o.checkJob(job, &t.info); err != nil {
		return nil, err
	}
	j := &codingJob{send: t, id: job.ID, code: codeOf(job), rows: slices.Clone(job.Rows), sizeOnly: t.mr.Bytes() == nil}
	for _, u := range job.Parity {
		m, _, _ := t.locate(u)
		switch {
		case m == nil:
			return nil, fmt.Errorf("%w: parity unit %d was not granted", sdr.ErrArgument, u.Index())
		case j.sizeOnly:
		case m.mem == nil:
			// The receiver has completed this message already, and its memory serves another.
			j.parity = append(j.parity, make([]byte, parityLen(&t.info)))
		default:
			j.parity = append(j.parity, t.o.parityBytesOf(m.mem, u, parityLen(&t.info)))
		}
	}
	if !j.sizeOnly {
		for _, u := range job.Data {
			j.data = append(j.data, unitBytes(t.mr.Bytes(), t.off, &t.info, u))
		}
	}
	return j, nil
}

// encoded passes on that parity is ready to send.
func (t *sendTransfer) encoded(j *codingJob) {
	t.coding--
	t.touched = true
	switch {
	case t.state != running:
	case j.err != nil:
		t.fail(j.err)
	default:
		t.core.OnJob(t.o.now, j.id)
		t.recount()
	}
}

// startJobs starts the jobs that the core asks for.
func (t *recvTransfer) startJobs() error {
	for i := range t.in.out.Jobs {
		j, err := t.decodeJob(&t.in.out.Jobs[i])
		if err != nil {
			return fmt.Errorf("coding job: %w", err)
		}
		t.coding++
		t.in.coding.start(j)
	}
	return nil
}

func (t *recvTransfer) decodeJob(job *scheme.Job) (*codingJob, error) {
	if err := t.in.checkJob(job, &t.info); err != nil {
		return nil, err
	}
	j := &codingJob{recv: t, id: job.ID, code: codeOf(job), rows: slices.Clone(job.Rows), missing: slices.Clone(job.Missing), sizeOnly: t.mr.Bytes() == nil}
	for _, u := range job.Parity {
		i := u.Index() / t.in.unitsPerParity
		if i >= len(t.parity) || t.parity[i].mem == nil {
			return nil, fmt.Errorf("%w: parity unit %d is not posted", sdr.ErrArgument, u.Index())
		}
		if !j.sizeOnly {
			j.parity = append(j.parity, t.in.parityBytesOf(t.parity[i].mem, u, parityLen(&t.info)))
		}
	}
	for _, at := range job.Missing {
		j.units = append(j.units, job.Data[at])
		if !j.sizeOnly {
			j.out = append(j.out, (*t.in.coding.scratch.Get().(*[]byte))[:parityLen(&t.info)])
		}
	}
	if !j.sizeOnly {
		for _, u := range job.Data {
			j.data = append(j.data, unitBytes(t.mr.Bytes(), t.off, &t.info, u))
		}
	}
	return j, nil
}

// decoded marks units in place that decoding computed.
func (t *recvTransfer) decoded(j *codingJob) {
	t.coding--
	switch {
	case t.state != running:
	case j.err != nil:
		t.fail(j.err)
	default:
		for _, u := range j.units {
			t.place(u)
		}
		t.pollAt = t.in.now
		t.core.OnJob(t.in.now, j.id)
	}
}

// place sets the bits of a unit whose bytes are in place.
func (t *recvTransfer) place(u scheme.Unit) {
	per, packets := t.in.unitsPerMessage, t.in.packetsPerUnit
	m := t.view.message(u.Index() / per)
	if m == nil || m.state != posted {
		return // it has become whole by itself
	}
	first := u.Index() % per * packets
	_ = t.in.port.Place(m.h, first, min(packets, m.positions.Len()-first))
}
