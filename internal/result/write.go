// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"io"
	"os"
)

// Write writes results as JSON to a file, or to stdout for "-". They may be a program's own, such as predictions or a Result and what
// goes with it.
func Write(stdout io.Writer, path string, results any) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if path == "-" {
		_, err = stdout.Write(data)
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
