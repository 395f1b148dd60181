// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package flexio

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/dpa/device/internal/headers"
)

// TestLayout: the structures are where a C compiler puts those of FlexIO's header, or of the declarations that stand
// in for it.
func TestLayout(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	var (
		app appAttr
		eh  eventHandlerAttr
		q   qmem
		c   cqAttr
		m   ibvMR
	)
	want := map[string]uintptr{
		"sizeof(struct flexio_app_attr)":                          unsafe.Sizeof(app),
		"offsetof(struct flexio_app_attr, app_ptr)":               unsafe.Offsetof(app.elf),
		"offsetof(struct flexio_app_attr, app_bsize)":             unsafe.Offsetof(app.size),
		"sizeof(struct flexio_event_handler_attr)":                unsafe.Sizeof(eh),
		"offsetof(struct flexio_event_handler_attr, arg)":         unsafe.Offsetof(eh.arg),
		"offsetof(struct flexio_event_handler_attr, affinity.id)": unsafe.Offsetof(eh.affinityID),
		"sizeof(struct flexio_qmem)":                              unsafe.Sizeof(q),
		"offsetof(struct flexio_qmem, daddr)":                     unsafe.Offsetof(q.daddr),
		"sizeof(struct flexio_cq_attr)":                           unsafe.Sizeof(c),
		"offsetof(struct flexio_cq_attr, thread)":                 unsafe.Offsetof(c.thread),
		"offsetof(struct flexio_cq_attr, uar_id)":                 unsafe.Offsetof(c.uar),
		"offsetof(struct flexio_cq_attr, uar_base_addr)":          unsafe.Offsetof(c.uarBase),
		"offsetof(struct flexio_cq_attr, cqe_comp_type)":          unsafe.Offsetof(c.compression),
		"offsetof(struct flexio_cq_attr, cq_period_mode)":         unsafe.Offsetof(c.period),
		"offsetof(struct flexio_cq_attr, cq_max_count)":           unsafe.Offsetof(c.maxCount),
		"offsetof(struct flexio_cq_attr, no_arm)":                 unsafe.Offsetof(c.noArm),
		"offsetof(struct flexio_cq_attr, always_armed)":           unsafe.Offsetof(c.always),
		"offsetof(struct flexio_cq_attr, cq_ring_qmem)":           unsafe.Offsetof(c.ring),
		"offsetof(struct flexio_cq_attr, cq_dbr_daddr)":           unsafe.Offsetof(c.record),
		"offsetof(struct ibv_mr, addr)":                           unsafe.Offsetof(m.addr),
		"offsetof(struct ibv_mr, lkey)":                           unsafe.Offsetof(m.lkey),
		"sizeof(flexio_status)":                                   unsafe.Sizeof(status(0)),
		"FLEXIO_CQ_ELEMENT_TYPE_DPA_THREAD":                       0,
		"FLEXIO_MEMTYPE_DPA":                                      0,
		"IBV_ACCESS_LOCAL_WRITE":                                  1,
	}
	include, err := headers.Find("libflexio/flexio.h", "../../testdata/flexio")
	require.NoError(t, err)
	var src strings.Builder
	src.WriteString("#include <libflexio/flexio.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n")
	for what := range want {
		fmt.Fprintf(&src, "printf(\"%%s=%%zu\\n\", %q, (size_t)%s);\n", what, what)
	}
	src.WriteString("return 0; }\n")
	dir := t.TempDir()
	file, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	require.NoError(t, os.WriteFile(file, []byte(src.String()), 0o600))
	out, err := exec.Command("cc", "-I"+include, file, "-o", program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		what, got, _ := strings.Cut(strings.TrimSpace(line), "=")
		require.Equal(t, fmt.Sprint(want[what]), got, what)
		delete(want, what)
	}
	require.Empty(t, want)
	t.Logf("headers in %s", include)
}
