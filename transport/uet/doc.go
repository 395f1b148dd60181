// SPDX-License-Identifier: Apache-2.0

// Package uet is a transport like that of Ultra Ethernet's reliable unordered delivery with trimming switches, as far as
// its congestion control needs one: a path for each packet, a window, selective acknowledgements, a negative
// one for each trimmed packet, and a timeout for what not even a header tells of.
//
// It exists to hold congestion.NSCC against the stored results of the simulator of that consortium
// (docs/results/strack.md). Credits, connections and message semantics of the specification are not here.
//
// The receiver answers the first packet, one that was marked, one whose sender asks for it, and each 16 KiB. A sender asks
// with a packet that fills its window, with its last one, and with repeats: without that it would wait for the rest
// of 16 KiB.
package uet
