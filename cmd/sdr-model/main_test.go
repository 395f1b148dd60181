// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// execute runs the command and returns its standard output.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	err := root.Execute()
	return out.String(), err
}

func TestBadParametersAreRefused(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"plan --drop 2", "allowed 0 and 1e-15 to 0.9"},
		{"plan --drop -1", "allowed 0 and 1e-15 to 0.9"},
		{"plan --drop 1e-3..1e-6", "the lower probability comes first"},
		{"plan --drop 0..1e-3", "can't start at 0"},
		{"plan --chunk-drop x", "allowed"},
		{"plan --drop 1e-3 --chunk-drop 1e-3", "exclude each other"},
		{"plan --rtt 1ms --distance 5km", "exclude each other"},
		{"plan --us-per-km 4", "needs --distance"},
		{"plan --distance 5", "write it like 3750km"},
		{"plan --distance 0km", "allowed above 0 to 1000000 km"},
		{"plan --distance 5km --us-per-km 1", "allowed 3 to 100"},
		{"plan --rate 0", "allowed 1 kbit/s to 1000 Tbit/s"},
		{"plan --rtt 0", "allowed 100 ns to 1000 s"},
		{"plan --size 0", "allowed 1 B to 1024 TiB"},
		{"plan --size 1MiB,", "size"},
		{"plan --drop 0.9", "give a smaller --drop, or --chunk 4KiB, a packet"},
		{"plan --chunk 4097", "--chunk of 4097 bytes: allowed are multiples of --mtu, 4096 bytes"},
		{"plan --mtu 0", "--mtu 0: allowed are 1 byte and more"},
		{"plan --k 0", "allowed 1 ≤ m ≤ k and k+m ≤ 255"},
		{"plan --m 40", "allowed 1 ≤ m ≤ k and k+m ≤ 255"},
		{"plan --alpha -1", "allowed 0 to 1000"},
		{"plan --beta 1e9", "allowed 0 to 1000"},
		{"plan --fallback none", "missing and whole"},
		{"plan --samples 0", "allowed 1 to 10000000"},
		{"plan --threads -1", "allowed 0"},
		{"plan a.json", `"a.json": plan takes no argument; the results of sdr-perf in a file are read by sdr-model plan --from FILE`},
		{"plan --nonsense", "unknown flag: --nonsense: sdr-model plan --help says what there is"},
		{"plan --drp 1e-3", "unknown flag: --drp; did you mean --drop?"},
		{"plan --burst 0.5", "allowed 1 to 1e+06 packets"},
		{"plan --burst 0", "allowed 1 to 1e+06 packets"},
		{"plan --burst 8 --chunk-drop 1e-3", "needs --drop"},
		{"plan --plot link.pdf", "the ending says the format: .svg, .png, .csv"},
		{"figure", "argument missing"},
		{"figure 3 --rate 1gbit", "leave --rate out, or the number"},
		{"figure --rtt 0", "allowed 100 ns to 1000 s"},
		{"figure --rtt 1ms --distance 5km", "exclude each other"},
		{"figure 4", "there are 3, 9, 10, 11, 12, 13, 15 and all"},
		{"figure 15 --samples -5", "allowed 1 to 10000000"},
		{"compare", "argument missing"},
		{"compare x.json --tolerance -1", "allowed 0 to 100"},
	} {
		_, err := execute(t, strings.Fields(c.args)...)
		require.ErrorContains(t, err, c.says, c.args)
		require.Equal(t, 2, run(strings.Fields(c.args)), c.args)
	}
	svg := filepath.Join(t.TempDir(), "peers.svg")
	for _, args := range [][]string{
		{"compare", "/nonexistent.json"}, {"plan", "--from", "/nonexistent.json"}, {"peers", "/nonexistent.md", "--out", svg},
		{"peers", os.DevNull, "--out", svg}, {"peers", peerTables, "--out", "/nonexistent/peers.svg"},
	} {
		require.Equal(t, 2, run(args), args)
	}
}

func TestProbabilities(t *testing.T) {
	var p probabilities
	for in, want := range map[string]probabilities{
		"1e-5": {1e-5}, "0": {0}, "1e-6..1e-3": {1e-6, 1e-5, 1e-4, 1e-3}, "2e-6..5e-4": {2e-6, 1e-5, 1e-4, 5e-4}, "0.1..0.1": {0.1},
		"1%": {0.01}, "0.1%..1%": {1e-3, 1e-2}, "0%": {0},
	} {
		require.NoError(t, p.Set(in), in)
		require.InDeltaSlice(t, []float64(want), []float64(p), 1e-12, in)
	}
	require.Equal(t, "1e-5", short(1e-5))
	require.Equal(t, "1.6e-4", short(1.5999e-4))
	require.Equal(t, "0.149", short(0.14886))
	require.Equal(t, "0", short(0))
}

// The JSON contract: these keys, no others.
func TestPlanJSON(t *testing.T) {
	out, err := execute(t, "plan", "--size", "1MiB,128MiB", "--drop", "1e-5..1e-4", "--samples", "500", "--json", "-")
	require.NoError(t, err)
	var objects []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &objects))
	require.Len(t, objects, 2*2*5)
	recommended := map[any]map[any]bool{}
	for _, o := range objects {
		var keys []string
		for k := range o {
			keys = append(keys, k)
		}
		require.ElementsMatch(t, []string{
			"version", "scheme", "params", "size_bytes", "chunk_bytes", "rate_bps", "rtt_ns", "packet_drop", "chunk_drop", "burst",
			"ideal_ns", "avg_ns", "p50_ns", "p99_ns", "p999_ns", "parity_bytes", "parity_memory_bytes", "samples", "recommended",
		}, keys)
		require.Contains(t, simplest, o["scheme"])
		require.EqualValues(t, 1, o["version"])
		require.EqualValues(t, 500, o["samples"])
		require.LessOrEqual(t, o["p50_ns"], o["p999_ns"])
		require.GreaterOrEqual(t, o["avg_ns"].(float64), o["ideal_ns"].(float64)-2)
		if o["recommended"].(bool) {
			if recommended[o["size_bytes"]] == nil {
				recommended[o["size_bytes"]] = map[any]bool{}
			}
			recommended[o["size_bytes"]][o["scheme"]] = true
		}
	}
	require.Len(t, recommended, 2)
	for size, schemes := range recommended {
		require.Len(t, schemes, 1, "one scheme for %v", size)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	table, err := execute(t, "plan", "--samples", "500", "--json", file)
	require.NoError(t, err)
	require.Contains(t, table, "Recommended", "with a file the table is printed too")
	require.FileExists(t, file)
}

func TestPlanTable(t *testing.T) {
	out, err := execute(t, "plan", "--distance", "3750km", "--us-per-km", "3.3333333", "--size", "128MiB", "--chunk-drop", "1e-3", "--fallback", "whole")
	require.NoError(t, err)
	for _, want := range []string{"RTT 25 ms (3750 km", "1e-3 per chunk", "6.25e-5 per packet", "RTO 3 RTT", "> adaptive", "k=32 m=8", "Recommended for 128 MiB: adaptive"} {
		require.Contains(t, out, want)
	}
}

// What plan and compare print stays within 80 columns unless --wide asks for all of it.
func TestTablesFit(t *testing.T) {
	point := perfJSON(t, "adaptive", model.Adaptive{}, 1.5)
	file := filepath.Join(t.TempDir(), "perf.json")
	require.NoError(t, os.WriteFile(file, []byte(strings.TrimSuffix(point, "]")+","+strings.TrimPrefix(strings.Replace(point, `"iterations":2000`, `"iterations":2000,"incomplete":true`, 1), "[")), 0o600))
	for _, c := range []struct {
		wide string // a column that --wide adds
		args []string
	}{
		{"p99.9/ideal    parity    memory\n", []string{"plan", "--samples", "20", "--distance", "3750km", "--drop", "1e-3", "--size", "1MiB,8GiB"}},
		{"p50     p99   p99.9 verdict\n", []string{"compare", file, "--samples", "2000"}},
	} {
		out, _ := execute(t, c.args...)
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
		}
		require.NotContains(t, out, c.wide)
		out, _ = execute(t, append(c.args, "--wide")...)
		require.Contains(t, out, c.wide)
	}
}

// Transfers with many drops are sampled less, unless asked.
func TestPlanThinsSamples(t *testing.T) {
	p := &plan{simulation: simulation{samples: 10_000}, thin: true}
	few := model.Transfer{Size: 1 << 20, Unit: 1 << 16, Drop: 0.1}
	many := model.Transfer{Size: 128 * units.GiB, Unit: 1 << 16, Drop: 0.1}
	most := model.Transfer{Size: units.TiB, Unit: 1 << 12, Drop: 0.1}
	require.Equal(t, 10_000, p.optionsFor(few).Samples)
	require.Equal(t, fewestSamples, p.optionsFor(many).Samples)
	require.Equal(t, leastSamples, p.optionsFor(most).Samples)
	p.thin = false
	require.Equal(t, 10_000, p.optionsFor(many).Samples)
}

// perfJSON is what sdr-perf writes (the fields that matter here and some that don't) for a point whose
// times are the model's, off by a factor.
func perfJSON(t *testing.T, reliability string, s model.Scheme, factor float64) string {
	t.Helper()
	tr := model.Transfer{Rate: units.Gbit, RTT: 25 * units.Millisecond, Size: 8 * units.MiB, Unit: 4 * units.KiB, Drop: 1e-3, Control: 1e-3}
	r, err := model.Simulate(s, tr, model.Options{Samples: 2000, Seed: 77})
	require.NoError(t, err)
	at := func(v units.Duration) units.Duration { return units.Duration(float64(v) * factor) }
	object := map[string]any{
		"version": 1, "device": "userroce", "backend": "userroce", "reliability": reliability, "size_bytes": tr.Size, "chunk_bytes": 65536,
		"mtu": 4096, "channels": 4, "iterations": 2000,
		"link":          map[string]any{"rtt_ns": tr.RTT, "rate_bps": tr.Rate, "drop": 1e-3},
		"completion_ns": map[string]any{"avg": at(r.Mean().Value), "p50": at(r.Quantile(0.5).Value), "p99": at(r.Quantile(0.99).Value), "p999": at(r.Quantile(0.999).Value), "min": 0, "max": 0},
		"ideal_ns":      tr.Ideal(), "chunks": map[string]any{"sent": 2048, "unit_bytes": 4096},
		"params": map[string]any{"alpha": 2, "beta": 0.5, "k": 32, "m": 8}, "verified": true, "seed": 1, "environment": map[string]any{"go": "go1.26"},
	}
	data, err := json.Marshal([]any{object})
	require.NoError(t, err)
	return string(data)
}

func compareFile(t *testing.T, content string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "perf.json")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return execute(t, append([]string{"compare", file}, args...)...)
}

func TestCompare(t *testing.T) {
	schemes := map[string]model.Scheme{
		"sr": model.SR{Alpha: 2}, "sr-nack": model.NACK(), "adaptive": model.Adaptive{},
		"ec-xor": model.EC{Code: model.XOR, K: 32, M: 8, Beta: 0.5}, "ec-mds": model.EC{K: 32, M: 8, Beta: 0.5},
	}
	for name, s := range schemes {
		out, err := compareFile(t, perfJSON(t, name, s, 1))
		require.NoError(t, err)
		require.Contains(t, out, " agrees\n", "%s: %s", name, out)
		require.Contains(t, out, "1 point compared, 0 part from")
		out, err = compareFile(t, perfJSON(t, name, s, 1.2))
		require.ErrorAs(t, err, new(usage.Missed), "exit status 3")
		require.Contains(t, out, "parts: avg", "%s: %s", name, out)
		require.Contains(t, out, "1 point compared, 1 parts from")
		out, err = compareFile(t, perfJSON(t, name, s, 1.2), "--tolerance", "30")
		require.NoError(t, err)
		require.Contains(t, out, " agrees\n")
	}
	// 4096 bytes of 4160 are 1.6 % of the injection time.
	point := perfJSON(t, "adaptive", schemes["adaptive"], 1)
	out, err := compareFile(t, point, "--headers", "0", "--tolerance", "0.5")
	require.NoError(t, err)
	require.Contains(t, out, " agrees\n")
	out, err = compareFile(t, point, "--tolerance", "0.5", "--wide")
	require.EqualError(t, err, "1 of 1 point parted from the prediction")
	require.Contains(t, out, "parts: avg -1.")
	_, err = compareFile(t, strings.Replace(point, `"drop":0.001`, `"drop":0.001,"header_bytes":1`, 1), "--tolerance", "0.5")
	require.NoError(t, err, "the file says what is counted")
}

func TestCompareSaysWhatItCannot(t *testing.T) {
	point := perfJSON(t, "sr", model.SR{Alpha: 2}, 1)
	for _, c := range []struct{ from, to, says string }{
		{`"reliability":"sr"`, `"reliability":"none"`, `no scheme "none"`},
		{`"link":{`, `"link":null,"old":{`, "no emulated link"},
		{`"rate_bps":1000000000`, `"rate_bps":0`, "no rate"},
		{`"unit_bytes":4096`, `"unit_bytes":0`, "unit_bytes is missing"},
		{`"iterations":2000`, `"iterations":0`, "no iterations"},
		{`"iterations":2000`, `"iterations":2000,"latency":true`, "round trips"},
		{`"iterations":2000`, `"iterations":2000,"bidirectional":true`, "both directions"},
		{`"iterations":2000`, `"iterations":2000,"incomplete":true`, "broke off"},
		{`"iterations":2000`, `"iterations":2000,"inflight":8,"qps":1`, "8 transfers shared the link"},
		{`"iterations":2000`, `"iterations":2000,"inflight":1,"qps":2`, "2 connections shared the link"},
	} {
		changed := strings.Replace(point, c.from, c.to, 1)
		require.NotEqual(t, point, changed, c.from)
		out, err := compareFile(t, changed)
		require.NoError(t, err)
		require.Contains(t, out, "not compared: ")
		require.Contains(t, out, c.says)
		require.Contains(t, out, "0 points compared")
	}
	_, err := compareFile(t, `[{"version":2}]`)
	require.ErrorContains(t, err, "reads version 1")
	_, err = compareFile(t, strings.Replace(point, `"drop":0.001`, `"drop":3`, 1))
	require.ErrorIs(t, err, model.ErrRange)
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte(`[]`))
	f.Add([]byte(`[{"version":1,"reliability":"sr","mtu":4096,"iterations":1,"size_bytes":8192,"link":{"rtt_ns":25000000,"rate_bps":1000000000,"drop":0.1},"chunks":{"unit_bytes":4096}}]`))
	f.Add([]byte(`[{"version":1,"reliability":"ec-mds","params":{"k":-1,"m":300},"mtu":-4096,"iterations":1,"size_bytes":-1,"link":{"drop":1e300},"chunks":{"unit_bytes":1}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		points, err := readPoints(bytes.NewReader(data), "-")
		if err != nil {
			return
		}
		c := &compare{simulation: simulation{samples: 1, threads: 1}, tolerance: 5}
		for i := range points { // an absurd message may take seconds, but not panic
			points[i].SizeBytes = min(points[i].SizeBytes, units.MiB)
		}
		_ = c.run(&bytes.Buffer{}, points)
	})
}

func TestFigureWritesThreeFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	out, err := execute(t, "figure", "15", "--out", dir, "--quiet")
	require.NoError(t, err)
	for _, ext := range []string{"svg", "png", "csv"} {
		require.Contains(t, out, "figure15."+ext)
		require.FileExists(t, filepath.Join(dir, "figure15."+ext))
	}
}

// Where no file can be written nothing is computed first: these would take minutes.
func TestFolderThatIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--out: ", []string{"figure", "12", "--out", file}},
		{"--out: ", []string{"figure", "--rate", "10gbit", "--size", "1TiB", "--out", file}},
		{"write ", []string{"plan", "--size", "1TiB", "--json", filepath.Join(file, "x.json")}},
		{"write ", []string{"plan", "--size", "1TiB", "--plot", filepath.Join(file, "x.svg")}},
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(append(c.args, "--samples", "10000000"))
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.Execute()
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, file)
		require.ErrorAs(t, err, new(usage.Error))
		require.Empty(t, out.String())
	}
}

// What the planner says about a choice is a sentence for any of them.
func TestChoiceIsASentence(t *testing.T) {
	for _, c := range []struct {
		choice model.Choice
		want   string
	}{
		{model.Choice{Tail: 2048, Groups: 32, K: 64, M: 3}, "It codes all 2048 chunks, in 32 interleaved groups of up to 64 chunks with 3 parity chunks each."},
		{model.Choice{Tail: 16, Groups: 1, K: 16, M: 1}, "It codes all 16 chunks, in one group of 16 chunks with 1 parity chunk."},
		{model.Choice{Tail: 1, Groups: 1, K: 1, M: 2}, "It codes its only chunk, with 2 parity chunks."},
		{model.Choice{Body: 1, Tail: 5, Groups: 1, K: 5, M: 2}, "It repeats the first chunk when it is lost and codes the last 5 in one group of 5 chunks with 2 parity chunks."},
		{model.Choice{Body: 9, Tail: 6, Groups: 2, K: 3, M: 1}, "It repeats the first 9 chunks when they are lost and codes the last 6 in 2 interleaved groups of up to 3 chunks with 1 parity chunk each."},
		{model.Choice{Tail: 6, Groups: 1, K: 6}, "It sends no parity: a lost chunk is rare enough to be repaired when it is missed."},
	} {
		require.Equal(t, c.want, sentence(c.choice))
	}
	out, err := execute(t, "plan", "--drop", "1e-3", "--samples", "200")
	require.NoError(t, err)
	require.NotContains(t, out, "the first 0 chunks")
	require.Contains(t, out, "It codes all 2048 chunks")
}

// Parity of (32,8) is a quarter of the data, and memory comes in pieces, up to a pool.
func TestPlanParity(t *testing.T) {
	out, err := execute(t, "plan", "--samples", "200", "--json", "-")
	require.NoError(t, err)
	var objects []planObject
	require.NoError(t, json.Unmarshal([]byte(out), &objects))
	for _, o := range objects {
		switch o.Scheme {
		case "sr", "sr-nack":
			require.Zero(t, o.ParityBytes)
			require.Zero(t, o.MemoryBytes)
		case "ec-xor", "ec-mds":
			require.Equal(t, 32*units.MiB, o.ParityBytes)
			require.Equal(t, 64*units.MiB, o.MemoryBytes)
		}
	}
	require.Equal(t, 512*units.MiB, parityMemory(8*units.GiB))
}

func TestPlotsOfALink(t *testing.T) {
	dir := t.TempDir()
	for _, ext := range []string{"svg", "png", "csv"} {
		file := filepath.Join(dir, "plan."+ext)
		_, err := execute(t, "plan", "--samples", "20", "--drop", "1e-4..1e-3", "--size", "1MiB,2MiB", "--plot", file)
		require.NoError(t, err)
		require.FileExists(t, file)
	}
	data, err := os.ReadFile(filepath.Join(dir, "plan.csv"))
	require.NoError(t, err)
	require.Contains(t, string(data), `1 MiB against drop probability,"adaptive, average",packet_drop,0.0001,completion_over_ideal,`)
	require.Contains(t, string(data), `drop probability 0.001 against message size,"sr, 99.9th percentile",size_bytes,2097152,completion_over_ideal,`)

	out, err := execute(t, "figure", "--rate", "10gbit", "--rtt", "80ms", "--size", "1MiB", "--drop", "0", "--samples", "20", "--out", dir, "--quiet")
	require.NoError(t, err)
	for _, ext := range []string{"svg", "png", "csv"} {
		require.Contains(t, out, "link."+ext)
		require.FileExists(t, filepath.Join(dir, "link."+ext))
	}
}

// Bursts make the code of fixed parity fall back, and adaptive spend more.
func TestPlanBursts(t *testing.T) {
	args := []string{"plan", "--rate", "100gbit", "--rtt", "10ms", "--size", "16MiB", "--chunk", "4KiB", "--drop", "1e-2", "--samples", "300", "--json", "-"}
	byScheme := func(args ...string) map[string]planObject {
		out, err := execute(t, args...)
		require.NoError(t, err)
		var objects []planObject
		require.NoError(t, json.Unmarshal([]byte(out), &objects))
		all := map[string]planObject{}
		for _, o := range objects {
			all[o.Scheme] = o
		}
		return all
	}
	alone, bursts := byScheme(args...), byScheme(append(args, "--burst", "8")...)
	require.Equal(t, 8.0, bursts["sr"].Burst)
	require.Equal(t, 1.0, alone["sr"].Burst)
	require.Greater(t, bursts["ec-mds"].AvgNs, alone["ec-mds"].AvgNs*3/2)
	require.Greater(t, bursts["adaptive"].ParityBytes, alone["adaptive"].ParityBytes)
	table, err := execute(t, "plan", "--burst", "8", "--samples", "50")
	require.NoError(t, err)
	require.Contains(t, table, "bursts of 8 packets")
	require.NotContains(t, table, "Best fixed split")
}

// compare predicts points with bursts, as a measurement of one that agrees and of one that doesn't shows.
func TestCompareBursts(t *testing.T) {
	point := strings.Replace(perfJSON(t, "sr-nack", model.NACK(), 1), `"drop":0.001`, `"drop":0.001,"burst":64`, 1)
	out, err := compareFile(t, point)
	require.ErrorAs(t, err, new(usage.Missed))
	require.Contains(t, out, "1 point compared, 1 parts from", "what was measured had independent losses")
}

func TestPlanFrom(t *testing.T) {
	point := strings.Replace(perfJSON(t, "sr", model.SR{Alpha: 2}, 1), `"drop":0.001`, `"drop":0.001,"burst":8`, 1)
	other := strings.Replace(strings.Replace(point, `"drop":0.001`, `"drop":0.01`, 1), `"size_bytes":8388608`, `"size_bytes":1048576`, 1)
	require.NotEqual(t, point, other)
	plan := func(content string, args ...string) ([]planObject, error) {
		file := filepath.Join(t.TempDir(), "perf.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		out, err := execute(t, append([]string{"plan", "--from", file, "--samples", "50", "--json", "-"}, args...)...)
		var objects []planObject
		if err == nil {
			require.NoError(t, json.Unmarshal([]byte(out), &objects))
		}
		return objects, err
	}
	objects, err := plan(strings.TrimSuffix(point, "]") + "," + strings.TrimPrefix(other, "["))
	require.NoError(t, err)
	require.Len(t, objects, 2*2*5, "two sizes, two drop probabilities, five schemes")
	first, last := objects[0], objects[len(objects)-1]
	require.Equal(t, units.Rate(984_615_384), first.RateBps, "4096 of 4160 bytes")
	require.Equal(t, 25*units.Millisecond, first.RTTNs)
	require.Equal(t, 8.0, first.Burst)
	require.Equal(t, 4*units.KiB, first.ChunkBytes)
	require.Equal(t, []any{units.MiB, 8 * units.MiB}, []any{first.SizeBytes, last.SizeBytes})
	require.Equal(t, []any{0.001, 0.01}, []any{first.PacketDrop, last.PacketDrop})

	objects, err = plan(strings.Replace(point, `"drop":0.001`, `"drop":0.001,"header_bytes":84`, 1))
	require.NoError(t, err)
	require.Equal(t, units.Rate(979_904_306), objects[0].RateBps, "4096 of 4180 bytes: IPv6")

	objects, err = plan(point, "--rtt", "1ms", "--drop", "1e-4", "--burst", "1", "--size", "1MiB", "--chunk", "64KiB", "--rate", "1gbit")
	require.NoError(t, err)
	require.Len(t, objects, 5)
	o := objects[0]
	require.Equal(t, []any{units.Millisecond, 1e-4, 1.0, units.MiB, 64 * units.KiB, units.Gbit},
		[]any{o.RTTNs, o.PacketDrop, o.Burst, o.SizeBytes, o.ChunkBytes, o.RateBps}, "the command line wins")

	overReal := strings.Replace(point, `"link":{`, `"packets":{"sent":20000,"dropped_real":4,"lost_unseen":6},"link":null,"old":{`, 1)
	objects, err = plan(overReal, "--rtt", "1ms", "--rate", "1gbit")
	require.NoError(t, err)
	require.InDelta(t, 5e-4, objects[0].PacketDrop, 1e-12)
	for _, c := range []struct{ content, says string }{
		{overReal, "add --rate"}, {"[]", "no results"}, {"{", "is not sdr-perf's JSON"},
		{strings.TrimSuffix(point, "]") + "," + strings.TrimPrefix(strings.Replace(point, `"mtu":4096`, `"mtu":1024`, 1), "["), "different links"},
		{strings.Replace(point, `"unit_bytes":4096`, `"unit_bytes":0`, 1), "add --mtu and --chunk"},
		{strings.Replace(point, `"rtt_ns":25000000`, `"rtt_ns":0`, 1), "add --rtt"},
		{strings.Replace(point, `"drop":0.001`, `"drop":3`, 1), "out of range"},
	} {
		_, err := plan(c.content)
		require.ErrorContains(t, err, c.says)
	}
}
