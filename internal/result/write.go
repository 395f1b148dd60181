// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Write writes results as JSON to a file, or to stdout for "-". They may be a program's own, such as predictions or a Result and what
// goes with it.
func Write(stdout io.Writer, path string, results any) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return WriteData(stdout, path, append(data, '\n'))
}

// WriteData writes what a program has in another form to a file, or to stdout for "-".
func WriteData(stdout io.Writer, path string, data []byte) error {
	if path == "-" {
		_, err := stdout.Write(data)
		return err
	}
	return WriteFile(path, data)
}

// WriteFile makes a file that appears whole or not at all, with the permissions of the one that it replaces. What can't be replaced it
// writes to: what is no regular file, such as /dev/null or a link, and a file in a folder in which the user may make none.
func WriteFile(path string, data []byte) error {
	old, err := os.Lstat(path)
	exists := err == nil
	if exists && !old.Mode().IsRegular() {
		return os.WriteFile(path, data, newMode)
	}
	tmp, err := beside(path)
	if exists && isFixed(err) {
		return os.WriteFile(path, data, newMode)
	}
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if exists && err == nil {
		err = tmp.Chmod(old.Mode().Perm())
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(tmp.Name()) // the first error is the one to report
	if exists && isFixed(err) {
		return os.WriteFile(path, data, newMode)
	}
	return ofUser(path, err)
}

// ofUser makes an error of a temporary file one of path, which is what the user wrote.
func ofUser(path string, err error) error {
	var file *fs.PathError
	var name *os.LinkError
	switch {
	case errors.As(err, &file):
		err = file.Err
	case errors.As(err, &name):
		err = name.Err
	}
	return fmt.Errorf("write %s: %w", path, err)
}

// newMode is that of a new file, of which the user's umask takes away.
const newMode = 0o666

// isFixed reports whether err says that names in a folder can't be changed, whatever may be done to its files: its permissions, a file system
// that is only read, a file that is a mount point.
func isFixed(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EBUSY)
}

// beside makes a temporary file in the folder of path.
func beside(path string) (*os.File, error) {
	for n := 0; ; n++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".sdr-%d", n))
		tmp, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newMode)
		if errors.Is(err, fs.ErrExist) { // of another program, now or before it was killed
			continue
		}
		if err != nil {
			return nil, ofUser(path, err)
		}
		return tmp, nil
	}
}

// CheckWritable fails where [WriteFile] would, for what takes long before, or where a file is named twice, and leaves files as they
// are. "" and "-" are no files.
func CheckWritable(paths ...string) error {
	for i, path := range paths {
		if path == "" || path == "-" {
			continue
		}
		if err := checkWritable(path); err != nil {
			return err
		}
		if !slices.Contains(paths[:i], path) {
			continue
		}
		if target, err := os.Stat(path); err != nil || target.Mode().IsRegular() {
			return fmt.Errorf("write %s: it is named twice, and one result would replace the other: name two files", path)
		}
	}
	return nil
}

func checkWritable(path string) error {
	target, err := os.Stat(path)
	switch found := err == nil; {
	case found && target.IsDir():
		return fmt.Errorf("write %s: it is a folder", path)
	case found && !target.Mode().IsRegular():
		return nil
	}
	old, err := os.Lstat(path)
	exists := err == nil
	if exists && !old.Mode().IsRegular() {
		if target == nil {
			return nil // a link to what isn't there yet
		}
		return checkOpen(path)
	}
	tmp, err := beside(path)
	if exists && isFixed(err) {
		return checkOpen(path)
	}
	if err != nil {
		return err
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// checkOpen fails where a file that exists can't be written to.
func checkOpen(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
