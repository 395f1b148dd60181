// SPDX-License-Identifier: Apache-2.0

package debian

import (
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
