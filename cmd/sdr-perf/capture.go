// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/cmd/internal/pcap"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// A capture is a pcap file that is written from the first packet on: until then a file of that name stays as it is. Without one everything
// does nothing.
type capture struct {
	file *os.File
	made bool // there was none of its name

	begin sync.Once
	out   *pcap.Writer // nil until the first packet
	err   error        // of beginning
}

func newCapture(path string) (*capture, error) {
	if path == "" {
		return &capture{}, nil
	}
	_, err := os.Lstat(path)
	made := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, usage.Errorf("--pcap: %w", err)
	}
	return &capture{file: f, made: made}, nil
}

// wire is what a device is to show its packets to, nil for nothing.
func (c *capture) wire() backend.Wire {
	if c == nil || c.file == nil {
		return nil
	}
	return c
}

// Outbound implements backend.Wire.
func (c *capture) Outbound(batch []backend.WirePacket) {
	if c.begin.Do(c.empty); c.out != nil {
		c.out.Outbound(batch)
	}
}

// Inbound implements backend.Wire.
func (c *capture) Inbound(batch []backend.WirePacket) {
	if c.begin.Do(c.empty); c.out != nil {
		c.out.Inbound(batch)
	}
}

// empty takes from the file what it had, and begins it anew.
func (c *capture) empty() {
	fi, err := c.file.Stat()
	if err == nil && fi.Mode().IsRegular() { // and no pipe
		err = c.file.Truncate(0)
	}
	if err == nil {
		c.out, err = pcap.NewWriter(c.file)
	}
	c.err = err
}

// close completes the file, or removes one that was made for no packet; the device must be closed.
func (c *capture) close() error {
	if c.file == nil {
		return nil
	}
	err := c.err
	if c.out != nil {
		err = c.out.Flush()
	}
	if cerr := c.file.Close(); err == nil {
		err = cerr
	}
	if c.made && c.out == nil && err == nil {
		err = os.Remove(c.file.Name())
	}
	return err
}
