// SPDX-License-Identifier: Apache-2.0

package userroce

import "github.com/sdr-rdma/go-sdr/backend"

// splitForWire takes the batch apart and shows it to Config.Wire.
func (r *receiver) splitForWire() {
	r.wire, r.places, r.wireAt = r.wire[:0], r.places[:0], 0
	to := r.d.Addr()
	for {
		at, n, ok := r.next()
		if !ok {
			break
		}
		r.wire = append(r.wire, backend.WirePacket{
			Src: r.flows.current.from.addrPort(r.d.ipv6), Dst: to, TOS: r.responder.tos, Data: r.batch.buf[at : at+n : at+n],
		})
		r.places = append(r.places, batchPlace{uint32(at), int32(r.batch.current)})
		r.advance(n)
	}
	r.d.cfg.Wire.Inbound(r.wire)
}

// deliverWire is deliver for packets that have passed Config.Wire.
func (r *receiver) deliverWire(dst []backend.Completion) int {
	k := 0
	for k < len(dst) && r.wireAt < len(r.wire) {
		o, data := r.places[r.wireAt], r.wire[r.wireAt].Data
		r.responder.tos = r.wire[r.wireAt].TOS
		r.wireAt++
		if data == nil {
			continue
		}
		r.flows.use(&r.batch.names[o.message], r.d)
		if r.responder.handle(int(o.at), len(data), &dst[k]) {
			k++
		}
		if r.responder.left > 0 {
			r.wireAt--
		}
	}
	r.responder.publish()
	return k
}
