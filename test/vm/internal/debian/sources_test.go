// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func etc(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	return dir
}

func TestSourcesOfDeb822(t *testing.T) {
	dir := etc(t, map[string]string{"sources.list.d/debian.sources": `Types: deb
# a comment: with a colon
URIs: http://archive.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /keys/debian.gpg

Types: deb
URIs: http://archive.example/debian-security
Suites: trixie-security
Components: main
`, "sources.list.d/other.sources": "Types: deb\nURIs: http://other.example/\nSuites: nodistro\nComponents: main\n"})
	got, err := sources("", dir, Bookworm)
	require.NoError(t, err)
	assert.Equal(t, `Types: deb
URIs: http://archive.example/debian
Suites: bookworm bookworm-backports
Components: main
Signed-By: /keys/debian.gpg

Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`, got)
}

// TestSourcesOfNewest: suites without security updates, from a machine that has them.
func TestSourcesOfNewest(t *testing.T) {
	dir := etc(t, map[string]string{"sources.list": `deb http://archive.example/debian bookworm main
deb http://archive.example/debian-security bookworm-security main
`})
	got, err := sources("", dir, Newest)
	require.NoError(t, err)
	assert.Contains(t, got, "Suites: trixie-backports sid\n")
	assert.NotContains(t, got, "security")
}

func TestSourcesOfOneLineForm(t *testing.T) {
	dir := etc(t, map[string]string{"sources.list": `# deb http://off.example/debian bookworm main
deb [arch=amd64 signed-by=/keys/k.gpg] http://archive.example/debian bookworm main contrib
`})
	got, err := sources("", dir, Bookworm)
	require.NoError(t, err)
	assert.Contains(t, got, "URIs: http://archive.example/debian\nSuites: bookworm bookworm-backports\n")
	assert.Contains(t, got, "Signed-By: /keys/k.gpg\n")
	assert.NotContains(t, got, "off.example")
}

func TestNoDebianSource(t *testing.T) {
	dir := etc(t, map[string]string{"sources.list": "deb http://archive.example/ubuntu noble main\n"})
	_, err := sources("", dir, Bookworm)
	assert.ErrorIs(t, err, ErrNoSource)
	got, err := sources("http://mirror.example/debian", dir, Bookworm)
	require.NoError(t, err)
	assert.Contains(t, got, "URIs: http://mirror.example/debian\n")
}
