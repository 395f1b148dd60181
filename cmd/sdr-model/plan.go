// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// simplest lists the schemes from the one that needs least to the one that needs most.
var simplest = []string{"sr", "sr-nack", "ec-xor", "ec-mds", "adaptive"}

// plan holds the flags of sdr-model plan.
type plan struct {
	simulation
	thin            bool // fewer samples where each holds many drops
	rate            units.Rate
	rtt             units.Duration
	distance        kilometers
	usPerKm         float64
	sizes           usage.Sizes
	drop, chunkDrop probabilities
	chunk, mtu      units.Bytes
	burst           float64 // packets
	k, m            int64
	alpha, beta     float64
	fallback        string
	json, plot      string
	wide            bool
	from            string
}

func defaultPlan() *plan {
	return &plan{
		rate: 400 * units.Gbit, rtt: 25 * units.Millisecond, sizes: usage.Sizes{128 * units.MiB}, drop: probabilities{1e-5}, burst: 1,
		chunk: 64 * units.KiB, mtu: 4 * units.KiB,
	}
}

func newPlan() *cobra.Command {
	p := defaultPlan()
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Compare the schemes on a link and recommend one",
		Long: `plan predicts average and tail of the completion time of a write of each size
with each scheme of go-sdr, and recommends the simplest scheme that is within 2
% of the best on average and at the 99.9th percentile, over the whole range of
drop probabilities if one is given.

Completion time runs from the post to the final acknowledgement; the ideal is
size/rate + RTT, and T/ideal the average over it. Drops are independent, or with
--burst those of a Gilbert-Elliott chain in time, as sdr-perf emulates it.
--chunk is what the schemes repeat and code: 64 KiB as in the paper, but sdrnet,
reliability and sdr-perf take one packet unless told otherwise, which is --chunk
4KiB. Without bursts a chunk of N packets is lost with 1-(1-p)^N; a message that
is shorter than a chunk has fewer. Parity is what a transfer without repairs
sends beyond its data, memory (--wide) what each end takes to hold it: 64 MiB at
a time, up to the 512 MiB that reliability.Config.ParityPool allows by default.

--plot draws completion time over the ideal against drop probability, at the
first size, and against size, at the middle of the drop probabilities.

--from plans for the link of results of sdr-perf: the emulated one without the
headers that its rate counts for each packet, or a real one by the share of
packets that it lost; --rate and --rtt are needed then, nothing else knows them.`,
		Example: `  sdr-model plan --distance 3750km --size 128MiB,8GiB --drop 1e-6..1e-3
  sdr-model plan --rtt 25ms --rate 100gbit --chunk 4KiB --drop 1e-3 --json -
  sdr-model plan --rtt 80ms --rate 10gbit --chunk 4KiB --drop 1e-6..1e-2 \
    --plot link.svg
  sdr-perf --loopback --rtt 20ms --rate 1gbit --drop 1e-3 --size 4MiB --json - |
    sdr-model plan --from -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("%q: plan takes no argument; the results of sdr-perf in a file are read by sdr-model plan --from FILE", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	f := cmd.Flags()
	p.registerLink(f)
	f.StringVar(&p.json, "json", "", "write the predictions to this file as JSON, - for standard output instead of the table")
	f.BoolVar(&p.wide, "wide", false, "show all columns, more than 80 characters: p50, half of the 95 % interval of T/ideal, p99.9 over the ideal, memory")
	f.StringVar(&p.plot, "plot", "", "draw the link into this file: .svg, .png or .csv, the points")
	p.register(cmd, model.DefaultSamples)
	cmd.Flags().Lookup("samples").Usage += "; fewer by default where each has thousands of drops"
	usage.Offer(cmd, "fallback", fallbacks, 0)
	return cmd
}

// fallbacks are the values of --fallback.
func fallbacks() []string { return []string{"missing", "whole"} }

// registerLink registers the flags that describe a link, what it carries and the schemes.
func (p *plan) registerLink(f *pflag.FlagSet) {
	f.StringVar(&p.from, "from", "", "take what isn't given of rate, RTT, sizes, drops, bursts, MTU and chunk from this `file` that sdr-perf --json wrote, - for standard input")
	f.Var(&p.rate, "rate", "rate of user data")
	f.Var((*units.DurationValue)(&p.rtt), "rtt", "round-trip time")
	f.Var(&p.distance, "distance", "length of the cable, instead of --rtt")
	f.Float64Var(&p.usPerKm, "us-per-km", float64(model.Fibre), "one-way µs per km with --distance: 5 in fibre; the paper has 3.33")
	f.Var(sizeList{&p.sizes}, "size", "message sizes")
	f.Var(&p.drop, "drop", "drop probability of a packet, or a range such as 1e-6..1e-3")
	f.Var(&p.chunkDrop, "chunk-drop", "drop probability of a chunk, instead of --drop")
	f.Float64Var(&p.burst, "burst", p.burst, "mean length in packets of bursts of losses, 1 for independent ones")
	f.Var(&p.chunk, "chunk", "what is repeated or coded, a multiple of the MTU")
	f.Var(&p.mtu, "mtu", "payload of a packet")
	f.Int64Var(&p.k, "k", 32, "data chunks of a submessage of ec")
	f.Int64Var(&p.m, "m", 8, "parity chunks of a submessage of ec")
	f.Float64Var(&p.alpha, "alpha", 2, "sr: RTO = (1+alpha) RTT")
	f.Float64Var(&p.beta, "beta", 0.5, "ec: fallback timeout = beta RTT")
	f.StringVar(&p.fallback, "fallback", "missing", "ec: repeat what decoding lacks (missing) or the submessage by sr as in the paper (whole)")
}

func (p *plan) run(cmd *cobra.Command) error {
	if err := p.validate(cmd); err != nil {
		return err
	}
	if err := result.CheckWritable(p.json, p.plot); err != nil {
		return usage.Wrap(err)
	}
	blocks, err := p.predict(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if p.json != "-" {
		p.print(cmd.OutOrStdout(), blocks)
	}
	if p.json != "" {
		if err := result.Write(cmd.OutOrStdout(), p.json, p.objects(blocks)); err != nil {
			return err
		}
	}
	if p.plot == "" {
		return nil
	}
	f, err := p.figure(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return f.WriteFile(p.plot)
}

// validate checks what the library can't, and sets the RTT of a distance.
func (p *plan) validate(cmd *cobra.Command) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.from != "" {
		if err := p.readLink(cmd, cmd.InOrStdin()); err != nil {
			return err
		}
	}
	given := cmd.Flags().Changed
	p.thin = !given("samples")
	switch {
	case given("rtt") && given("distance"):
		return usage.Errorf("--rtt and --distance exclude each other")
	case given("drop") && given("chunk-drop"):
		return usage.Errorf("--drop and --chunk-drop exclude each other")
	case !(p.burst >= 1 && p.burst <= model.MaxBurst):
		return usage.Errorf("--burst %g: allowed 1 to %g packets", p.burst, model.MaxBurst)
	case p.burst > 1 && given("chunk-drop"):
		return usage.Errorf("--burst needs --drop: bursts are of packets")
	case given("us-per-km") && !given("distance"):
		return usage.Errorf("--us-per-km needs --distance")
	case p.mtu < 1:
		return usage.Errorf("--mtu %d: allowed are 1 byte and more", int64(p.mtu))
	case p.chunk < p.mtu || p.chunk%p.mtu != 0:
		return usage.Errorf("--chunk of %d bytes: allowed are multiples of --mtu, %d bytes", int64(p.chunk), int64(p.mtu))
	case !slices.Contains(fallbacks(), p.fallback):
		return usage.Errorf("--fallback %q: allowed are missing and whole", p.fallback)
	case p.plot != "" && !slices.Contains(figures.Endings, filepath.Ext(p.plot)):
		return usage.Errorf("--plot %s: the ending says the format: %s", p.plot, strings.Join(figures.Endings, ", "))
	}
	if given("distance") {
		rtt, err := model.Kilometers(p.distance).RTT(model.MicrosPerKm(p.usPerKm))
		if err != nil {
			return err
		}
		p.rtt = rtt
	}
	if packets, drop := int64(p.chunk/p.mtu), slices.Max(p.packetDrops()); packets > 1 && drop <= model.MaxDrop {
		if q := model.PacketDrop(drop).UnitInBursts(packets, p.burst); q > model.MaxDrop {
			return usage.Errorf("--drop %g loses a chunk of %d packets with probability %.3g: allowed is up to %g; give a smaller --drop, or --chunk %s, a packet",
				drop, packets, float64(q), model.MaxDrop, strings.ReplaceAll(p.mtu.String(), " ", ""))
		}
	}
	return nil
}

// A block holds the predictions for one size at one drop probability.
type block struct {
	transfer    model.Transfer
	predictions []model.Prediction
	split       model.EC // the best for ec-mds
	splitMean   units.Duration
}

// A recommendation is for one size.
type recommendation struct{ name, why string }

// sized are the blocks of one size, in the order of drop probabilities.
type sized struct {
	recommendation
	blocks []block
}

func (p *plan) schemes() []model.Scheme {
	return []model.Scheme{model.SR{Alpha: p.alpha}, model.NACK(), p.ec(model.XOR), p.ec(model.MDS), model.Adaptive{}}
}

func (p *plan) ec(code model.Code) model.EC {
	ec := model.EC{Code: code, K: p.k, M: p.m, Alpha: p.alpha, Beta: p.beta}
	if p.fallback == "whole" {
		ec.Fallback = model.Whole
	}
	return ec
}

// predict says on log what it is at, once that takes long.
func (p *plan) predict(log io.Writer) ([]sized, error) {
	var all []sized
	var what atomic.Pointer[string]
	defer usage.Saying(log, func() string { return *what.Load() })()
	begin := func(t model.Transfer, format string, args ...any) {
		text := fmt.Sprintf("sdr-model: plan: %v, drop %s: ", t.Size, short(float64(t.Control))) + fmt.Sprintf(format, args...)
		what.Store(&text)
	}
	for _, size := range p.sizes {
		var s sized
		var predictions []model.Prediction
		for _, t := range p.transfers(size) {
			b := block{transfer: t}
			for i, scheme := range p.schemes() {
				begin(t, "%s, scheme %d of %d", scheme.Name(), i+1, len(p.schemes()))
				r, err := model.Simulate(scheme, t, p.optionsFor(t))
				if err != nil {
					return nil, err
				}
				b.predictions = append(b.predictions, model.Prediction{Scheme: scheme, Transfer: t, Result: r})
			}
			if p.burst <= 1 { // the best split needs the closed form
				begin(t, "the best split for ec-mds")
				var err error
				if b.split, b.splitMean, err = p.ec(model.MDS).BestSplit(t); err != nil {
					return nil, err
				}
			}
			predictions, s.blocks = append(predictions, b.predictions...), append(s.blocks, b)
		}
		s.name, s.why = model.Recommend(predictions, simplest)
		all = append(all, s)
	}
	return all, nil
}

// enoughDrops is how many drops to draw for a scheme and a transfer unless --samples says otherwise. Many
// drops average out within a transfer, so that fewer transfers do.
const enoughDrops, fewestSamples = 2e7, 300

// Where a transfer alone has more than a third of a million drops, no more than mostDrops are drawn: so many average out so well that
// leastSamples transfers do, and more would take minutes.
const mostDrops, leastSamples = 1e8, 30

func (p *plan) optionsFor(t model.Transfer) model.Options {
	o := p.options()
	if drops := float64(t.Units()) * float64(t.Drop); p.thin && drops > 0 {
		o.Samples = int(min(float64(o.Samples), max(leastSamples, min(fewestSamples, mostDrops/drops), enoughDrops/drops)))
	}
	return o
}

// transfers returns the transfers of one size, by drop probability.
func (p *plan) transfers(size units.Bytes) (all []model.Transfer) {
	for _, q := range p.packetDrops() {
		all = append(all, p.transfer(size, q))
	}
	return all
}

// transfer returns one transfer; drop is per packet.
func (p *plan) transfer(size units.Bytes, drop float64) model.Transfer {
	t := model.Transfer{Rate: p.rate, RTT: p.rtt, Size: size, Unit: p.chunk}
	return lossy(t, p.mtu, drop, p.burst)
}

// lossy is a transfer in packets of an MTU, control frames included, of which so many are lost. A message that is shorter than a
// unit has only the packets that it takes.
func lossy(t model.Transfer, mtu units.Bytes, drop, burst float64) model.Transfer {
	t.Packets = int64((min(t.Unit, t.Size) + mtu - 1) / mtu)
	t.Drop, t.Control, t.Burst = model.PacketDrop(drop).UnitInBursts(t.Packets, burst), model.PacketDrop(drop), burst
	return t
}

// packetDrops returns the drop probabilities of packets, whichever flag gave them.
func (p *plan) packetDrops() []float64 {
	if len(p.chunkDrop) == 0 {
		return p.drop
	}
	var all []float64
	for _, q := range p.chunkDrop {
		all = append(all, float64(model.UnitDrop(q).Packet(int64(p.chunk/p.mtu))))
	}
	return all
}

// parameters says what a scheme does with a transfer.
func parameters(s model.Scheme, t model.Transfer) string {
	switch s := s.(type) {
	case model.SR:
		if s.Nack {
			return "repeat after 1 RTT"
		}
		return fmt.Sprintf("RTO %.3g RTT", 1+s.Alpha)
	case model.EC:
		return fmt.Sprintf("k=%d m=%d", s.K, s.M)
	case model.Adaptive:
		c, _ := s.Choose(t) // simulated before: it is valid
		return fmt.Sprintf("k=%d m=%d x%d", c.K, c.M, c.Groups)
	}
	return ""
}
