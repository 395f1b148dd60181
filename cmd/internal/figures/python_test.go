// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// published runs testdata/published.py, the paper's method as a plain Python loop.
func published(tb testing.TB, samples int, sizes, drops []float64) (averages [][2]float64, took time.Duration) {
	python, err := exec.LookPath("python3")
	if err != nil {
		tb.Skip("python3 isn't installed: apt-get install python3")
	}
	list := func(v []float64) string {
		var s []string
		for _, x := range v {
			s = append(s, strconv.FormatFloat(x, 'g', -1, 64))
		}
		return strings.Join(s, ",")
	}
	cmd := exec.Command(python, "testdata/published.py", strconv.Itoa(samples), list(sizes), list(drops))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(tb, err, stderr.String())
	for l := range strings.Lines(string(out)) {
		var size, drop, sr, ec, seconds float64
		if n, _ := fmt.Sscan(l, &size, &drop, &sr, &ec); n == 4 {
			averages = append(averages, [2]float64{sr, ec})
		} else if n, _ := fmt.Sscanf(l, "seconds %g", &seconds); n == 1 {
			took = time.Duration(seconds * 1e9)
		}
	}
	require.Len(tb, averages, len(sizes)*len(drops))
	return averages, took
}

// An independent program, written from the paper's text in another language, gives the same averages.
func TestAgreesWithPublishedMethod(t *testing.T) {
	sizes, drops := []float64{float64(units.MiB), float64(16 * units.MiB)}, []float64{1e-3, 3e-2, 1e-1}
	averages, _ := published(t, 1500, sizes, drops)
	r := &run{Config: Config{Samples: 20_000, Seed: 1}}
	for i, size := range sizes {
		for j, drop := range drops {
			tr := paperLink(units.Bytes(size), drop)
			want := averages[i*len(drops)+j]
			for k, s := range []float64{
				float64(r.simulate(sr, tr).Mean().Value) / 1e9, float64(r.simulate(mds, tr).Mean().Value) / 1e9,
			} {
				// Three to four standard errors of 1500 samples that vary by up to their average.
				require.InEpsilon(t, want[k], s, 0.1, "%g bytes, drop %g, scheme %d", size, drop, k)
			}
		}
	}
	require.NoError(t, r.err)
}

// The grid of Figure 9: 10 000 samples a point here, 50 there, scaled per sample, in the same run.
func BenchmarkFigure9AgainstPython(b *testing.B) {
	const oursSamples, theirSamples = 10_000, 50
	_, took := published(b, theirSamples, figure9Sizes(), figure9Drops())
	theirs := took.Seconds() / theirSamples
	b.ResetTimer()
	start := time.Now()
	for range b.N {
		r := &run{Config: Config{Samples: oursSamples, Seed: 1}}
		r.figure9Grid()
		require.NoError(b, r.err)
	}
	ours := time.Since(start).Seconds() / float64(b.N) / oursSamples
	b.ReportMetric(theirs*1e3, "python-ms/sample")
	b.ReportMetric(ours*1e3, "ms/sample")
	b.ReportMetric(theirs/ours, "times-faster")
	if theirs/ours < 100 {
		b.Errorf("%.0f times faster than the Python loop, should be 100", theirs/ours)
	}
}
