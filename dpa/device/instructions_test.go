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

// perCompletion is the most instructions that a completion may cost in the steady state, all of the handler
// included: averaged over batches of at least batchSize completions, of packets in the order in which package sdr
// sends them, which is a word's 64 on one channel before the next channel's. The cost of a batch, of publishing,
// telling the host and arming, is in the average.
const (
	perCompletion = 40
	batchSize     = 64
)

// TestInstructions counts what the handler executes: the emulator logs every instruction in its address range.
func TestInstructions(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	in := rangeOf(t, program, "set_chunks", "sdr_open")
	const packets = 64 * 40
	for _, c := range []struct {
		perChunk, run, apart, batch int
		most                        float64 // instructions for a completion
	}{
		{16, 64, 1, batchSize, perCompletion}, {48, 64, 1, batchSize, perCompletion}, {64, 64, 1, batchSize, perCompletion},
		{256, 64, 1, batchSize, perCompletion}, {100, 64, 1, batchSize, perCompletion},
		{1, 64, 1, batchSize, perCompletion}, // every packet is a chunk
		{2, 64, 1, batchSize, perCompletion},
		{16, 64, 1, 256, perCompletion},
		// Beyond the bound: queue pairs that share a queue and take turns sooner, and batches that are small
		// because little comes.
		{16, 32, 1, batchSize, 50},
		{16, 8, 1, batchSize, 80},
		{16, 1, 1, batchSize, 180},  // every packet on another queue pair than the one before
		{16, 64, 1, 1, 700},         // every completion a batch
		{16, 1, 8, batchSize, 600},  // queue pairs that compete for a place: every packet is published alone
		{256, 1, 8, batchSize, 700}, // and its chunk looked through
	} {
		n := float64(in.executed(t, fmt.Sprintf("packets %d chunks %d\n", packets, (packets+c.perChunk-1)/c.perChunk),
			"count", fmt.Sprint(packets), fmt.Sprint(c.perChunk), fmt.Sprint(c.run), fmt.Sprint(c.apart), fmt.Sprint(c.batch))) / packets
		t.Logf("chunks of %d, runs of %d, %d apart, batches of %d: %.1f instructions per completion", c.perChunk, c.run, c.apart, c.batch, n)
		require.LessOrEqual(t, n, c.most)
		require.Greater(t, n, 10.0, "the log has missed the handler")
	}
}

// TestInstructionsOfOpenAndClose: opening a message costs what zeroing its bitmaps does, closing it is cheap.
func TestInstructionsOfOpenAndClose(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	in := rangeOf(t, program, "sdr_control", "")
	for _, packets := range []int{64, 4096, 1 << 18} {
		words := (packets+63)/64*2 + (packets/16+63)/64
		n := in.executed(t, "open 1 closed 1\n", "open", fmt.Sprint(packets), "16")
		t.Logf("%d packets, %d words of bitmaps: %d instructions to open and close", packets, words, n)
		require.LessOrEqual(t, n, 400+6*words)
		require.Greater(t, n, words)
	}
}

// A text is a program and a range of its addresses.
type text struct{ program, begin, end string }

// rangeOf is where functions are in a program: from one, which the compiler may have put others into, to another
// or, if that is empty, to the end of the one.
func rangeOf(t *testing.T, program, from, to string) text {
	t.Helper()
	r := text{program: program}
	for line := range strings.Lines(output(t, nm, "--numeric-sort", program)) {
		f := strings.Fields(line)
		switch {
		case len(f) != 3:
		case f[2] == from:
			r.begin = f[0]
		case r.end == "" && r.begin != "" && (to == "" || f[2] == to):
			r.end = f[0]
		}
	}
	require.NotEmpty(t, r.begin)
	require.NotEmpty(t, r.end)
	return r
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

// executed is how many instructions in the range a run of the program executes, which must print want.
func (r text) executed(t *testing.T, want string, args ...string) (n int) {
	t.Helper()
	cmd := emulated(t, []string{oneInstruction(t), "-d", "exec,nochain", "-dfilter", "0x" + r.begin + "..0x" + r.end, "-D", "/dev/stderr"}, r.program, args...)
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte("Trace ")) {
			n++
		}
	}
	require.NoError(t, lines.Err())
	_, _ = io.Copy(io.Discard, log)
	require.NoError(t, cmd.Wait())
	require.Equal(t, want, out.String())
	return n
}
