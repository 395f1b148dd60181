// SPDX-License-Identifier: Apache-2.0

// Package model predicts how long a reliable RDMA write takes over a long, lossy link.
//
// It implements the completion-time model of the SDR-RDMA paper (SC '25, section 4.2) and its
// supplemental derivations, worked out anew in the comments of sr_mean.go (appendix A),
// ec_code.go (appendix B) and allreduce.go (appendix C), and adds what go-sdr does beyond it:
// repeats that take channel time, erasure coding that asks only for what decoding lacks, and the
// adaptive scheme.
//
//	link := model.Transfer{
//		Rate: 400 * units.Gbit, RTT: 25 * units.Millisecond,
//		Size: 128 * units.MiB, Unit: 64 * units.KiB,
//		Drop: model.PacketDrop(1e-5).Unit(16),
//	}
//	r, err := model.Simulate(model.SR{Alpha: 2}, link, model.Options{Seed: 1})
//	fmt.Println(r.Mean().Value, r.Quantile(0.999).Value)
//
// Each [Scheme] ([SR], [EC], [Adaptive]) has two independent implementations: [Simulate] draws
// samples and gives quantiles, [Mean] integrates a closed form. They agree within 5 % (tested;
// mostly within 1 %) where up to a tenth of the units is lost, up to 0.3 where injecting a unit is
// short against the RTT, and beyond where the message has tens of thousands of units. Of few units that
// are injected more slowly and lost more often, closed forms are wrong, by a multiple at worst: they
// spread what repeats take of the channel evenly. The simulation skips from one drop to the next, so
// a sample costs in the order of its drops, not of its units.
//
// Completion time runs from the sender's post, with receives posted and their clear-to-send at
// the sender, to the final acknowledgement at the sender. The ideal is Size/Rate + RTT.
//
// A drop probability is always either a [PacketDrop] or a [UnitDrop]: with 16 packets in a unit
// the two differ by a factor of 16.
//
// # Limits
//
// Drops are equally likely for every unit, and independent unless [Transfer.Burst] says that they come in
// bursts, which closed forms don't know; there is no congestion, queueing or
// reordering, and coding takes no time. Headers aren't counted: scale the rate by
// payload/(payload+headers) to include them.
package model
