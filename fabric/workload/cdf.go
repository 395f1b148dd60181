// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A CDF is a distribution of sizes, linear between its points.
type CDF struct{ points []cdfPoint }

type cdfPoint struct {
	size  units.Bytes
	share float64 // of messages that are not larger
}

const maxCDFPoints = 10_000

// ReadCDF reads a distribution as HPCC's and ns-3's traffic generators take it: a size in bytes and
// the percentage of messages that are not larger, a line each, ascending from 0 to 100 %.
func ReadCDF(r io.Reader) (*CDF, error) {
	c, in := &CDF{}, bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		f := strings.Fields(in.Text())
		if len(f) == 0 {
			continue
		}
		if len(c.points) == maxCDFPoints {
			return nil, operr.New("read", fmt.Sprintf("distribution, line %d", n), "more than %d points", maxCDFPoints)
		}
		if err := c.add(f); err != nil {
			return nil, operr.New("read", fmt.Sprintf("distribution, line %d", n), "%w", err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, operr.New("read", "distribution", "%w", err)
	}
	return c, c.check()
}

func (c *CDF) add(f []string) error {
	if len(f) != 2 {
		return fmt.Errorf("want a size in bytes and a percentage: found %q", strings.Join(f, " "))
	}
	// Sizes are whole numbers in all published files but for a decimal point behind some.
	size, err1 := strconv.ParseFloat(f[0], 64)
	percent, err2 := strconv.ParseFloat(f[1], 64)
	if err1 != nil || err2 != nil || !(size >= 0 && size <= float64(MaxSize)) || !(percent >= 0 && percent <= 100) {
		return fmt.Errorf("want a size from 0 to %v and a percentage: found %q", MaxSize, strings.Join(f, " "))
	}
	p := cdfPoint{units.Bytes(math.Round(size)), percent / 100}
	if n := len(c.points); n > 0 && (p.size < c.points[n-1].size || p.share < c.points[n-1].share) {
		return fmt.Errorf("%q is below the line before it: both columns must ascend", strings.Join(f, " "))
	}
	c.points = append(c.points, p)
	return nil
}

func (c *CDF) check() error {
	n := len(c.points)
	if n < 2 || c.points[0].share != 0 || c.points[n-1].share != 1 {
		return operr.New("read", "distribution", "it must begin with 0 %% and end with 100 %%")
	}
	if c.points[n-1].size < 1 {
		return operr.New("read", "distribution", "its largest size must be above 0")
	}
	return nil
}

// Mean is the mean size in bytes.
func (c *CDF) Mean() float64 {
	sum := 0.0
	for i := 1; i < len(c.points); i++ {
		a, b := c.points[i-1], c.points[i]
		sum += float64((b.share - a.share) * float64(a.size+b.size) / 2)
	}
	return sum
}

// Size is the size that a share u of messages, within 0 and 1, don't exceed; at least a byte.
func (c *CDF) Size(u float64) units.Bytes {
	i := sort.Search(len(c.points), func(i int) bool { return c.points[i].share >= u })
	if i == 0 || i == len(c.points) {
		return max(1, c.points[min(i, len(c.points)-1)].size)
	}
	a, b := c.points[i-1], c.points[i]
	return max(1, a.size+units.Bytes(float64(b.size-a.size)*((u-a.share)/(b.share-a.share))))
}

// published are distributions as figures of papers have them, and as the traffic generators that their
// authors published type them in.
var published = map[string]string{
	// Web search (Alizadeh et al., "Data Center TCP", SIGCOMM 2010), as HPCC's and THEMIS's
	// generators have it.
	"WebSearch": "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n1000000 70\n2000000 80\n5000000 90\n10000000 97\n30000000 100\n",
	// Hadoop at Facebook (Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM
	// 2015), as HPCC's generator has it.
	"FbHdp": "0 0\n100 1\n200 2\n300 5\n350 15\n400 20\n500 30\n600 40\n700 50\n1000 60\n2000 67\n7000 70\n30000 72\n50000 82\n80000 87\n120000 90\n300000 95\n1000000 97.5\n2000000 99\n10000000 100\n",
	// Storage at Alibaba (Li et al., "HPCC", SIGCOMM 2019).
	"AliStorage": "0 0\n4000 22.93\n8000 69.21\n16000 80.61\n32000 90.47\n64000 93.53\n128000 96.77\n256000 97.53\n2000000 100\n",
}

// CDFNames are the distributions that are built in.
func CDFNames() []string {
	names := make([]string, 0, len(published))
	for n := range published {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// BuiltinCDF returns a distribution that CDFNames has.
func BuiltinCDF(name string) (*CDF, bool) {
	text, ok := published[name]
	if !ok {
		return nil, false
	}
	c, err := ReadCDF(strings.NewReader(text))
	if err != nil {
		panic(err) // a test reads each of them
	}
	return c, true
}
