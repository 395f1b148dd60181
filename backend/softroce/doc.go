// SPDX-License-Identifier: Apache-2.0

// Package softroce opens a Soft-RoCE device, the kernel's own RoCEv2 over any network interface
// (rdma_rxe), as a backend.Device:
//
//	dev, err := softroce.Open(softroce.Config{Netdev: "eth0"})
//	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
//
// It takes the rxe device that the interface has, or makes one, which needs CAP_NET_ADMIN, and takes
// it away again in Close. Where something is missing, the error names it: the module, the privilege,
// the address, the interface's MTU. All the rest is package uc.
package softroce
