// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A table of values is set whole: each line has its entry, none has another's text.
func TestValues(t *testing.T) {
	require.Equal(t, `  --flag:
    none                      nothing; and this goes on where the line was
                              broken in the source
    term[:OPTION,...]         what it means
      a=N b[=N]               an option
    much:longer[,than][,the][,column]
                              says
      a=N b=N
`, Values("flag", `none   nothing; and this goes on
               where the line was broken in the source
term[:OPTION,...] what it means
     a=N b[=N]  an option
much:longer[,than][,the][,column]   says
     a=N b=N`))
}
