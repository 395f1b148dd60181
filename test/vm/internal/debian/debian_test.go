// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKernelPackagesOfOneAndOfSplitOnes(t *testing.T) {
	meta := `Package: linux-image-amd64
Version: 7.3.4-1~bpo13+1
Depends: linux-base-amd64 (= 7.3.4-1~bpo13+1), linux-image-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), linux-modules-amd64 (= 7.3.4-1~bpo13+1)

Package: linux-image-amd64
Version: 7.2.13-1
Depends: linux-base-amd64 (= 7.2.13-1), linux-image-7.2.13+deb14-amd64 (= 7.2.13-1)
`
	image := `Package: linux-image-7.3.4+deb13-amd64
Depends: dracut | initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool, linux-base-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), linux-binary-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), linux-modules-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1)
Pre-Depends: linux-base (>= 4.17~)
`
	whole := `Package: linux-image-6.1.0-50-amd64
Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool
`
	assert.Equal(t, []string{"linux-image-7.3.4+deb13-amd64"}, dependsOf(meta, imagePackage))
	assert.Equal(t, []string{"linux-base-7.3.4+deb13-amd64", "linux-binary-7.3.4+deb13-amd64", "linux-modules-7.3.4+deb13-amd64"},
		dependsOf(image, splitPackage))
	assert.Empty(t, dependsOf(whole, splitPackage))
}

func TestFirstVersion(t *testing.T) {
	v, err := firstVersion(`linux-image-amd64 | 7.3.4-1~bpo13+1 | http://archive.example/debian trixie-backports/main amd64 Packages
linux-image-amd64 |   7.2.13-1 | http://archive.example/debian sid/main amd64 Packages
`, "linux-image-amd64")
	require.NoError(t, err)
	assert.Equal(t, "7.3.4-1~bpo13+1", v)
	_, err = firstVersion("", "linux-image-amd64")
	assert.EqualError(t, err, "the archive has no linux-image-amd64")
}

// TestListsAreFetchedEachTime: an archive that didn't answer is asked again, and so is one that did, as it may have other packages by
// now. Like apt's, this apt-get takes what it couldn't fetch for a warning unless it is told otherwise.
func TestListsAreFetchedEachTime(t *testing.T) {
	dir := t.TempDir()
	const aptGet = `#!/bin/sh
cd "${0%/*}"
echo "$*" >> calls
[ -e reachable ] && exit 0
echo "E: Failed to fetch the list" >&2
case "$*" in *APT::Update::Error-Mode=any*) exit 100 ;; esac
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "apt-get"), []byte(aptGet), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	open := func() error {
		_, err := Open(t.Context(), filepath.Join(dir, "root"), "http://archive.example/debian", "amd64", Bookworm)
		return err
	}
	require.ErrorContains(t, open(), "Failed to fetch the list")
	require.ErrorContains(t, open(), "Failed to fetch the list")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "reachable"), nil, 0o644))
	require.NoError(t, open())
	require.NoError(t, open())
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(calls), " update\n"), "%s", calls)
}
