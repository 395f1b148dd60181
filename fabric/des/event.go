// SPDX-License-Identifier: Apache-2.0

package des

// An Event is something that happens at T. Key says what and breaks ties, Arg goes with it. 16
// bytes: a cache line holds four.
type Event struct {
	T   Time
	Key uint32
	Arg uint32
}

func (a *Event) before(b *Event) bool { return a.T < b.T || a.T == b.T && a.Key < b.Key }

// sortEvents sorts in place without allocating. The events of a bucket come as they were pushed: each kind
// in its order, and few kinds, so that insertion has little to move; where it moves too much, quicksort
// goes on.
func sortEvents(a []Event) {
	moves := 8 * len(a)
	if insert(a, &moves) {
		return
	}
	for len(a) > 24 {
		mid := partition(a)
		if mid < len(a)-mid {
			sortEvents(a[:mid])
			a = a[mid:]
		} else {
			sortEvents(a[mid:])
			a = a[:mid]
		}
	}
	moves = len(a) * len(a)
	insert(a, &moves)
}

// insert sorts by insertion, or leaves a in some order when it has made so many moves.
func insert(a []Event, moves *int) bool {
	left := *moves
	for i := 1; i < len(a); i++ {
		if !a[i].before(&a[i-1]) {
			continue
		}
		x := a[i]
		j := i
		for j > 0 && x.before(&a[j-1]) {
			a[j] = a[j-1]
			j--
		}
		a[j] = x
		if left -= i - j; left < 0 {
			return false
		}
	}
	return true
}

// partition divides a (Hoare) so that nothing in a[:mid] is after anything in a[mid:], and returns
// mid, which is neither 0 nor len(a).
func partition(a []Event) (mid int) {
	last := len(a) - 1
	m := last / 2
	if a[m].before(&a[0]) {
		a[m], a[0] = a[0], a[m]
	}
	if a[last].before(&a[m]) {
		a[last], a[m] = a[m], a[last]
		if a[m].before(&a[0]) {
			a[m], a[0] = a[0], a[m]
		}
	}
	pivot := a[m]
	i, j := 0, last
	for {
		for a[i].before(&pivot) {
			i++
		}
		for pivot.before(&a[j]) {
			j--
		}
		if i >= j {
			return j + 1
		}
		a[i], a[j] = a[j], a[i]
		i++
		j--
	}
}

// heap is a heap with four children a node: half as deep as a binary one, and the children of a
// node share a cache line.
type heap []Event

func (h *heap) push(x Event) {
	*h = append(*h, x)
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !x.before(&a[up]) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = x
}

func (h *heap) pop() Event {
	a := *h
	first := a[0]
	last := len(a) - 1
	x := a[last]
	a = a[:last]
	*h = a
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= last {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, last); c++ {
			if a[c].before(&a[least]) {
				least = c
			}
		}
		if !a[least].before(&x) {
			break
		}
		a[i] = a[least]
		i = least
	}
	a[i] = x
	return first
}
