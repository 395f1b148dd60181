// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/sdr-rdma/go-sdr/units"
)

// hashFile is the SHA-256 of the first size bytes of f.
func hashFile(f io.ReaderAt, size units.Bytes) ([]byte, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(h, io.NewSectionReader(f, 0, int64(size)), make([]byte, units.MiB))
	if err == nil && n != int64(size) {
		err = fmt.Errorf("the file has become shorter: %d bytes are left of %d", n, size)
	}
	return h.Sum(nil), err
}
