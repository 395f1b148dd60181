// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/units"
)

// A Prediction is what a scheme does with a transfer.
type Prediction struct {
	Scheme   Scheme
	Transfer Transfer
	Result   *Result
}

// Slowdown returns the average and the 99.9th percentile of completion time over the ideal.
func (p Prediction) Slowdown() (avg, p999 float64) {
	ideal := float64(p.Transfer.Ideal())
	return float64(p.Result.Mean().Value) / ideal, float64(p.Result.Quantile(0.999).Value) / ideal
}

// ParityUnits returns how many parity units a scheme sends with a transfer whose losses need no more of
// them: those of the split, for [Adaptive] the planned ones. It fails with [ErrRange].
func ParityUnits(s Scheme, t Transfer) (int64, error) {
	if err := validate(s, t); err != nil {
		return 0, err
	}
	switch s := s.(type) {
	case EC:
		groups, full, last := s.split(t)
		return (groups-1)*full.m + last.m, nil
	case Adaptive:
		c := s.defaults().choose(t)
		return c.Groups * c.M, nil
	}
	return 0, nil // repeats only
}

// Negligible is the difference below which [Recommend] prefers the simpler scheme: 2 %.
const Negligible = 0.02

// Recommend picks a scheme for one size from predictions of several, each at the same drop
// probabilities: the simplest whose average and 99.9th percentile are everywhere within Negligible of
// the best, or else the one whose worst excess is least. simplest names the schemes in that order.
// why is one sentence. Predictions of schemes that simplest lacks are ignored.
func Recommend(predictions []Prediction, simplest []string) (name, why string) {
	worst := worstExcess(predictions)
	best, first := "", "" // the recommended scheme, and the simplest
	for _, s := range simplest {
		w, ok := worst[s]
		if !ok {
			continue
		}
		if first == "" {
			first = s
		}
		if w <= Negligible {
			best = s
			break
		}
		if best == "" || w < worst[best] {
			best = s
		}
	}
	why = explain(predictions, best)
	switch {
	case best == "" || worst[best] > Negligible:
	case best == first:
		why += fmt.Sprintf("; it is the simplest, and within %g %% of the best", 100*Negligible)
	default:
		why += fmt.Sprintf("; nothing simpler is within %g %% of the best", 100*Negligible)
	}
	return best, why
}

// worstExcess returns for each scheme how far its average or 99.9th percentile is above the best
// one's, at the drop probability where that is most.
func worstExcess(predictions []Prediction) map[string]float64 {
	type pair struct{ avg, p999 float64 }
	best := map[UnitDrop]pair{}
	for _, p := range predictions {
		avg, p999 := p.Slowdown()
		if b, ok := best[p.Transfer.Drop]; ok {
			avg, p999 = min(avg, b.avg), min(p999, b.p999)
		}
		best[p.Transfer.Drop] = pair{avg, p999}
	}
	worst := map[string]float64{}
	for _, p := range predictions {
		avg, p999 := p.Slowdown()
		b := best[p.Transfer.Drop]
		worst[p.Scheme.Name()] = max(worst[p.Scheme.Name()], avg/b.avg-1, p999/b.p999-1)
	}
	return worst
}

func explain(predictions []Prediction, best string) string {
	i := slices.IndexFunc(predictions, func(p Prediction) bool { return p.Scheme.Name() == best })
	if i < 0 {
		return ""
	}
	most := predictions[i] // the recommended scheme where drops are most frequent
	for _, p := range predictions {
		if p.Scheme.Name() == best && p.Transfer.Drop > most.Transfer.Drop {
			most = p
		}
	}
	t := most.Transfer
	avg, p999 := most.Slowdown()
	why := fmt.Sprintf("%s: average %.2fx and 99.9th percentile %.2fx of ideal with up to %s per transfer; ",
		best, avg, p999, lostUnits(float64(t.Units())*float64(t.Drop)))
	text := units.FormatDuration
	switch inject := t.Rate.Time(t.Size); {
	case t.Drop == 0:
		why += "without loss all schemes but those with parity are ideal"
	case float64(inject) > 4*float64(t.RTT):
		why += fmt.Sprintf("injecting takes %s, long against the RTT of %s, so repeats hide behind it and parity costs its full share", text(inject), text(t.RTT))
	case inject > t.RTT:
		why += fmt.Sprintf("injecting takes %v, not many times the RTT of %v, so only early repeats hide behind it", text(inject), text(t.RTT))
	default:
		why += fmt.Sprintf("injecting takes only %v against an RTT of %v, so a repeat can't hide behind it", text(inject), text(t.RTT))
	}
	return why
}

// lostUnits prints an average number.
func lostUnits(x float64) string {
	s := fmt.Sprintf("%.2g", x)
	if x >= 10 {
		s = fmt.Sprintf("%.0f", x)
	}
	if s == "1" {
		return s + " lost unit"
	}
	return s + " lost units"
}
