// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

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

// A trailer follows the content: the SHA-256 and the permissions of the original.
type trailer struct {
	sum  []byte
	mode fs.FileMode
}

func (t *trailer) encode() []byte {
	return binary.BigEndian.AppendUint16(append([]byte(nil), t.sum...), uint16(t.mode.Perm()))
}

func (t *trailer) parse(b []byte) error {
	if len(b) != sha256.Size+2 {
		return errors.New("the sender says something else than a hash: run the same release at both ends")
	}
	t.sum, t.mode = b[:sha256.Size], fs.FileMode(binary.BigEndian.Uint16(b[sha256.Size:])).Perm()
	return nil
}
