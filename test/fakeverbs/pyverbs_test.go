// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pyverbsTests is where Debian's python3-pyverbs has the tests of rdma-core.
const pyverbsTests = "/usr/share/doc/rdma-core/tests"

// unpackPyverbs copies the tests, which Debian compresses, to where Python finds them.
func unpackPyverbs(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir(pyverbsTests)
	if os.IsNotExist(err) {
		t.Skip("pyverbs isn't installed: apt-get install python3-pyverbs")
	}
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "tests"), 0o755))
	for _, e := range entries {
		f, err := os.Open(filepath.Join(pyverbsTests, e.Name()))
		require.NoError(t, err)
		name, compressed := strings.CutSuffix(e.Name(), ".gz")
		var r io.Reader = f
		if compressed {
			r, err = gzip.NewReader(f)
			require.NoError(t, err)
		}
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		f.Close()
		require.NoError(t, os.WriteFile(filepath.Join(root, "tests", name), b, 0o644))
	}
	return root
}

// outcome is what Python's unittest says of a test: its name, the first line of its comment, and what became
// of it.
var outcome = regexp.MustCompile(`(?m)^(test_\w+) \(tests\.[^)]*\)(?:\n.*)? \.\.\. (ok|FAIL|ERROR|skipped .*)$`)

// pyverbsModules are the modules of rdma-core's tests that run, with how many tests of each must pass, and those
// that are skipped because they ask for what the device doesn't announce.
var pyverbsModules = []struct {
	module  string
	pass    int
	skipped []string
}{
	{"test_mlx5_mkey", 6, []string{"test_mkey_sig_crc", "test_mkey_sig_err", "test_mkey_sig_pipelining_bad", "test_mkey_sig_pipelining_good", "test_mkey_sig_t10dif"}},
	{"test_mlx5_devx", 1, nil},
	{"test_mlx5_uar", 1, nil},
	{"test_mlx5_cq", 7, []string{"test_dv_cq_compression_flags", "test_scatter_to_cqe_control_by_qp"}},
	{"test_mlx5_raw_wqe", 1, nil},
	{"test_cq", 4, nil},
	{"test_cq_events", 2, nil},
	{"test_cqex", 4, []string{"test_xrc_traffic_cq_ex"}},
	{"test_qpex", 17, []string{"test_qp_ex_rc_atomic_write", "test_qp_ex_xrc_send", "test_qp_ex_xrc_send_imm"}},
	{"test_mr.MWTest", 7, nil},
	{"test_atomic", 7, []string{"test_xrc_atomic_cmp_and_swap", "test_xrc_atomic_fetch_and_add"}},
}

// TestLibMLX5Pyverbs runs rdma-core's own tests of what this package models.
func TestLibMLX5Pyverbs(t *testing.T) {
	needProgram(t, "python3")
	root := unpackPyverbs(t)
	for _, m := range pyverbsModules {
		t.Run(m.module, func(t *testing.T) {
			h := newHost(t)
			cmd := exec.Command("/usr/bin/python3", "tests/run_tests.py", "--dev", h.Device(0).Name(), "-v", "tests."+m.module)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "tests"))
			p := startCommand(t, h, cmd)
			out := p.wait(t)
			if strings.Contains(out, "scapy package is needed") {
				t.Skip("scapy isn't installed: apt-get install python3-scapy")
			}
			var pass int
			var skipped []string
			for _, o := range outcome.FindAllStringSubmatch(out, -1) {
				if o[2] == "ok" {
					pass++
				} else {
					skipped = append(skipped, o[1])
				}
			}
			assert.Equal(t, m.pass, pass, out)
			assert.ElementsMatch(t, m.skipped, skipped, out)
		})
	}
}
