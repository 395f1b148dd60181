// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	return WriteFile(path, data)
}

// WriteFile makes a file that appears whole or not at all. What is no file, such as /dev/null, it writes to.
func WriteFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	tmp, err := beside(path)
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if e := tmp.Chmod(0o644); err == nil {
		err = e
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one to report
	}
	return err
}

// beside makes a temporary file in the folder of path. Its error names path, which is what the user wrote.
func beside(path string) (*os.File, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".sdr-*")
	var of *os.PathError
	if errors.As(err, &of) {
		return nil, fmt.Errorf("write %s: %w", path, of.Err)
	}
	return tmp, err
}

// CheckWritable fails where [WriteFile] would, for what takes long before, and leaves files as they are. "" and "-" are no files.
func CheckWritable(paths ...string) error {
	for _, path := range paths {
		if path == "" || path == "-" {
			continue
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			if info.IsDir() {
				return fmt.Errorf("write %s: it is a folder", path)
			}
			continue
		}
		tmp, err := beside(path)
		if err != nil {
			return err
		}
		if err := errors.Join(tmp.Close(), os.Remove(tmp.Name())); err != nil {
			return err
		}
	}
	return nil
}
