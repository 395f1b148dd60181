// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// A row is what a parity unit holds, in the place of its content.
type row struct {
	code scheme.CodeKind
	m    int
	data []scheme.Unit
	row  int
}

func (r *row) equal(o *row) bool {
	return r.code == o.code && r.m == o.m && r.row == o.row && slices.Equal(r.data, o.data)
}

// A coder knows what was encoded, and which jobs are running.
type coder struct {
	rows    map[scheme.Unit]row
	encodes map[uint32]scheme.Job
	decodes map[uint32]scheme.Job
}

func (c *coder) isEncoded(u scheme.Unit) bool { _, ok := c.rows[u]; return ok }

// startJobs checks the jobs that a half wants done, and starts them.
func (t *transfer) startJobs(w *world, sender bool) {
	c := &t.codes
	if c.rows == nil {
		c.rows, c.encodes, c.decodes = map[scheme.Unit]row{}, map[uint32]scheme.Job{}, map[uint32]scheme.Job{}
	}
	for _, j := range t.out.Jobs {
		running, kind := c.decodes, scheme.Decode
		if sender {
			running, kind = c.encodes, scheme.Encode
		}
		if _, busy := running[j.ID]; busy || j.Kind != kind {
			w.fail("job %d of kind %d: its number is in use or its kind is not for this half", j.ID, j.Kind)
			return
		}
		if t.checkJob(w, &j); w.err != nil {
			return
		}
		running[j.ID] = j
		w.events.push(w.now.Add(w.c.Coding), event{kind: jobDone, transfer: int(t.info.ID), sender: sender, job: j.ID})
	}
}

func (t *transfer) checkJob(w *world, j *scheme.Job) {
	if len(j.Rows) != len(j.Parity) || len(j.Rows) == 0 || len(j.Data) == 0 {
		w.fail("job %d names %d rows, %d parity units, %d data units", j.ID, len(j.Rows), len(j.Parity), len(j.Data))
		return
	}
	for _, u := range j.Data {
		if !u.IsData() || u.Index() >= t.info.Units {
			w.fail("job %d: %d is no data unit", j.ID, u)
			return
		}
	}
	for i, r := range j.Rows {
		limit := j.M
		if j.Code == scheme.MDS {
			limit = 256 - len(j.Data)
		}
		if r < 0 || r >= limit || !j.Parity[i].IsParity() {
			w.fail("job %d: row %d of %d in unit %d", j.ID, r, limit, j.Parity[i])
		}
		if j.Kind == scheme.Decode {
			t.checkRow(w, j, i)
		}
	}
	if j.Kind == scheme.Decode {
		t.checkDecode(w, j)
	}
}

// checkRow checks that row i of a decoding job is in place and is what the
// sender encoded.
func (t *transfer) checkRow(w *world, j *scheme.Job, i int) {
	has := t.codes.rows[j.Parity[i]]
	if want := (row{j.Code, j.M, j.Data, j.Rows[i]}); !has.equal(&want) {
		w.fail("job %d decodes with row %d in parity unit %d, which holds row %d of other units", j.ID, j.Rows[i], j.Parity[i].Index(), has.row)
	}
	if !t.Has(j.Parity[i]) {
		w.fail("job %d decodes with parity unit %d, which is not in place", j.ID, j.Parity[i].Index())
	}
}

// checkDecode checks that the code can recover what is missing.
func (t *transfer) checkDecode(w *world, j *scheme.Job) {
	for i, u := range j.Data {
		if !slices.Contains(j.Missing, i) && !t.Has(u) {
			w.fail("job %d decodes with data unit %d, which is not in place", j.ID, u)
		}
	}
	rows := slices.Clone(j.Rows)
	slices.Sort(rows)
	if len(slices.Compact(slices.Clone(rows))) != len(rows) {
		w.fail("job %d uses a row twice", j.ID)
	}
	if j.Code == scheme.MDS && len(j.Missing) > len(j.Rows) {
		w.fail("job %d recovers %d units from %d rows", j.ID, len(j.Missing), len(j.Rows))
	}
	if j.Code != scheme.XOR {
		return
	}
	used := map[int]bool{}
	for _, i := range j.Missing {
		if r := i % j.M; used[r] || !slices.Contains(j.Rows, r) {
			w.fail("job %d: no row of its own recovers position %d", j.ID, i)
		} else {
			used[r] = true
		}
	}
}

// checkFreed checks that no decoding job reads a parity unit that was given back: others' parity comes into its buffer.
func (t *transfer) checkFreed(w *world) {
	for _, j := range t.codes.decodes {
		for _, u := range j.Parity {
			if u.Index() < t.parityFreed {
				w.fail("job %d reads parity unit %d, which was given back", j.ID, u.Index())
			}
		}
	}
}

// jobDone is the end of a job.
func (t *transfer) jobDone(w *world, e *event) {
	defer t.release()
	if e.sender {
		j := t.codes.encodes[e.job]
		delete(t.codes.encodes, e.job)
		for i, u := range j.Parity {
			r := row{j.Code, j.M, slices.Clone(j.Data), j.Rows[i]}
			if old, ok := t.codes.rows[u]; ok && !old.equal(&r) {
				w.fail("parity unit %d is written twice", u.Index())
			}
			t.codes.rows[u] = r
		}
		if !t.done {
			t.touched = true
			t.sender.OnJob(w.clock(), e.job)
		}
		return
	}
	j := t.codes.decodes[e.job]
	delete(t.codes.decodes, e.job)
	if t.received || t.done {
		return
	}
	for _, i := range j.Missing {
		t.present.set(j.Data[i].Index())
	}
	t.receiverTouched = true
	t.receiver.OnJob(w.clock(), e.job)
}
