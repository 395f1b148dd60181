// SPDX-License-Identifier: Apache-2.0

// Package headers finds FlexIO's public headers, which come with NVIDIA's DOCA, for tests that compile against them.
package headers

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	// Variable names the environment variable with the folder of the headers, which has libflexio and libflexio-dev.
	Variable = "FLEXIO_INCLUDE"
	// Installed is where DOCA's packages put them.
	Installed = "/opt/mellanox/flexio/include"
)

// Find returns the folder that has a header, such as libflexio/flexio.h: that of Variable, if it is set, which must have it,
// else Installed, else standIn, which declares what is used of the header.
func Find(name, standIn string) (dir string, err error) {
	if dir = os.Getenv(Variable); dir != "" {
		if _, err = os.Stat(filepath.Join(dir, name)); err != nil {
			err = fmt.Errorf("%s=%s: no %s there: give the folder that has libflexio and libflexio-dev, with DOCA %s: %w", Variable, dir, name, Installed, err)
		}
		return dir, err
	}
	if _, err = os.Stat(filepath.Join(Installed, name)); err == nil {
		return Installed, nil
	}
	return standIn, nil
}
