// SPDX-License-Identifier: Apache-2.0

package roce

// UDPPort is the destination port of RoCEv2, assigned by IANA.
const UDPPort = 4791

// Lengths in bytes.
const (
	// ICRCSize is the length of the trailer of every packet.
	ICRCSize = 4

	// UCWriteImmHeaders is what precedes the payload of an RDMA WRITE Only with Immediate.
	UCWriteImmHeaders = BTHSize + RETHSize + ImmDtSize
	// UCWriteImmOverhead is what such a packet adds to its payload and pad inside UDP.
	UCWriteImmOverhead = UCWriteImmHeaders + ICRCSize
	// UDSendHeaders is what precedes the payload of a UD SEND Only.
	UDSendHeaders = BTHSize + DETHSize
	// UDSendOverhead is what such a packet adds to its payload and pad inside UDP.
	UDSendOverhead = UDSendHeaders + ICRCSize

	// IPv4HeaderSize, IPv6HeaderSize and UDPHeaderSize are without options or extensions: RoCEv2
	// uses none.
	IPv4HeaderSize = 20
	IPv6HeaderSize = 40
	UDPHeaderSize  = 8

	// IPv4WriteImmOverhead and IPv6WriteImmOverhead are what an RDMA WRITE Only with Immediate adds
	// to its payload and pad as an IP packet, which is what an interface's MTU counts.
	IPv4WriteImmOverhead = IPv4HeaderSize + UDPHeaderSize + UCWriteImmOverhead
	IPv6WriteImmOverhead = IPv6HeaderSize + UDPHeaderSize + UCWriteImmOverhead

	// MinPacket and MaxPacket bound the UDP payload of the packets that Parse accepts. The largest
	// is an RDMA WRITE Only with Immediate of a full 4096-byte path MTU.
	MinPacket = BTHSize + ICRCSize
	MaxPacket = UCWriteImmOverhead + maxMTU

	// TrailerMax is the longest trailer: three pad bytes and the ICRC.
	TrailerMax = 3 + ICRCSize
)

// PadCount returns how many zero bytes follow a payload of n bytes on the wire, 0 to 3.
func PadCount(n int) int { return -n & 3 }

// PacketSize returns the UDP payload length of a packet: headers, n bytes of payload, pad and ICRC.
func PacketSize(headers, n int) int { return headers + n + PadCount(n) + ICRCSize }
