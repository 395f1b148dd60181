// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// Bookworm is Debian 12: kernel 6.1 is its own, 6.12 its backport, and the programs in the VM are its.
	Bookworm = []string{"bookworm", "bookworm-backports", "bookworm-security"}
	// Newest has the newest kernels that have been released, one of the two before the other.
	Newest = []string{"trixie-backports", "sid"}
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// source is one line or stanza of an apt source list.
type source struct {
	uri    string
	suites []string
	key    string
}

var (
	// deb [signed-by=/path arch=amd64] http://archive/debian bookworm main
	oneLine = regexp.MustCompile(`^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+\S`)
	signed  = regexp.MustCompile(`signed-by=(\S+)`)
)

// sources writes a source list for the suites from the Debian archive that the apt configuration in
// etc uses, whatever release that machine runs. Where it has no archive of security updates, they are
// left out.
func sources(mirror, etc string, suites []string) (string, error) {
	archive, security := source{uri: mirror}, source{}
	if mirror == "" {
		archive, security = debianArchive(readSources(etc))
	}
	if archive.uri == "" {
		return "", ErrNoSource
	}
	var plain, updates []string
	for _, s := range suites {
		if strings.HasSuffix(s, "-security") {
			updates = append(updates, s)
		} else {
			plain = append(plain, s)
		}
	}
	list := stanza(archive, plain...)
	if security.uri != "" && len(updates) > 0 {
		list += "\n" + stanza(security, updates...)
	}
	return list, nil
}

func stanza(s source, suites ...string) string {
	if s.key == "" {
		s.key = keyring
	}
	return fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n",
		s.uri, strings.Join(suites, " "), s.key)
}

// debianArchive picks the archive by its suites, which no other distribution uses.
func debianArchive(all []source) (archive, security source) {
	codenames := []string{"bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable"}
	for _, s := range all {
		for _, suite := range s.suites {
			if slices.Contains(codenames, suite) && archive.uri == "" {
				archive = s
			}
			if base, ok := strings.CutSuffix(suite, "-security"); ok && slices.Contains(codenames, base) {
				security = s
			}
		}
	}
	return archive, security
}

func readSources(etc string) []source {
	var all []source
	lists, _ := filepath.Glob(filepath.Join(etc, "sources.list.d", "*.list"))
	for _, f := range append(lists, filepath.Join(etc, "sources.list")) {
		if b, err := os.ReadFile(f); err == nil {
			all = append(all, parseList(string(b))...)
		}
	}
	stanzas, _ := filepath.Glob(filepath.Join(etc, "sources.list.d", "*.sources"))
	for _, f := range stanzas {
		if b, err := os.ReadFile(f); err == nil {
			all = append(all, parseStanzas(string(b))...)
		}
	}
	return all
}

func parseList(text string) []source {
	var all []source
	for line := range strings.Lines(text) {
		m := oneLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		s := source{uri: m[2], suites: []string{m[3]}}
		if k := signed.FindStringSubmatch(m[1]); k != nil {
			s.key = k[1]
		}
		all = append(all, s)
	}
	return all
}

// parseStanzas reads the deb822 form. An embedded key (a Signed-By of several lines) is ignored:
// the archive's keyring package holds the same.
func parseStanzas(text string) []source {
	var all []source
	for block := range strings.SplitSeq(text, "\n\n") {
		f := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, ok := strings.Cut(line, ":")
			if ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") {
				f[strings.ToLower(key)] = strings.TrimSpace(value)
			}
		}
		uris := strings.Fields(f["uris"])
		if len(uris) == 0 || f["enabled"] == "no" {
			continue
		}
		all = append(all, source{uri: uris[0], suites: strings.Fields(f["suites"]), key: f["signed-by"]})
	}
	return all
}
