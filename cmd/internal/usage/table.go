// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"strings"
)

// A Table is the columns of a table whose rows are printed one by one, before the next are known.
type Table []Column

// A Column has the width of usual values, below zero to align them to the left. One that is Wide is left out unless --wide asks for it.
type Column struct {
	Name  string
	Width int
	Wide  bool
}

// Head is the line of names.
func (t Table) Head(wide bool) string {
	names := make([]any, len(t))
	for i, c := range t {
		names[i] = c.Name
	}
	return t.Row(wide, names...)
}

// Row is the line of a cell for each column, as far as they are shown.
func (t Table) Row(wide bool, cells ...any) string {
	var line []string
	for i, c := range t {
		if wide || !c.Wide {
			line = append(line, fmt.Sprintf("%*v", c.Width, cells[i]))
		}
	}
	return strings.Join(line, " ")
}
