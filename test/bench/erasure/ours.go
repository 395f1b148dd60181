// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/erasure"
)

// ours is a work for our coder.
type ours struct {
	w     *work
	coder erasure.Coder
	code  erasure.Code
	// units are, for each group, k data units, m parity units and the results.
	units         [][]byte
	rows, missing []int
}

func newOurs(w *work) (*ours, error) {
	o := &ours{w: w, code: erasure.MDS()}
	if w.op == "xor" {
		o.code = erasure.XOR(w.m)
	}
	each := w.k + w.m + w.lost
	memory := make([]byte, w.groups*each*w.unit)
	for i := range w.groups * each {
		u := memory[i*w.unit : (i+1)*w.unit : (i+1)*w.unit]
		for j := range u {
			u[j] = byte((i*131 + j*7) >> 3)
		}
		o.units = append(o.units, u)
	}
	for i := range w.m {
		o.rows = append(o.rows, i)
	}
	for i := range w.lost {
		o.missing = append(o.missing, i*(w.k/w.lost))
	}
	return o, o.check()
}

func (o *ours) group(g int) (data, parity, out [][]byte) {
	each := o.w.k + o.w.m + o.w.lost
	u := o.units[g*each : (g+1)*each]
	return u[:o.w.k], u[o.w.k : o.w.k+o.w.m], u[o.w.k+o.w.m:]
}

func (o *ours) code1(g int) error {
	data, parity, out := o.group(g)
	if o.w.lost == 0 {
		return o.coder.Encode(o.code, data, o.rows, parity)
	}
	return o.coder.Decode(o.code, data, o.rows[:o.w.lost], parity[:o.w.lost], o.missing, out)
}

// check decodes once and compares.
func (o *ours) check() error {
	data, parity, out := o.group(0)
	if err := o.coder.Encode(o.code, data, o.rows, parity); err != nil {
		return err
	}
	if err := o.code1(0); err != nil {
		return err
	}
	for i, p := range o.missing {
		if !bytes.Equal(out[i], data[p]) {
			return fmt.Errorf("%s: decoded something else", o.w.what)
		}
	}
	return nil
}

const minimum = 20 * time.Millisecond

// cpuTime is how long this thread has run, which what else runs on the core does
// not change.
func cpuTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // Linux has had this clock since 2.6.12
	}
	return time.Duration(t.Nano())
}

// pass times one pass.
func (o *ours) pass() (time.Duration, error) {
	begin, passes := cpuTime(), 0
	for {
		for g := range o.w.groups {
			if err := o.code1(g); err != nil {
				return 0, err
			}
		}
		passes++
		if took := cpuTime() - begin; took >= minimum {
			return took / time.Duration(passes), nil
		}
	}
}
