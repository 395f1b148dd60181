// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A total is what figures took together.
type total struct {
	Figures []figureCost `json:"figures"`
	// Events and WallS are sums, RSSBytes the most of a figure.
	Events   uint64  `json:"events"`
	WallS    float64 `json:"wall_s"`
	RSSBytes int64   `json:"rss_bytes"`
}

// A figureCost is that of one, as its JSON says.
type figureCost struct {
	File     string  `json:"file"`
	Figure   string  `json:"figure"`
	Scale    float64 `json:"scale"`
	Seeds    int     `json:"seeds"`
	Events   uint64  `json:"events"`
	WallS    float64 `json:"wall_s"`
	RSSBytes int64   `json:"rss_bytes"`
}

func newTotal() *cobra.Command {
	var only, out string
	cmd := &cobra.Command{
		Use:   "total FOLDER|FILE...",
		Short: "Say how long figures took together, and how much memory",
		Long: `total reads what figure and table have written beside their drawings, name.json,
and says what their simulations took: events, time by the clock, summed over
simulations, of which --jobs ran at once, and the most memory of a process. A
simulation that several figures share counts in each.

    sdr-fabric total docs/results/fabric/full --only strack:`,
		Args: usage.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := result.CheckWritable(out); err != nil {
				return usage.Wrap(err)
			}
			t, err := readTotal(args, only)
			if err != nil {
				return err
			}
			if len(t.Figures) == 0 {
				return usage.Errorf("no figure's JSON in %s: name a folder that figure --out has written to", strings.Join(args, " "))
			}
			if out == "-" {
				return result.Write(cmd.OutOrStdout(), out, t)
			}
			if out != "" {
				if err := result.Write(nil, out, t); err != nil {
					return err
				}
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
			row := func(name, scale, seeds string, events uint64, wall float64, rss int64) {
				if wall == 0 { // written before figures said so
					fmt.Fprintf(w, "%s\t%s\t%s\t\tnot known\t\t\n", name, scale, seeds)
					return
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%.1f M\t%s\t%v\t\n", name, scale, seeds, float64(events)/1e6, time.Duration(wall*float64(time.Second)).Round(100*time.Millisecond), units.Bytes(rss))
			}
			fmt.Fprintln(w, "file\tscale\tseeds\tevents\ttime\tmemory\t")
			for i, name := range t.names() {
				f := &t.Figures[i]
				row(name, fmt.Sprintf("%.4g", f.Scale), fmt.Sprint(f.Seeds), f.Events, f.WallS, f.RSSBytes)
			}
			row("all", "", "", t.Events, t.WallS, t.RSSBytes)
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "count only figures whose names begin so, such as strack:")
	cmd.Flags().StringVar(&out, "json", "", "write it to this file, or - for standard output instead of the table")
	return cmd
}

// longestName is how much of a name a row has room for: its end, which says more than its beginning.
const longestName = 25

// names are those of the files without .json and without the folders that all are in. They tell rows apart where a figure is there several
// times, of other seeds or sizes, or a table has its name.
func (t *total) names() []string {
	var names []string
	for _, f := range t.Figures {
		names = append(names, strings.TrimSuffix(filepath.ToSlash(filepath.Clean(f.File)), ".json"))
	}
	for folder, _, found := strings.Cut(names[0], "/"); found && within(names, folder+"/"); folder, _, found = strings.Cut(names[0], "/") {
		for i, name := range names {
			names[i] = strings.TrimPrefix(name, folder+"/")
		}
	}
	for i, name := range names {
		if r := []rune(name); len(r) > longestName {
			names[i] = "…" + string(r[len(r)-longestName+1:])
		}
	}
	return names
}

// within reports whether all paths begin with a folder.
func within(paths []string, folder string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { return !strings.HasPrefix(p, folder) })
}

// readTotal adds up what files say, and the JSON files of folders, in the order of their names.
func readTotal(paths []string, only string) (t total, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return t, usage.Wrap(err)
		}
		files := []string{path}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
				return t, err
			}
		}
		for _, name := range files {
			var f figureFile
			if err := readJSON(name, &f); err != nil {
				return t, err
			}
			if f.Figure == "" || !strings.HasPrefix(f.Figure, only) {
				continue
			}
			t.Figures = append(t.Figures, figureCost{name, f.Figure, f.Scale, f.Seeds, f.Events, f.WallS, f.RSSBytes})
			t.Events, t.WallS, t.RSSBytes = t.Events+f.Events, t.WallS+f.WallS, max(t.RSSBytes, f.RSSBytes)
		}
	}
	return t, nil
}
