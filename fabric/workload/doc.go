// SPDX-License-Identifier: Apache-2.0

// Package workload makes the traffic that a simulated network carries: lists of [Flow], some of which
// wait for others.
//
// Synthetic traffic comes from functions ([Incast], [Permutation], [Jobs], [Arrivals] …) or from a
// line that names one ([Parse]); collectives become graphs of dependent flows; files of ns-3 and htsim
// are read. Whatever is random is drawn from a seed: the same one gives the same flows everywhere.
package workload
