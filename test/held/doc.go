// SPDX-License-Identifier: Apache-2.0

// Package held holds one test: that functions whose comment says "mu is held" are called with that
// mutex held. It is a lint step of its own, and fields that say
// "+checklocks:mu" are used with it held, but in the function that makes the struct:
//
//	go test ./test/held
//
// A comment says "mu is held" of the receiver's own mutex, "QP.mu is held" of that of another type of
// the package, or "q.mu is held" of a parameter's. The comment of a type says it for all its methods.
// A function whose comment says "takes mu" returns with it locked. The mutex counts as held from its Lock on until its Unlock, in the order of the statements, and in a
// function that says so itself. Locking what is held is an error, too. Which object's mutex it is isn't looked at,
// only of which type; a
// function literal has what is held where it stands, but with a go statement.
package held
