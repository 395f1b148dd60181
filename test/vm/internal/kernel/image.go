// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Offsets of the x86 boot protocol's setup header (Documentation/arch/x86/boot.rst).
const (
	setupSects    = 0x1f1
	headerMagic   = 0x202
	payloadOffset = 0x248
	payloadLength = 0x24c
)

// imageMagic is at offset imageMagicAt of what is booted on arm64 (Documentation/arch/arm64/booting.rst).
const (
	imageMagic   = "ARM\x64"
	imageMagicAt = 56
)

func isImage(b []byte) bool {
	return len(b) >= imageMagicAt+len(imageMagic) && string(b[imageMagicAt:imageMagicAt+len(imageMagic)]) == imageMagic
}

// ownImage is a kernel that has all in itself.
func ownImage(path string) (*Kernel, error) {
	b, err := os.ReadFile(path)
	switch {
	case err != nil:
		return nil, err
	case isImage(b):
		return &Kernel{Release: filepath.Base(path), Arch: ARM64, Image: path}, nil
	case bytes.HasPrefix(b, []byte("\x7fELF\x02")):
		return &Kernel{Release: filepath.Base(path), Arch: AMD64, Image: path}, nil
	}
	return nil, fmt.Errorf("%s is neither an Image of arm64 nor a vmlinux of amd64", path)
}

// writeImage writes what the emulator boots: of amd64 the ELF image, of arm64 the file as it is.
func writeImage(ctx context.Context, arch, vmlinuz, out string) error {
	if arch == AMD64 {
		return uncompress(ctx, vmlinuz, out)
	}
	b, err := os.ReadFile(vmlinuz)
	if err != nil {
		return err
	}
	if !isImage(b) {
		return fmt.Errorf("%s is no Image of arm64, or a compressed one", vmlinuz)
	}
	return os.WriteFile(out, b, 0o644)
}

// uncompress writes the ELF image inside a bzImage. Emulated, a kernel that unpacks itself takes
// 2.8 s more to boot; QEMU starts the ELF image through its PVH entry.
func uncompress(ctx context.Context, vmlinuz, out string) error {
	b, err := os.ReadFile(vmlinuz)
	if err != nil {
		return err
	}
	payload, err := payload(b)
	if err != nil {
		return fmt.Errorf("%s: %w", vmlinuz, err)
	}
	var cmd *exec.Cmd
	switch {
	case bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")):
		cmd = exec.CommandContext(ctx, "xz", "-dcq", "--single-stream")
	case bytes.HasPrefix(payload, []byte("\x28\xb5\x2f\xfd")):
		cmd = exec.CommandContext(ctx, "zstd", "-dcq")
	default:
		return fmt.Errorf("%s is compressed with neither xz nor zstd", vmlinuz)
	}
	cmd.Stdin = bytes.NewReader(payload)
	// The payload ends with the length of the image, which the tools take for garbage: they have
	// written everything by then, so the result decides, not their status.
	image, err := cmd.Output()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return fmt.Errorf("unpack the kernel: %w (apt-get install xz-utils zstd)", err)
	}
	if want := binary.LittleEndian.Uint32(payload[len(payload)-4:]); uint32(len(image)) != want {
		return fmt.Errorf("%s unpacked to %d bytes instead of %d: %w", vmlinuz, len(image), want, err)
	}
	if !bytes.HasPrefix(image, []byte("\x7fELF")) {
		return fmt.Errorf("%s holds no ELF image", vmlinuz)
	}
	return os.WriteFile(out, image, 0o644)
}

// payload cuts the compressed image out of a bzImage.
func payload(b []byte) ([]byte, error) {
	if len(b) < 0x1000 || string(b[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	sects := int(b[setupSects])
	if sects == 0 {
		sects = 4
	}
	start := (sects+1)*512 + int(binary.LittleEndian.Uint32(b[payloadOffset:]))
	length := int(binary.LittleEndian.Uint32(b[payloadLength:]))
	if length < 8 || start+length > len(b) {
		return nil, errors.New("bzImage with a payload outside the file")
	}
	return b[start : start+length], nil
}
