// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"fmt"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/roce"
)

// A sender and a receiver of one RDMA WRITE Only with Immediate. In a program, buffers, flow and Packet
// live as long as the queue pair or the worker, and nothing here allocates.
func Example() {
	flow, err := roce.NewFlow(netip.MustParseAddrPort("192.0.2.1:49152"), netip.MustParseAddrPort("192.0.2.2:4791"))
	if err != nil {
		panic(err)
	}

	// Send: headers, payload and trailer may be in three places; here they are in one.
	payload := []byte("hello, rdma")
	datagram := make([]byte, roce.PacketSize(roce.UCWriteImmHeaders, len(payload)))
	w := roce.UCWriteImm{
		VA: 0x1000, RKey: 0x42, Imm: 7, Length: uint32(len(payload)),
		DestQP: 0x11, PSN: 100, PKey: roce.DefaultPKey,
	}
	w.Encode(datagram)
	copy(datagram[roce.UCWriteImmHeaders:], payload) // the pad behind it is zero already
	flow.Seed(len(datagram)).Seal(datagram)

	// Receive: what a socket returned, and the flow of the address it came from.
	var p roce.Packet
	if err := p.Parse(datagram); err != nil {
		panic(err)
	}
	if !flow.Seed(len(datagram)).Verify(datagram) {
		panic("ICRC")
	}
	fmt.Printf("%v to QP %#x: %q at %#x, immediate %d\n", p.Opcode, p.DestQP, p.Payload, p.VA, p.Imm)
	// Output: UC RDMA WRITE Only with Immediate to QP 0x11: "hello, rdma" at 0x1000, immediate 7
}
