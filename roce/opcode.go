// SPDX-License-Identifier: Apache-2.0

package roce

import "strconv"

// An Opcode is the first byte of a packet: the transport service in the upper three bits, the
// operation in the lower five (IBTA 9.2.1, table 38).
type Opcode uint8

// The transport services, the upper three bits of an opcode.
const (
	serviceRC Opcode = 0x00
	serviceUC Opcode = 0x20
	serviceUD Opcode = 0x60

	serviceMask Opcode = 0xe0
)

// Opcodes of the reliable connection service. RCFlush and RCAtomicWrite came later than
// the others (Annex A19).
const (
	RCSendFirst              Opcode = 0x00
	RCSendMiddle             Opcode = 0x01
	RCSendLast               Opcode = 0x02
	RCSendLastImm            Opcode = 0x03
	RCSendOnly               Opcode = 0x04
	RCSendOnlyImm            Opcode = 0x05
	RCWriteFirst             Opcode = 0x06
	RCWriteMiddle            Opcode = 0x07
	RCWriteLast              Opcode = 0x08
	RCWriteLastImm           Opcode = 0x09
	RCWriteOnly              Opcode = 0x0a
	RCWriteOnlyImm           Opcode = 0x0b
	RCReadRequest            Opcode = 0x0c
	RCReadResponseFirst      Opcode = 0x0d
	RCReadResponseMiddle     Opcode = 0x0e
	RCReadResponseLast       Opcode = 0x0f
	RCReadResponseOnly       Opcode = 0x10
	RCAcknowledge            Opcode = 0x11
	RCAtomicAcknowledge      Opcode = 0x12
	RCCompareSwap            Opcode = 0x13
	RCFetchAdd               Opcode = 0x14
	RCSendLastWithInvalidate Opcode = 0x16
	RCSendOnlyWithInvalidate Opcode = 0x17
	RCFlush                  Opcode = 0x1c
	RCAtomicWrite            Opcode = 0x1d
)

// Opcodes of the unreliable connection service.
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2a
	UCWriteOnlyImm Opcode = 0x2b
)

// Opcodes of the unreliable datagram service.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
)

// CNPOpcode is the congestion notification packet (IBTA Annex 17.9.3).
const CNPOpcode Opcode = 0x81

// IsRC reports whether o is an opcode value of the reliable connection service.
func (o Opcode) IsRC() bool { return o&serviceMask == serviceRC }

// IsUC reports whether o is an opcode value of the unreliable connection service.
func (o Opcode) IsUC() bool { return o&serviceMask == serviceUC }

// IsUD reports whether o is an opcode value of the unreliable datagram service.
func (o Opcode) IsUD() bool { return o&serviceMask == serviceUD }

// Known reports whether Parse and Encode know the layout of o.
func (o Opcode) Known() bool { return layouts[o].size != 0 }

// String returns the specification's name, such as "UC RDMA WRITE Only with Immediate".
func (o Opcode) String() string {
	if s := layouts[o].name; s != "" {
		return s
	}
	return "opcode 0x" + strconv.FormatUint(uint64(o), 16)
}
