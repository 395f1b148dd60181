// SPDX-License-Identifier: Apache-2.0

// Package softswitch is a switch port in software: a bottleneck with a real queue on a real wire, to try out what a
// switch that trims (DCP, SIGCOMM 2025) does to real endpoints, without one.
//
// A [Port] is the queue: it decides about each frame by package switchfn/trim, as the switches of the simulated fabric do,
// has their two queues, for data and for header-only packets, and their scheduler, deficit round robin by the weight of
// fabric.Trim; it marks ECN-capable packets (RFC 3168), and its clock is an argument. A [Switch] moves frames between two Ethernet
// interfaces through a Port in each direction, by AF_PACKET sockets. Header-only packets are 74 bytes for writes over
// IPv4, whatever fabric.Trim.Header says, unless that is more than trim.HeaderSize: a switch of today leaves 256.
//
// # Limits
//
// Two interfaces; a switch, not a router: nothing but frames, and those without a VLAN tag, as others have lost theirs when a packet
// socket gets them, and are left alone, uncounted. Offloads of the interfaces are the user's affair: a frame
// that is longer than MaxFrame, which the kernel would have cut up on its way out, is dropped and counted, so set
// gso_max_segs to 1 at both hosts. Checksums that the kernel has left for later stay so. A few hundred
// thousand packets a second on one processor.
package softswitch
