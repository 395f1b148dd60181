// SPDX-License-Identifier: Apache-2.0

// Package topo describes the wiring of a network: hosts, switches, and the links between them.
//
// A [Graph] comes from a builder ([Star], [LeafSpine], [FatTree], [DC2]), from a specification in one
// line ([Parse]), or from a file of HPCC's and ns-3's ([ReadNS3]) or htsim's ([ReadHtsim]) format. It
// says nothing of queues, routes or time: package fabric builds ports and routes from it.
package topo
