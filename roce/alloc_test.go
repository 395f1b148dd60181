// SPDX-License-Identifier: Apache-2.0

//go:build !race

package roce

import "testing"

// What runs once for each packet must not allocate.
func TestNoAllocations(t *testing.T) {
	flow := testFlow4()
	payload := make([]byte, 4095)
	datagram := make([]byte, MaxPacket)
	write := UCWriteImm{Length: uint32(len(payload)), PKey: DefaultPKey}
	send := UDSend{Length: uint32(len(payload)), PKey: DefaultPKey}
	full := Packet{Opcode: UCWriteOnlyImm, DMALength: uint32(len(payload)), Payload: payload}
	p := new(Packet)
	if _, err := full.Encode(datagram); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"UCWriteImm.Encode":    func() { write.Encode(datagram) },
		"UDSend.Encode":        func() { send.Encode(datagram[:UDSendHeaders]); write.Encode(datagram) },
		"Packet.Encode":        func() { sinkInt, _ = full.Encode(datagram) },
		"Packet.EncodeHeaders": func() { sinkInt, _ = full.EncodeHeaders(datagram) },
		"Packet.Encode, error": func() { sinkInt, _ = full.Encode(datagram[:40]) },
		"Packet.Parse":         func() { sinkBool = p.Parse(datagram) == nil },
		"Packet.Parse, error":  func() { sinkBool = p.Parse(datagram[:17]) == nil },
		"Seed and Sum":         func() { sinkUint32 = flow.SeedID(len(datagram), 7).Sum(datagram) },
		"Sum2":                 func() { sinkUint32 = flow.Seed(len(datagram)).Sum2(datagram[:32], payload) },
		"SumFetch":             func() { sinkUint32 = flow.Seed(len(datagram)).SumFetch(datagram, payload) },
		"PutTrailer":           func() { sinkInt = PutTrailer(datagram[len(datagram)-5:], 3, 1) },
		"Seal and Verify": func() {
			flow.Seed(len(datagram)).Seal(datagram)
			sinkBool = flow.Seed(len(datagram)).Verify(datagram)
		},
		"VerifyAnyID": func() { _, sinkBool = flow.VerifyAnyID(datagram) },
		"own stack": func() {
			var b [UCWriteImmHeaders]byte
			write.Encode(b[:])
			sinkInt = int(b[0])
			var q Packet
			sinkBool = q.Parse(datagram) == nil
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if err := p.Parse(datagram); err != nil {
			t.Fatalf("%s left no valid packet for the others to parse: %v", name, err)
		}
	}
}
