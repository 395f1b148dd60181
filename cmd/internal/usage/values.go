// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// valueColumn is where in a table of values it begins what one means, behind what may be written.
const valueColumn = 30

// An entry is a line of a table of values: an indent, what may be written, and what it means, behind blanks or behind a bracket and one.
var entry, narrowEntry = regexp.MustCompile(`^( *)(\S.*?)  +(\S.*)$`), regexp.MustCompile(`^( *)(\S.*?\]) (\S.*)$`)

// Values sets a table of what a flag may be given as a paragraph of help: what is written, and beside or below it what it means.
func Values(flag, table string) string {
	var b strings.Builder
	b.WriteString("  --" + flag + ":\n")
	for _, e := range entries(table) {
		line, at := strings.Repeat(" ", 4+len(e.indent)/2)+e.term, valueColumn
		switch {
		case e.term == "":
			at = len(line)
		case utf8.RuneCountInString(line) > valueColumn-2:
			b.WriteString(line + "\n")
			line = ""
		}
		for _, part := range Lines(e.says, Columns-at) {
			b.WriteString(line + strings.Repeat(" ", at-utf8.RuneCountInString(line)) + part + "\n")
			line = ""
		}
	}
	return b.String()
}

type value struct{ indent, term, says string }

// entries reads a table. A line with a deep indent goes on with the one before.
func entries(table string) (all []value) {
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(text)]
		if len(indent) > 10 && len(all) > 0 {
			all[len(all)-1].says += " " + text
			continue
		}
		m := entry.FindStringSubmatch(line)
		if m == nil {
			m = narrowEntry.FindStringSubmatch(line)
		}
		if m == nil {
			all = append(all, value{indent: indent, says: text})
			continue
		}
		all = append(all, value{m[1], m[2], m[3]})
	}
	return all
}

// Fill breaks a sentence of a program's output into lines as wide as help is.
func Fill(text string) string { return strings.Join(Lines(text, Columns), "\n") }

// Fillf writes a sentence of a program's output, broken as by Fill, and ends the line.
func Fillf(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, Fill(fmt.Sprintf(format, args...)))
}

// Lines breaks text at blanks into lines of up to width, one at least.
func Lines(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}
