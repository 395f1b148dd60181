// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/cmd/internal/pcap"
)

// A capture is a pcap file being written. Without one everything does nothing.
type capture struct {
	file *os.File
	out  *pcap.Writer
}

func newCapture(path string) (*capture, error) {
	if path == "" {
		return &capture{}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w, err := pcap.NewWriter(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &capture{f, w}, nil
}

// wire is what a device is to show its packets to, nil for nothing.
func (c *capture) wire() backend.Wire {
	if c == nil || c.out == nil {
		return nil
	}
	return c.out
}

// close completes the file; the device must be closed.
func (c *capture) close() error {
	if c.out == nil {
		return nil
	}
	err := c.out.Flush()
	if cerr := c.file.Close(); err == nil {
		err = cerr
	}
	return err
}
