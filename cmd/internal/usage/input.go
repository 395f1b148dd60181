// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/sdr-rdma/go-sdr/units"
)

// maxInput bounds what Input reads.
const maxInput = 256 * units.MiB

// TwoInputs refuses two files for Input that are both stdin, which is read once.
func TwoInputs(a, b string) error {
	if a == "-" && b == "-" {
		return Errorf("only one of the two can be -, standard input")
	}
	return nil
}

// Input reads a file that the call names, or stdin where that is "-", up to 256 MiB, and returns what to call it in errors. It is a mistake in
// the call that there is no such file, or that it is a directory or longer, and none that reading fails.
func Input(stdin io.Reader, path string) (data []byte, name string, err error) {
	in, name := stdin, "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, path, Wrap(err)
		}
		defer file.Close() //nolint:errcheck // opened for reading
		in, name = file, path
	}
	data, err = io.ReadAll(io.LimitReader(in, int64(maxInput)+1))
	switch {
	case errors.Is(err, syscall.EISDIR):
		err = Wrap(err)
	case err == nil && len(data) > int(maxInput):
		err = Errorf("%s: it has more than %v", name, maxInput)
	}
	return data, name, err
}
