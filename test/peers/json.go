// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	schema "github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A record is a result in the JSON output; what sdr-perf's has, too, is package result's or named as there.
type record struct {
	Version     int                `json:"version"`
	Name        string             `json:"name"`
	Transport   string             `json:"transport"`
	Cold        bool               `json:"cold"`
	RateFound   bool               `json:"rate_found"`
	SizeBytes   units.Bytes        `json:"size_bytes"`
	Iterations  int                `json:"iterations"`
	Warmup      int                `json:"warmup"`
	Link        linkRecord         `json:"link"`
	IdealNs     time.Duration      `json:"ideal_ns"`
	TimesNs     []int64            `json:"times_ns"`
	AgainNs     []int64            `json:"again_ns"`   // transfers repeated because they were disturbed
	Disturbed   int                `json:"disturbed"`  // of times_ns: the link was late, or the machine kept from running
	StoppedNs   *time.Duration     `json:"stopped_ns"` // null unless the last transfer ran into the limit
	Multiple    *float64           `json:"multiple"`   // average over ideal; null when not measured
	Err         string             `json:"err,omitempty"`
	Software    string             `json:"software,omitempty"`
	Notes       string             `json:"notes,omitempty"`
	Seed        uint64             `json:"seed"`
	Load        string             `json:"load_average"`
	Environment schema.Environment `json:"environment"`
}

type linkRecord struct {
	schema.Link
	MTU  int           `json:"mtu"`
	To   link.Counters `json:"to_receiver"`
	From link.Counters `json:"from_receiver"`
}

func (r *run) record(res *result) record {
	x := record{
		Version: schema.Version, Name: res.name, Transport: res.transport, Cold: res.cold, RateFound: res.ours && res.found,
		SizeBytes: res.size, Iterations: len(res.times), Warmup: res.warmups(r.plan),
		Link: linkRecord{
			Link: schema.Link{RTTNs: 2 * r.delay(), RateBps: r.rate(), Drop: res.drop, Burst: 1, QueueBytes: linkQueue},
			MTU:  linkMTU, To: res.to, From: res.from,
		},
		IdealNs: r.ideal(res.size), TimesNs: []int64{}, AgainNs: []int64{}, Disturbed: res.disturbed, Software: res.version, Notes: res.notes, Seed: r.seed, Load: res.load,
		Environment: schema.Here("(devel)"),
	}
	if res.cold {
		x.Warmup = 0
	}
	for _, t := range res.times {
		x.TimesNs = append(x.TimesNs, t.Nanoseconds())
	}
	for _, t := range res.again {
		x.AgainNs = append(x.AgainNs, t.Nanoseconds())
	}
	if res.stopped {
		x.StoppedNs = &res.limit
	}
	if res.err != nil {
		x.Err = res.err.Error()
	} else if len(res.times) > 0 || res.stopped {
		m := res.average()
		x.Multiple = &m
	}
	return x
}

func (r *run) writeJSON(file string) error {
	records := []record{}
	for _, res := range r.results {
		records = append(records, r.record(res))
	}
	b, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// unavailable: this machine can't measure the row.
func (res *result) unavailable() bool {
	return res.err != nil && transport.Missing(res.transport) != nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
