// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// ipv4Headers are IP 20, UDP 8, BTH 12, RETH 16, immediate 4 and ICRC 4: what is taken off where a file doesn't say, as those of sdr-perf 0.1.0.
const ipv4Headers = 64 * units.Byte

type compare struct {
	simulation
	tolerance float64     // percent
	headers   units.Bytes // if given
	given     bool
	wide      bool
}

func newCompare() *cobra.Command {
	c := &compare{}
	cmd := &cobra.Command{
		Use:   "compare FILE.json",
		Short: "Put results of sdr-perf beside the prediction",
		Long: `compare reads the results that sdr-perf --json wrote ("-" for standard input),
predicts each point that ran over an emulated link, and says where they part: by
more than the tolerance and by more than the sampling error of that many
iterations. Exit status 3 where one does. The model is of one transfer at a
time, one way: of sdr-perf's -t, -q and --latency it says nothing.

The emulated rate counts headers, the model's doesn't: what the file says of
them is taken off the rate, 64 bytes a packet for IPv4 or 84 for IPv6, or 64
where it says nothing, or what --headers says.`,
		Args: usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			c.given = cmd.Flags().Changed("headers")
			if !(c.tolerance >= 0 && c.tolerance <= 100) {
				return usage.Errorf("--tolerance %g: allowed 0 to 100", c.tolerance)
			}
			points, err := readPoints(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			if len(points) == 0 {
				return usage.Errorf("%s: no results", args[0])
			}
			return c.run(cmd.OutOrStdout(), points)
		},
	}
	cmd.Flags().Float64Var(&c.tolerance, "tolerance", 5, "difference in per cent that counts as agreement")
	cmd.Flags().Var(&c.headers, "headers", "header bytes that the link's rate counts for each packet (default: those of the file)")
	cmd.Flags().BoolVar(&c.wide, "wide", false, "show all columns, more than 80 characters: device, measured over predicted percentiles, by how much they part")
	c.register(cmd, model.DefaultSamples)
	return cmd
}

func readPoints(stdin io.Reader, path string) ([]result.Result, error) {
	data, name, err := usage.Input(stdin, path)
	if err != nil {
		return nil, err
	}
	return parsePoints(name, data)
}

// parsePoints tells sdr-perf's JSON from that of the other programs, whose versions are counted alike.
func parsePoints(path string, data []byte) ([]result.Result, error) {
	foreign := func(why string) error { return usage.Errorf("%s is not sdr-perf's JSON (%s)", path, why) }
	var points []result.Result
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &points); {
	case errors.As(err, &wrong) && wrong.Field == "":
		return nil, foreign("wanted is an array of results, " + usage.JSON(err))
	case err != nil:
		return nil, foreign(usage.JSON(err))
	}
	for i, p := range points {
		switch {
		case p.Reliability == "" && isPlan(data):
			return nil, foreign("it has predictions of sdr-model plan")
		case p.Reliability == "" && p.Version < 2:
			return nil, foreign(fmt.Sprintf("result %d has no reliability", i+1))
		case p.Version != result.Version:
			return nil, usage.Errorf("%s: result %d has version %d, this program reads version %d", path, i+1, p.Version, result.Version)
		}
	}
	return points, nil
}

// isPlan reports whether data is the JSON of sdr-model plan, whose objects name a scheme.
func isPlan(data []byte) bool {
	var predictions []struct {
		Scheme string `json:"scheme"`
	}
	return json.Unmarshal(data, &predictions) == nil && len(predictions) > 0 && predictions[0].Scheme != ""
}

func (c *compare) run(w io.Writer, points []result.Result) error {
	fmt.Fprintln(w, compareTable.Head(c.wide))
	parted, compared := 0, 0
	for i := range points {
		p := &points[i]
		s, t, why := c.model(p)
		if why != "" {
			usage.Fillf(w, "%s, %s, %v: not compared: %s", p.Device, p.Reliability, p.SizeBytes, why)
			continue
		}
		r, err := model.Simulate(s, t, c.options())
		if err != nil {
			return fmt.Errorf("%s %v: %w", p.Reliability, p.SizeBytes, err)
		}
		compared++
		if !c.printPoint(w, p, r) {
			parted++
		}
	}
	usage.Fillf(w, "%s compared, %s from the prediction by more than %g %% and sampling error", plural(int64(compared), "point"), parting(parted), c.tolerance)
	if parted > 0 {
		return usage.Missedf("%d of %s parted from the prediction", parted, plural(int64(compared), "point"))
	}
	return nil
}

// model returns the scheme and the transfer of a point, or why there is none.
func (c *compare) model(p *result.Result) (s model.Scheme, t model.Transfer, why string) {
	ec := model.EC{K: int64(p.Params.K), M: int64(p.Params.M), Beta: cmp.Or(p.Params.Beta, 0.5)}
	switch p.Reliability {
	case "sr":
		s = model.SR{Alpha: cmp.Or(p.Params.Alpha, 2)}
	case "sr-nack":
		s = model.NACK()
	case "ec-xor":
		ec.Code = model.XOR
		s = ec
	case "ec-mds":
		s = ec
	case "adaptive":
		s = model.Adaptive{}
	default:
		return nil, t, fmt.Sprintf("the model has no scheme %q", p.Reliability)
	}
	unit := p.Chunks.UnitBytes
	switch {
	case p.Link == nil:
		return nil, t, "no emulated link, so no prediction"
	case p.Link.RateBps == 0:
		return nil, t, "the link has no rate, so no ideal"
	case p.MTU < 1 || unit < 1:
		return nil, t, "mtu or unit_bytes is missing"
	case p.Iterations < 1:
		return nil, t, "no iterations"
	case p.Latency:
		return nil, t, "its times are of round trips, two transfers each (--latency)"
	case p.Incomplete:
		return nil, t, "it broke off, and the transfers under way then, the longest as a rule, are missing"
	case p.Bidirectional:
		return nil, t, "transfers went in both directions at once (-b), the model has one"
	case p.QPs > 1:
		return nil, t, fmt.Sprintf("%d connections shared the link (-q), the model has one", p.QPs)
	case p.Inflight > 1:
		return nil, t, fmt.Sprintf("%d transfers shared the link (-t), the model has one", p.Inflight)
	}
	headers := headersOf(p.Link)
	if c.given {
		headers = c.headers
	}
	t = model.Transfer{Rate: withoutHeaders(p.Link.RateBps, p.MTU, headers), RTT: p.Link.RTTNs, Size: p.SizeBytes, Unit: unit}
	return s, lossy(t, p.MTU, p.Link.Drop, p.Link.Burst), ""
}

// parting says how many points part, with the verb's ending.
func parting(n int) string {
	if n == 1 {
		return "1 parts"
	}
	return fmt.Sprintf("%d part", n)
}

var compareTable = usage.Table{
	{Name: "device", Width: -10, Wide: true}, {Name: "scheme", Width: -8}, {Name: "size", Width: 8}, {Name: "drop", Width: 7},
	{Name: "measured", Width: 8}, {Name: "predicted", Width: 9}, {Name: "ratio", Width: 6}, {Name: "p50", Width: 7, Wide: true},
	{Name: "p99", Width: 7, Wide: true}, {Name: "p99.9", Width: 7, Wide: true}, {Name: "verdict", Width: -1},
}

// printPoint prints a row and reports whether measurement and prediction agree.
func (c *compare) printPoint(w io.Writer, p *result.Result, r *model.Result) bool {
	mean := r.Mean()
	avg := float64(p.CompletionNs.Avg)
	ratio := avg / float64(mean.Value)
	row := []any{
		p.Device, p.Reliability, p.SizeBytes, short(p.Link.Drop),
		units.FormatDuration(p.CompletionNs.Avg), units.FormatDuration(mean.Value), fmt.Sprintf("%.3f", ratio),
	}
	var parts []string
	part := func(name string, ratio float64) {
		if c.wide {
			name = fmt.Sprintf("%s %+.1f %%", name, 100*(ratio-1))
		}
		parts = append(parts, name)
	}
	// The predicted interval, scaled from the samples drawn to the iterations measured.
	half := float64(mean.High-mean.Value) * math.Sqrt(float64(r.Samples())/float64(p.Iterations))
	if off := math.Abs(avg - float64(mean.Value)); off > c.tolerance/100*float64(mean.Value) && off > half {
		part("avg", ratio)
	}
	for _, q := range []struct {
		name     string
		q        float64
		measured units.Duration
	}{{"p50", 0.5, p.CompletionNs.P50}, {"p99", 0.99, p.CompletionNs.P99}, {"p99.9", 0.999, p.CompletionNs.P999}} {
		// A quantile needs some samples beyond it.
		if q.measured == 0 || float64(p.Iterations)*(1-q.q) < 5 {
			row = append(row, "-")
			continue
		}
		ratio := float64(q.measured) / float64(r.Quantile(q.q).Value)
		row = append(row, fmt.Sprintf("%.3f", ratio))
		if !c.agrees(r, q.q, float64(q.measured), p.Iterations) {
			part(q.name, ratio)
		}
	}
	verdict := "agrees"
	if len(parts) > 0 {
		verdict = "parts: " + strings.Join(parts, ", ")
	}
	fmt.Fprintln(w, compareTable.Row(c.wide, append(row, verdict)...))
	return len(parts) == 0
}

// agrees says whether a measured quantile is within the tolerance of what so many iterations may give.
func (c *compare) agrees(r *model.Result, q, measured float64, iterations int) bool {
	slack := 1.96 * math.Sqrt(q*(1-q)/float64(iterations))
	low, high := r.Quantile(max(0, q-slack)).Value, r.Quantile(min(1, q+slack)).Value
	return measured >= float64(low)*(1-c.tolerance/100) && measured <= float64(high)*(1+c.tolerance/100)
}
