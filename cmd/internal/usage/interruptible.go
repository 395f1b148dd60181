// SPDX-License-Identifier: Apache-2.0

package usage

import "context"

// Interruptible does what looks at no context: after Ctrl-C it leaves it to itself, as the program ends, and returns ctx's error.
func Interruptible[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := do()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return answer{}.value, ctx.Err()
	}
}
