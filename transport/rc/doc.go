// SPDX-License-Identifier: Apache-2.0

// Package rc holds the transports of NICs with reliable connections: what is left of RC for one
// message of RDMA writes.
//
//   - GBN is go-back-N as in the IBTA specification (9.7.5) and on ConnectX-5: the receiver takes
//     packets in order only and sends one NAK for each gap; the sender starts again there.
//
//   - IRN is selective repeat with a window of one bandwidth-delay product: Mittal et al.,
//     "Revisiting Network Support for RDMA", SIGCOMM 2018.
//
//   - Timeout is what NICs do whose switches spray: packets are placed in any order, nothing but a timeout
//     tells of a loss, and the sender then starts again at the first packet that is missing (Li et al., "Revisiting
//     RDMA Reliability for Lossy Fabrics", SIGCOMM 2025, section 6.3).
//
// All take a congestion.Controller, and act as its reaction point; their receivers are DCQCN's
// notification point (Zhu et al., SIGCOMM 2015, section 3.1).
package rc
