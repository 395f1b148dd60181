// SPDX-License-Identifier: Apache-2.0

package fabric

// forward routes packet i, which has come in through port in of switch n, and queues it.
func (s *Sim) forward(n uint32, in, i uint32) {
	nd := &s.nodes[n]
	k := &s.pk[i]
	k.in = noPort
	if s.accounts != nil {
		k.in = uint16(in - nd.firstPort)
	}
	out := nilPort
	if s.functions != nil && s.functions[nd.sw].f != nil {
		if out = s.ingress(n, in, i); out == nilPort {
			return
		}
	} else {
		if s.early {
			out = k.next
		}
		if out == nilPort {
			if out = s.route(n, i); out == nilPort {
				s.drop(i, &s.noRoute)
				return
			}
		}
	}
	s.admit(n, out, i)
}

// admit finds memory for packet i or drops it, and queues it at out.
func (s *Sim) admit(n, out, i uint32) {
	p := &s.ports[out]
	k := &s.pk[i]
	if p.fault != 0 && s.faults[p.fault].down {
		s.drop(i, &s.linkDown)
		return
	}
	if s.functions != nil && s.functions[s.nodes[n].sw].f != nil {
		if !s.admitFunction(n, out, i) {
			return
		}
		k = &s.pk[i]
	}
	if s.forced != nil && !s.force(n, out, k) {
		s.dropAt(out, i, &s.forcedDrop)
		return
	}
	if s.cfg.Trim != nil && k.class() != 0 {
		s.admitTrim(n, out, i, k)
		return
	}
	c := k.class()
	if c != 0 && p.occupied>>c&1 != 0 && s.full(n, out, c, int64(k.size)) {
		s.dropAt(out, i, &s.queueFull)
		return
	}
	if s.accounts != nil && k.in != noPort && !s.enter(n, k) {
		s.dropAt(out, i, &s.bufferFull)
		return
	}
	s.send(out, i)
}

// full reports whether the queue of class c takes no further packet. An empty one takes any.
func (s *Sim) full(n, out uint32, c uint8, size int64) bool {
	waiting := s.queue(out, &s.ports[out], c).bytes + size
	if s.queueLimit > 0 && waiting > s.queueLimit {
		return true
	}
	if s.accounts == nil || s.cfg.Buffer.PFC {
		return false
	}
	b := &s.buffers[s.nodes[n].sw]
	return !b.deep && waiting > (b.size-b.used)*int64(s.cfg.Buffer.Alpha)/8
}

func (s *Sim) dropAt(out, i uint32, reason *uint64) {
	if s.stats != nil {
		s.stats[out].Drops++
	}
	s.drop(i, reason)
}
