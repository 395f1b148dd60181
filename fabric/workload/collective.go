// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Collective is what a job does with its data.
type Collective uint8

// The collectives. All but the last are an allreduce.
const (
	// Ring: 2(N-1) steps of S/N to the next rank. Each chunk is forwarded when it has been received.
	Ring Collective = iota
	// HalvingDoubling: with the partner whose rank differs in one bit, S/2, S/4, … and back.
	HalvingDoubling
	// DoubleBinaryTree: two trees, in which the inner ranks of one are leaves of the other, reduce and
	// broadcast half of the data each.
	DoubleBinaryTree
	// AllToAllCollective: S/N from each rank to each other, in the order of their distance.
	AllToAllCollective
)

// Jobs says which jobs run, and how.
type Jobs struct {
	Collective Collective
	Jobs       int            // that run at once
	Ranks      int            // N, of each job; 0: all hosts share the jobs
	Size       units.Bytes    // S, of a rank's data
	Chunk      units.Bytes    // of rings and trees; 0: 128 KiB
	Active     int            // chunks under way on an edge of rings and trees, or messages of a rank of an all-to-all each way; 0: 4 and all
	Jitter     units.Duration // of a job's start
	QPs        int            // flows that share each message; 0: 1
	// Kept has as many connections as QPs between two ranks live on over all their messages, with their congestion control and path.
	Kept bool
	// InOrder places ranks on hosts in their order, instead of in one that the seed draws.
	InOrder bool
	// Server is how many hosts in a row, the NICs of one server, have ranks in a row where the seed draws the order; 0: 1. It must divide
	// Ranks and the number of hosts.
	Server int
}

const (
	defaultChunk  = 128 * units.KiB
	defaultActive = 4
	mostQPs       = 64
)

// Flows returns the flows of all jobs; those of job i are of group i.
func (j Jobs) Flows(hosts []int, seed uint64) ([]Flow, error) {
	if j.Jobs < 1 || j.Jobs > len(hosts) || j.Jobs > 1<<16 {
		return nil, operr.New("make", "collectives", "%d jobs on %d hosts: must be at least 1, and no more than hosts", j.Jobs, len(hosts))
	}
	if j.Ranks == 0 {
		j.Ranks = len(hosts) / j.Jobs
	}
	if err := j.check(len(hosts)); err != nil {
		return nil, err
	}
	place := j.places(len(hosts), seed)
	b := &builder{}
	draw := newSource(seed, forJitter, 0)
	for i := range j.Jobs {
		ranks := make([]int, j.Ranks)
		for r := range ranks {
			ranks[r] = hosts[place[i*j.Ranks+r]]
		}
		b.begin(ranks, draw.below(j.Jitter), uint16(i))
		switch j.Collective {
		case Ring:
			b.ring(j.Size, j.Chunk, j.Active)
		case HalvingDoubling:
			b.halvingDoubling(j.Size)
		case DoubleBinaryTree:
			b.doubleBinaryTree(j.Size, j.Chunk, j.Active)
		case AllToAllCollective:
			b.allToAll(j.Size, j.Active)
		}
	}
	return share(b.flows, j.QPs, j.Kept), nil
}

// places are the hosts of all jobs' ranks, one job after the other.
func (j *Jobs) places(hosts int, seed uint64) []int {
	servers := make([]int, hosts/j.Server)
	for i := range servers {
		servers[i] = i
	}
	if !j.InOrder {
		servers = newSource(seed, forPlaces, 0).Perm(len(servers))
	}
	place := make([]int, 0, hosts)
	for _, s := range servers {
		for n := range j.Server {
			place = append(place, s*j.Server+n)
		}
	}
	return place
}

// share splits each flow into n that share its size; who waited for it waits for all of them. If connections are kept
// each of the n has one.
func share(flows []Flow, n int, kept bool) []Flow {
	if n == 1 {
		for i := range flows {
			if kept {
				flows[i].Conn = 1
			}
		}
		return flows
	}
	out := make([]Flow, 0, len(flows)*n)
	for _, f := range flows {
		after := make([]int32, 0, len(f.After)*n)
		for _, a := range f.After {
			for q := range n {
				after = append(after, a*int32(n)+int32(q))
			}
		}
		for q := range n {
			g := f
			g.Size, g.After = part(f.Size, n, q), after
			if kept {
				g.Conn = uint16(q + 1)
			}
			out = append(out, g)
		}
	}
	return out
}

// check fills in defaults and reports what can't be.
func (j *Jobs) check(hosts int) error {
	if j.Chunk == 0 {
		j.Chunk = defaultChunk
	}
	if j.Active == 0 {
		j.Active = defaultActive
		if j.Collective == AllToAllCollective {
			j.Active = j.Ranks
		}
	}
	if j.QPs == 0 {
		j.QPs = 1
	}
	if j.Server == 0 {
		j.Server = 1
	}
	switch {
	case j.Collective > AllToAllCollective:
		return operr.New("make", "collectives", "unknown collective %d", j.Collective)
	case j.Ranks < 2 || j.Ranks > hosts/j.Jobs:
		return operr.New("make", "collectives", "%d jobs of %d ranks: at least 2 ranks, and no more than %d hosts in all", j.Jobs, j.Ranks, hosts)
	case j.Collective == HalvingDoubling && j.Ranks&(j.Ranks-1) != 0:
		return operr.New("make", "collectives", "halving-doubling of %d ranks: must be a power of two, such as %d", j.Ranks, 1<<(bits.Len(uint(j.Ranks))-1))
	case j.Size < units.Bytes(2*j.Ranks) || j.Size > MaxSize:
		return operr.New("make", "collectives", "a collective of %d bytes over %d ranks: must be within %d bytes and %v", j.Size, j.Ranks, 2*j.Ranks, MaxSize)
	case j.Chunk < 64 || j.Active < 1:
		return operr.New("make", "collectives", "chunks of %v, %d active: must be at least 64 bytes, and 1", j.Chunk, j.Active)
	case j.Server < 1 || j.Ranks%j.Server != 0 || hosts%j.Server != 0:
		return operr.New("make", "collectives", "servers of %d hosts: must divide the %d ranks and the %d hosts", j.Server, j.Ranks, hosts)
	case j.QPs < 1 || j.QPs > mostQPs || j.Size < units.Bytes(2*j.Ranks*j.QPs):
		return operr.New("make", "collectives", "messages over %d flows: must be within 1 and %d, and have a byte for each", j.QPs, mostQPs)
	case (j.Collective == Ring || j.Collective == DoubleBinaryTree) && j.Chunk < units.Bytes(2*j.QPs):
		// A message that is a little longer than a chunk has two of half of it.
		return operr.New("make", "collectives", "chunks of %d bytes over %d flows: must be at least %d bytes", j.Chunk, j.QPs, 2*j.QPs)
	}
	n := units.Bytes(j.Ranks)
	flows := n * n
	switch j.Collective {
	case Ring, DoubleBinaryTree:
		flows = 2 * n * (j.Size/j.Chunk + n) // at most
	case HalvingDoubling:
		flows = 2 * n * units.Bytes(bits.Len(uint(n)))
	}
	if flows*units.Bytes(j.Jobs*j.QPs) > MaxFlows {
		return operr.New("make", "collectives", "this makes more than %d flows: choose larger chunks, less data or fewer ranks", MaxFlows)
	}
	return nil
}

// A builder makes the flows of one job after the other.
type builder struct {
	flows []Flow
	hosts []int // of the job's ranks
	start units.Instant
	group uint16
	base  int     // the job's first flow
	after []int32 // memory for lists of dependencies
}

func (b *builder) begin(hosts []int, start units.Instant, group uint16) {
	b.hosts, b.start, b.group, b.base = hosts, start, group, len(b.flows)
}

// add appends a flow from rank to rank after those with these numbers; a negative one is none.
func (b *builder) add(src, dst int, size units.Bytes, after ...int) int {
	from := len(b.after)
	for _, a := range after {
		if a >= 0 {
			b.after = append(b.after, int32(a))
		}
	}
	f := Flow{Src: b.hosts[src], Dst: b.hosts[dst], Size: size, Group: b.group}
	if len(b.after) > from {
		f.After = b.after[from:len(b.after):len(b.after)]
	} else {
		f.Start = b.start
	}
	b.flows = append(b.flows, f)
	return len(b.flows) - 1
}

// chunks is how many chunks a message of size has.
func chunks(size, chunk units.Bytes) int { return int((size + chunk - 1) / chunk) }

// ring: in step s rank r passes part r-s on. The flows of a step are those of all ranks, chunk by chunk
// within a rank.
func (b *builder) ring(size, chunk units.Bytes, active int) {
	n := len(b.hosts)
	count := chunks((size+units.Bytes(n)-1)/units.Bytes(n), chunk)
	at := func(step, rank, c int) int { return b.base + (step*n+rank)*count + c }
	for step := range 2 * (n - 1) {
		for r := range n {
			share := part(size, n, ((r-step)%n+n)%n)
			for c := range count {
				received, earlier := -1, -1
				if step > 0 {
					received = at(step-1, (r+n-1)%n, c)
				}
				// active chunks before this one on the same edge, of this step or of earlier ones.
				if i := step*count + c - active; i >= 0 {
					earlier = at(i/count, r, i%count)
				}
				b.add(r, (r+1)%n, part(share, count, c), received, earlier)
			}
		}
	}
}

// halvingDoubling: step k has one flow of each rank.
func (b *builder) halvingDoubling(size units.Bytes) {
	n := len(b.hosts)
	levels := bits.Len(uint(n)) - 1
	at := func(step, rank int) int { return b.base + step*n + rank }
	for step := range 2 * levels {
		k := step // halving: 1, 2, 4, … ranks away; then back
		if step >= levels {
			k = 2*levels - 1 - step
		}
		for r := range n {
			received, sent := -1, -1
			if step > 0 {
				before := step - 1
				if before >= levels {
					before = 2*levels - 1 - before
				}
				received, sent = at(step-1, r^1<<before), at(step-1, r)
			}
			b.add(r, r^1<<k, part(size, 1<<(k+1), 0), received, sent)
		}
	}
}

// treeParent is the parent of a rank in a binary tree over ranks 0 to n-1 in order, in which every
// other rank is a leaf; -1: it is the root.
func treeParent(rank, n int) int {
	if rank == 0 {
		return -1
	}
	low := rank & -rank
	if up := rank&^low | low<<1; up < n {
		return up
	}
	return rank &^ low
}

// doubleBinaryTree: the second tree is the first one mirrored, or with an odd number of ranks shifted
// by one, so that its inner ranks are leaves of the first.
func (b *builder) doubleBinaryTree(size, chunk units.Bytes, active int) {
	n := len(b.hosts)
	first := make([]int, n)
	for r := range first {
		first[r] = treeParent(r, n)
	}
	second := make([]int, n)
	for r := range second {
		to := func(i int) int { return n - 1 - i }
		from := to
		if n%2 != 0 {
			to, from = func(i int) int { return (i + 1) % n }, func(i int) int { return (i + n - 1) % n }
		}
		if second[r] = -1; first[from(r)] >= 0 {
			second[r] = to(first[from(r)])
		}
	}
	b.tree(first, part(size, 2, 0), chunk, active)
	b.tree(second, part(size, 2, 1), chunk, active)
}

// tree reduces size to the root and broadcasts it from there, chunk by chunk.
func (b *builder) tree(parent []int, size, chunk units.Bytes, active int) {
	children := make([][]int, len(parent))
	root := 0
	for r, p := range parent {
		if p < 0 {
			root = r
		} else {
			children[p] = append(children[p], r)
		}
	}
	order := []int{root} // parents before their children
	for i := 0; i < len(order); i++ {
		order = append(order, children[order[i]]...)
	}
	count := chunks(size, chunk)
	up, down := make([][]int, len(parent)), make([][]int, len(parent)) // flows by rank and chunk
	earlier := func(done []int) int {
		if len(done) < active {
			return -1
		}
		return done[len(done)-active]
	}
	for c := range count {
		gathered := make([][]int, len(parent)) // of a rank: the flows that bring its children's chunk
		for i := len(order) - 1; i > 0; i-- {
			r := order[i]
			f := b.add(r, parent[r], part(size, count, c), append(gathered[r], earlier(up[r]))...)
			up[r] = append(up[r], f)
			gathered[parent[r]] = append(gathered[parent[r]], f)
		}
		for _, r := range order[1:] {
			brings := gathered[root] // the root has the whole chunk when its children brought theirs
			if p := parent[r]; p != root {
				brings = []int{down[p][c]}
			}
			f := b.add(parent[r], r, part(size, count, c), append(brings[:len(brings):len(brings)], earlier(down[r]))...)
			down[r] = append(down[r], f)
		}
	}
}

// allToAll: message d of rank r goes to rank r+d. With P active it waits for that rank's message d-P,
// and for the one d-P that the receiver gets, so that no more than P are under way to or from a rank.
func (b *builder) allToAll(size units.Bytes, active int) {
	n := len(b.hosts)
	at := func(d, rank int) int { return b.base + (d-1)*n + rank }
	for d := 1; d < n; d++ {
		for r := range n {
			sent, received := -1, -1
			if d > active {
				sent, received = at(d-active, r), at(d-active, (r+active)%n)
			}
			b.add(r, (r+d)%n, part(size, n, (r+d)%n), sent, received)
		}
	}
}
