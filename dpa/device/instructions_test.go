// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// perCompletion is the most instructions that a completion may cost where a queue pair's packets come in order,
// all of the handler included.
const perCompletion = 40

// TestInstructions counts what the handler executes: the emulator logs every instruction in its address range.
func TestInstructions(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	begin, end := handlerRange(t, program)
	const packets = 64 * 40
	for _, c := range []struct {
		perChunk, spread int
		most             float64 // instructions for a completion
	}{
		{16, 0, perCompletion}, {48, 0, perCompletion}, {64, 0, perCompletion}, {256, 0, perCompletion},
		{1, 0, 60},   // every packet is a chunk
		{16, 1, 600}, // every packet is on another channel than the one before, in one queue
	} {
		n := float64(executed(t, program, begin, end, packets, c.perChunk, c.spread)) / packets
		t.Logf("chunks of %d, spread %d: %.1f instructions per completion", c.perChunk, c.spread, n)
		require.LessOrEqual(t, n, c.most)
		require.Greater(t, n, 10.0, "the log has missed the handler")
	}
}

// handlerRange is where the handler's code is in a program: from its first function, which the compiler may
// have put others into, to the first of those that only the host calls.
func handlerRange(t *testing.T, program string) (begin, end string) {
	t.Helper()
	for line := range strings.Lines(output(t, nm, "--numeric-sort", program)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[2] == "set_chunks" {
			begin = f[0]
		}
		if len(f) == 3 && f[2] == "sdr_open" {
			end = f[0]
		}
	}
	require.NotEmpty(t, begin)
	require.NotEmpty(t, end)
	return begin, end
}

// oneInstruction is the emulator's option to translate one instruction at a time; it was renamed in QEMU 8.1.
func oneInstruction(t *testing.T) string {
	t.Helper()
	help, err := exec.Command(emulator(t), "-help").CombinedOutput()
	require.NotEmpty(t, help, "%v", err)
	if bytes.Contains(help, []byte("one-insn-per-tb")) {
		return "-one-insn-per-tb"
	}
	return "-singlestep"
}

func executed(t *testing.T, program, begin, end string, packets, perChunk, spread int) (n int) {
	t.Helper()
	cmd := emulated(t, []string{oneInstruction(t), "-d", "exec,nochain", "-dfilter", "0x" + begin + "..0x" + end, "-D", "/dev/stderr"},
		program, "count", fmt.Sprint(packets), fmt.Sprint(perChunk), fmt.Sprint(spread))
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Trace ") {
			n++
		}
	}
	require.NoError(t, lines.Err())
	_, _ = io.Copy(io.Discard, log)
	require.NoError(t, cmd.Wait())
	require.Equal(t, fmt.Sprintf("packets %d chunks %d\n", packets, (packets+perChunk-1)/perChunk), out.String())
	return n
}
