// SPDX-License-Identifier: Apache-2.0

// Package agreement holds the test that the completion-time model and the stack
// agree. It has no code of its own, and isn't built with -race: there it would
// take minutes and show nothing that other tests don't.
package agreement
