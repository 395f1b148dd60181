// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "fmt"

// A work is what is measured: one pass over groups of units.
type work struct {
	// op is encode, decode, invert (decode, of which ISA-L computes the
	// coefficients for each group, as ours always do) or xor.
	op           string
	k, m, lost   int
	unit, groups int
	what         string
	// atLeast is the goal: times ISA-L's rate, or GB/s if absolute is set.
	atLeast  float64
	absolute bool
}

func (w *work) request() string {
	return fmt.Sprintf("%s %d %d %d %d %d\n", w.op, w.k, w.m, w.lost, w.unit, w.groups)
}

// bytes is how much data one pass codes: user data, as in all figures.
func (w *work) bytes() int { return w.k * w.unit * w.groups }

const (
	kib = 1 << 10
	mib = 1 << 20
)

// inMemory is how many groups make 128 MiB of data, far more than caches hold.
func inMemory(k, unit int) int { return 128 * mib / (k * unit) }

// works are the cases of docs/results/coding.md. The goals are for 64 KiB units
// in memory.
func works() []work {
	rs := func(op string, lost, unit, groups int, what string, atLeast float64) work {
		return work{op: op, k: 32, m: 8, lost: lost, unit: unit, groups: groups, what: what, atLeast: atLeast}
	}
	many := inMemory(32, 64*kib)
	few := inMemory(32, 4*kib)
	return []work{
		rs("encode", 0, 64*kib, many, "RS(32,8) encode", 2),
		rs("decode", 8, 64*kib, many, "RS(32,8) decode 8 lost", 1),
		rs("xor", 0, 64*kib, many, "XOR(32,8) encode", 0.8),
		rs("encode", 0, 64*kib, 1, "RS(32,8) encode", 0),
		rs("decode", 8, 64*kib, 1, "RS(32,8) decode 8 lost", 0),
		rs("xor", 0, 64*kib, 1, "XOR(32,8) encode", 0),
		rs("encode", 0, 4*kib, few, "RS(32,8) encode", 0),
		rs("invert", 8, 4*kib, few, "RS(32,8) decode 8 lost, each group another way", 0),
		rs("xor", 0, 4*kib, few, "XOR(32,8) encode", 0),
		{op: "invert", k: 128, m: 16, lost: 2, unit: 64 * kib, groups: 16, what: "RS(128,16) decode 2 lost, each group another way"},
		{op: "invert", k: 128, m: 16, lost: 2, unit: 4 * kib, groups: 256, what: "RS(128,16) decode 2 lost, each group another way", atLeast: 8, absolute: true},
	}
}
