// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

func (p *plan) print(w io.Writer, all []sized) {
	usage.Fillf(w, "%v, RTT %v%s, chunk %v = %s of %v, %sseed %d",
		p.rate, units.FormatDuration(p.rtt), p.distanceNote(), p.chunk, plural(int64(p.chunk/p.mtu), "packet"), p.mtu, p.burstNote(), p.seed)
	for _, s := range all {
		for _, b := range s.blocks {
			p.printBlock(w, b, s.name)
		}
		t := s.blocks[0].transfer
		fmt.Fprintf(w, "\n%s\n", usage.Fill(fmt.Sprintf("Recommended for %v: %s", t.Size, s.why)))
		last := s.blocks[len(s.blocks)-1]
		if s.name == "adaptive" {
			printChoice(w, last.transfer)
		}
		if last.splitMean == 0 {
			continue
		}
		usage.Fillf(w, "Best fixed split for ec-mds at the highest drop probability: k=%d m=%d, average %.3fx of ideal.",
			last.split.K, last.split.M, float64(last.splitMean)/float64(last.transfer.Ideal()))
	}
}

func (p *plan) distanceNote() string {
	if p.distance == 0 {
		return ""
	}
	return fmt.Sprintf(" (%g km at %.3g µs/km)", float64(p.distance), p.usPerKm)
}

func (p *plan) burstNote() string {
	if p.burst <= 1 {
		return ""
	}
	return fmt.Sprintf("bursts of %g packets, ", p.burst)
}

func (p *plan) printBlock(w io.Writer, b block, recommended string) {
	t := b.transfer
	fmt.Fprintf(w, "\n%s\n", usage.Fill(fmt.Sprintf("%v, drop %s per packet = %s per chunk, ideal %v, %s",
		t.Size, short(float64(t.Control)), short(float64(t.Drop)), units.FormatDuration(t.Ideal()), samplesNote(b.predictions[0].Result.Samples()))))
	fmt.Fprintln(w, planTable.Head(p.wide))
	for _, pr := range b.predictions {
		mark := ""
		if pr.Scheme.Name() == recommended {
			mark = ">"
		}
		mean := pr.Result.Mean()
		avg, p999 := pr.Slowdown()
		quantile := func(q float64) string { return units.FormatDuration(pr.Result.Quantile(q).Value) }
		ratio := func(v float64) string { return fmt.Sprintf("%.3f", v) }
		fmt.Fprintln(w, planTable.Row(p.wide, mark, pr.Scheme.Name(), parameters(pr.Scheme, t), units.FormatDuration(mean.Value), quantile(0.5), quantile(0.99), quantile(0.999),
			ratio(avg), ratio(float64(mean.High-mean.Value)/float64(t.Ideal())), ratio(p999), parityOf(pr), parityMemory(parityOf(pr))))
	}
}

// samplesNote says how many samples there are, and which percentiles are no more than the longest of them.
func samplesNote(n int) string {
	note := plural(int64(n), "sample")
	switch {
	case n < 100:
		return note + ": p99 and p99.9 are the longest"
	case n < 1000:
		return note + ": p99.9 is the longest"
	}
	return note
}

var planTable = usage.Table{
	{Width: -1}, {Name: "scheme", Width: -8}, {Name: "parameters", Width: -18}, {Name: "average", Width: 8},
	{Name: "p50", Width: 8, Wide: true}, {Name: "p99", Width: 8}, {Name: "p99.9", Width: 8}, {Name: "T/ideal", Width: 7},
	{Name: "±", Width: 5, Wide: true}, {Name: "p99.9/ideal", Width: 11, Wide: true}, {Name: "parity", Width: 9},
	{Name: "memory", Width: 9, Wide: true},
}

// parityOf is what a prediction's scheme sends beyond the data if nothing needs repair.
func parityOf(pr model.Prediction) units.Bytes {
	n, _ := model.ParityUnits(pr.Scheme, pr.Transfer) // simulated before: it is valid
	return units.Bytes(n) * min(pr.Transfer.Unit, pr.Transfer.Size)
}

// How reliability.Config.ParityPool grows, and where it ends unless configured.
const parityPiece, parityPool = 64 * units.MiB, 512 * units.MiB

// parityMemory is what each end takes to hold so much parity.
func parityMemory(parity units.Bytes) units.Bytes {
	return min((parity+parityPiece-1)/parityPiece*parityPiece, parityPool)
}

func printChoice(w io.Writer, t model.Transfer) {
	c, _ := model.Adaptive{}.Choose(t) // simulated before: it is valid
	fmt.Fprintln(w, usage.Fill(sentence(c)))
}

// sentence says what the adaptive scheme does with a transfer.
func sentence(c model.Choice) string {
	groups := fmt.Sprintf("%d interleaved groups of up to %s with %s each", c.Groups, plural(c.K, "chunk"), plural(c.M, "parity chunk"))
	if c.Groups == 1 {
		groups = fmt.Sprintf("one group of %s with %s", plural(c.K, "chunk"), plural(c.M, "parity chunk"))
	}
	switch {
	case c.M == 0:
		return "It sends no parity: a lost chunk is rare enough to be repaired when it is missed."
	case c.Body == 0 && c.Tail == 1:
		return fmt.Sprintf("It codes its only chunk, with %s.", plural(c.M, "parity chunk"))
	case c.Body == 0:
		return fmt.Sprintf("It codes all %d chunks, in %s.", c.Tail, groups)
	}
	first := fmt.Sprintf("the first %d chunks when they are lost", c.Body)
	if c.Body == 1 {
		first = "the first chunk when it is lost"
	}
	last := fmt.Sprintf("the last %d in %s", c.Tail, groups)
	if c.Tail == 1 {
		last = "the last in " + groups
	}
	return fmt.Sprintf("It repeats %s and codes %s.", first, last)
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A planObject is an element of the array that plan --json writes. Its fields are a contract.
type planObject struct {
	Version     int            `json:"version"`
	Scheme      string         `json:"scheme"`
	Params      planParams     `json:"params"`
	SizeBytes   units.Bytes    `json:"size_bytes"`
	ChunkBytes  units.Bytes    `json:"chunk_bytes"`
	RateBps     units.Rate     `json:"rate_bps"`
	RTTNs       units.Duration `json:"rtt_ns"`
	PacketDrop  float64        `json:"packet_drop"`
	ChunkDrop   float64        `json:"chunk_drop"`
	Burst       float64        `json:"burst"` // mean, in packets; 1: independent losses
	IdealNs     units.Duration `json:"ideal_ns"`
	AvgNs       units.Duration `json:"avg_ns"`
	P50Ns       units.Duration `json:"p50_ns"`
	P99Ns       units.Duration `json:"p99_ns"`
	P999Ns      units.Duration `json:"p999_ns"`
	ParityBytes units.Bytes    `json:"parity_bytes"`        // without repairs
	MemoryBytes units.Bytes    `json:"parity_memory_bytes"` // at each end
	Samples     int            `json:"samples"`
	Recommended bool           `json:"recommended"`
}

// planParams holds what applies to the scheme; for adaptive what it chose.
type planParams struct {
	Alpha    *float64 `json:"alpha,omitempty"`
	Beta     *float64 `json:"beta,omitempty"`
	K        *int64   `json:"k,omitempty"`
	M        *int64   `json:"m,omitempty"`
	Groups   *int64   `json:"groups,omitempty"`
	Tail     *int64   `json:"tail_chunks,omitempty"`
	Fallback string   `json:"fallback,omitempty"`
}

func (p *plan) params(s model.Scheme, t model.Transfer) planParams {
	switch s := s.(type) {
	case model.SR:
		return planParams{Alpha: &s.Alpha}
	case model.EC:
		params := planParams{Beta: &s.Beta, K: &s.K, M: &s.M, Fallback: p.fallback}
		if s.Fallback == model.Whole {
			params.Alpha = &s.Alpha
		}
		return params
	case model.Adaptive:
		c, _ := s.Choose(t) // simulated before: it is valid
		return planParams{K: &c.K, M: &c.M, Groups: &c.Groups, Tail: &c.Tail}
	}
	return planParams{}
}

func (p *plan) objects(all []sized) []planObject {
	var out []planObject
	for _, s := range all {
		for _, b := range s.blocks {
			for _, pr := range b.predictions {
				t, r := b.transfer, pr.Result
				out = append(out, planObject{
					Version: 1, Scheme: pr.Scheme.Name(), Params: p.params(pr.Scheme, t),
					SizeBytes: t.Size, ChunkBytes: t.Unit, RateBps: t.Rate, RTTNs: t.RTT,
					PacketDrop: float64(t.Control), ChunkDrop: float64(t.Drop), Burst: max(1, p.burst), IdealNs: t.Ideal(),
					AvgNs: r.Mean().Value, P50Ns: r.Quantile(0.5).Value, P99Ns: r.Quantile(0.99).Value, P999Ns: r.Quantile(0.999).Value,
					ParityBytes: parityOf(pr), MemoryBytes: parityMemory(parityOf(pr)),
					Samples: r.Samples(), Recommended: pr.Scheme.Name() == s.name,
				})
			}
		}
	}
	return out
}
