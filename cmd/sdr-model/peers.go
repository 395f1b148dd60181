// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
)

// Where values stand on logarithmic axes that have no place there: a drop rate of 0, and times of transfers that
// were stopped, which a table has as "> 9.1".
const (
	noDrops = 1e-5
	stopped = 200
)

// peerLines are the transports that are drawn. Of those that start from a few packets the first transfer is drawn,
// too: QUIC and SRT have no other.
var peerLines = []string{
	"sdr adaptive", "sdr adaptive, rate found, cold", "TCP bbr", "TCP bbr, cold", "quic-go, cold", "SRT file mode, cold",
}

func newPeers() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "peers TABLES.md",
		Short: "Draw what test/peers measured, against drop rate",
		Long: `peers draws tables that test/peers wrote: completion times over size/rate + RTT
against the drop rate per packet, of sdr adaptive, TCP with bbr, quic-go and
SRT, a panel for each size. "Cold" is the first transfer of a connection.
Transfers that took too long and were stopped stand above the others.`,
		Example: "  sdr-model peers docs/results/peers.md --out docs/results/peers.svg",
		Args:    usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if end := filepath.Ext(out); end != ".svg" && end != ".png" {
				return usage.Errorf("--out %s: the ending says the format: .svg or .png (the numbers are in %s)", out, args[0])
			}
			if err := result.CheckWritable(out); err != nil {
				return usage.Wrap(err)
			}
			data, name, err := usage.Input(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			tables, err := readPeers(bytes.NewReader(data))
			if err != nil {
				return usage.Errorf("%s: %w", name, err)
			}
			return peersFigure(tables).WriteFile(out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "peers.svg", "`FILE` to write; its ending says the format: .svg or .png")
	return cmd
}

// A peerTable is a table of one size: multiples of the ideal by transport and drop rate.
type peerTable struct {
	title string
	drops []float64
	rows  map[string][]float64
}

// readPeers reads the tables whose first column is "transport".
func readPeers(r io.Reader) (tables []peerTable, err error) {
	var t *peerTable
	title := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case strings.HasPrefix(line, "### "):
			title = strings.TrimPrefix(line, "### ")
		case !strings.HasPrefix(line, "|"):
			t = nil
		case cells[0] == "transport":
			tables = append(tables, peerTable{title: title, rows: map[string][]float64{}})
			t = &tables[len(tables)-1]
			for _, c := range cells[1:] {
				if p, found := strings.CutPrefix(c, "p = "); found {
					v, err := strconv.ParseFloat(p, 64)
					if err != nil {
						return nil, err
					}
					t.drops = append(t.drops, v)
				}
			}
		case t != nil && !strings.HasPrefix(line, "|-"):
			if err := t.add(cells); err != nil {
				return nil, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, t := range tables {
		for _, name := range peerLines {
			if len(t.rows[name]) != len(t.drops) {
				return nil, fmt.Errorf("no whole row %q in table %q: are these the tables that test/peers writes?", name, t.title)
			}
		}
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("no table of transports: are these the tables that test/peers writes?")
	}
	return tables, nil
}

// add reads a row.
func (t *peerTable) add(cells []string) error {
	for _, c := range cells[1:min(len(cells), 1+len(t.drops))] {
		limit, cut := strings.CutPrefix(c, "> ")
		v, err := strconv.ParseFloat(limit, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", cells[0], err)
		}
		if cut {
			v = stopped
		}
		t.rows[cells[0]] = append(t.rows[cells[0]], v)
	}
	return nil
}

func peersFigure(tables []peerTable) *figures.Figure {
	c := figures.Chart{
		Name:     "peers",
		Title:    "Completion time over the ideal, beside TCP, QUIC and SRT",
		Subtitle: "1 Gbit/s, 25 ms, real sockets, an emulated link; docs/results/peers.md has the tables and how they were measured",
	}
	for _, t := range tables {
		p := figures.ChartPanel{
			Title: t.title,
			X:     figures.ChartAxis{Label: "drop rate per packet", Quantity: "drop", Format: formatDrop},
			Y: figures.ChartAxis{
				Label: "time / ideal", Quantity: "time_over_ideal", Ticks: []float64{1, 2, 5, 10, 20, 50, 100, stopped}, Format: formatMultiple,
			},
		}
		for _, d := range t.drops {
			p.X.Ticks = append(p.X.Ticks, max(d, noDrops))
		}
		for _, name := range peerLines {
			p.Lines = append(p.Lines, figures.Series{Name: name, X: slices.Clone(p.X.Ticks), Y: t.rows[name]})
		}
		c.Panels = append(c.Panels, p)
	}
	return c.Figure()
}

func formatMultiple(v float64) string {
	if v == stopped {
		return "stopped"
	}
	return fmt.Sprint(v)
}

func formatDrop(p float64) string {
	if p == noDrops {
		return "0"
	}
	return strings.Replace(strconv.FormatFloat(p, 'e', 0, 64), "e-0", "e-", 1)
}
