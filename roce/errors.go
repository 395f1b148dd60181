// SPDX-License-Identifier: Apache-2.0

package roce

import "errors"

// What Parse and Encode refuse. They are made once, because a flood of bad packets must not become a
// flood of garbage, and are returned as they are, so == tells them apart.
var (
	// ErrShort: too few bytes for the headers of the opcode and the ICRC, or, when encoding, a
	// buffer too small for the packet.
	ErrShort = errors.New("roce: packet or buffer too short for its headers")
	// ErrVersion: the transport header version (TVer) is not 0, the only one defined.
	ErrVersion = errors.New("roce: unknown transport header version")
	// ErrOpcode: an opcode that is reserved, or of a transport service not supported here.
	ErrOpcode = errors.New("roce: unknown opcode")
	// ErrPad: a pad count greater than the bytes after the headers, or pad where none is allowed.
	ErrPad = errors.New("roce: wrong pad count")
	// ErrLength: a length that is not a multiple of 4 on the wire, or a payload length that the
	// opcode doesn't allow (First and Middle carry a full path MTU, Last at least one byte, …).
	ErrLength = errors.New("roce: payload length not allowed for the opcode")
	// ErrDMALength: the RETH's DMA length contradicts the payload length of the packet.
	ErrDMALength = errors.New("roce: RETH length contradicts the payload")
	// ErrField: a QPN, PSN or other field that doesn't fit its bits; only when encoding.
	ErrField = errors.New("roce: field value too large for its bits")
)
