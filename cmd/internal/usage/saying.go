// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is shown from then on, and so often.
const (
	showAfter = 2 * time.Second
	showEvery = 5 * time.Second
)

// Saying says on log what is under way, of which no part is known, and for how long it has been, once that is long and until stop has
// returned, which may be called again.
func Saying(log io.Writer, what func() string) (stop func()) {
	return saying(log, what, showAfter, showEvery)
}

func saying(log io.Writer, what func() string, after, every time.Duration) (stop func()) {
	begun, ended := time.Now(), make(chan struct{})
	var shows sync.WaitGroup
	shows.Go(func() {
		for wait := after; ; wait = every {
			select {
			case <-ended:
				return
			case <-time.After(wait):
				fmt.Fprintf(log, "%s, %v so far\n", what(), time.Since(begun).Round(time.Second))
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		shows.Wait()
	})
}
