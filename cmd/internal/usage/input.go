// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"io"
	"os"

	"github.com/sdr-rdma/go-sdr/units"
)

// maxInput bounds what Input reads.
const maxInput = 256 * units.MiB

// Input reads a file that the call names, or stdin where that is "-", up to 256 MiB, and returns what to call it in errors.
func Input(stdin io.Reader, path string) (data []byte, name string, err error) {
	in, name := stdin, "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, path, err
		}
		defer file.Close() //nolint:errcheck // opened for reading
		in, name = file, path
	}
	data, err = io.ReadAll(io.LimitReader(in, int64(maxInput)+1))
	if err == nil && len(data) > int(maxInput) {
		err = fmt.Errorf("%s: it has more than %v", name, maxInput)
	}
	return data, name, err
}
