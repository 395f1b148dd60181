// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/units"
)

// AddFlags adds flags by which the user of a program sets c: --device, --scheme, --addr, --udp-port, --silence, and
// those of an emulated link (linkemu.Config). What c holds is their default.
func (c *Config) AddFlags(f *flag.FlagSet) {
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	f.StringVar(&c.Device, "device", c.Device, "`name` of an RDMA device of the kernel, such as rxe0 or rc:rxe0 (default: user-space RoCEv2)")
	f.Func("scheme", "reliability `scheme`, the same at both ends: "+strings.Join(schemes.Names(), ", ")+" (default adaptive)", func(name string) error {
		c.Scheme = func() (scheme.Scheme, error) { return schemes.New(name, schemes.Params{}) }
		return schemes.Known(name)
	})
	f.TextVar(&c.Addr, "addr", c.Addr, "local `IP` for RDMA packets (default: where the TCP connection ends)")
	f.Func("udp-port", "local UDP `port` for RDMA packets, or any (default: for who listens 4791 if it is free, else any)", func(text string) (err error) {
		c.UDPPort, err = parsePort(text)
		return err
	})
	f.Var((*units.DurationValue)(&c.Silence), "silence", "give up when the peer is silent, or nothing arrives, for so long")
	c.Link.AddFlags(f)
}

func parsePort(text string) (uint16, error) {
	if text == "any" {
		return userroce.AnyPort, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || uint16(port) == userroce.AnyPort {
		return 0, fmt.Errorf("give a number from 1 to %d, or any", userroce.AnyPort-1)
	}
	return uint16(port), nil
}
