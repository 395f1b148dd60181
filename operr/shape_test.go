// SPDX-License-Identifier: Apache-2.0

package operr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	schemestrack "github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestOneShape: packages that check what they are given, and do nothing else that can fail, say what is wrong as an
// Error, too.
func TestOneShape(t *testing.T) {
	second := func(_ any, err error) error { return err }
	star, err := topo.Star(2, topo.Wire{Rate: units.Gbit})
	require.NoError(t, err)
	for name, err := range map[string]error{
		"congestion.Parse":       second(congestion.Parse("fast")),
		"congestion.Parse, n=x":  second(congestion.Parse("swift:ai=x")),
		"congestion.Swift":       second(congestion.Swift(congestion.SwiftConfig{BaseTarget: -1})),
		"congestion.DCQCN":       second(congestion.DCQCN(congestion.DCQCNConfig{G: 2})),
		"congestion.HPCC":        second(congestion.HPCC(congestion.HPCCConfig{Eta: 2})),
		"congestion.STrack":      second(congestion.STrack(congestion.STrackConfig{Gamma: 2})),
		"dpa.Split.Check":        dpa.Split{}.Check(),
		"fabric.New":             second(fabric.New(star, fabric.Config{MTU: -1})),
		"fabric.New, topology":   second(fabric.New(&topo.Graph{}, fabric.Config{})),
		"des.Config.Validate":    des.Config{Shift: 99}.Validate(),
		"topo.Graph.Validate":    new(topo.Graph).Validate(),
		"topo.Parse":             second(topo.Parse("leafspine:0x1x1")),
		"topo.Parse, kind":       second(topo.Parse("ring")),
		"topo.ReadNS3":           second(topo.ReadNS3(strings.NewReader("x"))),
		"topo.ReadHtsim":         second(topo.ReadHtsim(strings.NewReader("x"))),
		"workload.Validate":      workload.Validate([]workload.Flow{{}}, func(int) bool { return true }),
		"workload.Parse":         second(workload.Parse("x", workload.Env{})),
		"workload.Incast":        second(workload.Incast(nil, 1, 0, 1, 0, 1)),
		"workload.Bursts":        second(workload.Bursts{}.Flows(nil, 1)),
		"workload.Jobs":          second(workload.Jobs{}.Flows(nil, 1)),
		"workload.ReadCDF":       second(workload.ReadCDF(strings.NewReader("x"))),
		"model.Transfer":         model.Transfer{}.Validate(),
		"rc.Config.Validate":     (&rc.Config{Mode: 99}).Validate(),
		"strack.Config.Validate": (&strack.Config{Paths: -1}).Validate(),
	} {
		var e *operr.Error
		require.ErrorAs(t, err, &e, name)
		require.NotEmpty(t, e.Op, name)
		require.NotEmpty(t, e.Object, name)
	}
}

// TestArguments: what a connection is configured with says by one error that an argument is wrong, and which.
func TestArguments(t *testing.T) {
	second := func(_ any, err error) error { return err }
	invalid := map[string]error{
		"sr.New":              second(sr.New(sr.Config{Alpha: -1})),
		"sr.New, mode":        second(sr.New(sr.Config{Mode: 9})),
		"ec.New":              second(ec.New(ec.Config{Code: ec.MDS, K: 4, M: 5})),
		"adaptive.New":        second(adaptive.New(adaptive.Config{MinTimeout: -1})),
		"strack.New":          second(schemestrack.New(schemestrack.Config{AckUnits: -1})),
		"schemes.New":         second(schemes.New("fast", schemes.Params{})),
		"schemes.New, code":   second(schemes.New("ec-mds", schemes.Params{Code: schemes.Code{K: 1, M: 2}})),
		"sdrnet.Config":       (&sdrnet.Config{Window: 1000}).Validate(),
		"sdrnet.Config, link": (&sdrnet.Config{Link: linkemu.Config{Drop: 2}}).Validate(),
		"sdrnet.Listen":       second(sdrnet.Listen("127.0.0.1:0", &sdrnet.Config{Rate: -1})),
		"sdrnet.Dial":         second(sdrnet.Dial(t.Context(), "127.0.0.1:1", &sdrnet.Config{Silence: 1})),
	}
	for name, err := range invalid {
		var e *operr.Error
		require.ErrorAs(t, err, &e, name)
		require.ErrorIs(t, err, sdr.ErrArgument, name)
		require.Equal(t, 1, strings.Count(err.Error(), sdr.ErrArgument.Error()), err.Error())
	}
}
