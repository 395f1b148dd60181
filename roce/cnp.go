// SPDX-License-Identifier: Apache-2.0

package roce

// CNPSize is the length in bytes of what follows the BTH of a congestion notification packet: sixteen
// reserved bytes, sent as 0 and ignored on receipt (IBTA Annex 17.9.3).
const CNPSize = 16

// CNPPacketSize is the UDP payload length of a CNP in bytes, with BTH and ICRC.
const CNPPacketSize = BTHSize + CNPSize + ICRCSize

// CNP is a whole congestion notification packet, from the BTH to the ICRC.
type CNP []byte

// ParseCNP returns b as a CNP: ErrShort or ErrLength when its length is wrong, ErrOpcode when it is
// another packet, ErrVersion or ErrPad when its BTH is.
func ParseCNP(b []byte) (CNP, error) {
	h, err := ParseBTH(b)
	switch {
	case err != nil:
		return nil, err
	case h.TVer() != 0:
		return nil, ErrVersion
	case h.Opcode() != CNPOpcode:
		return nil, ErrOpcode
	case h.PadCount() != 0:
		return nil, ErrPad
	case len(b) < CNPPacketSize:
		return nil, ErrShort
	case len(b) != CNPPacketSize:
		return nil, ErrLength
	}
	return CNP(b), nil
}

// BTH returns the base transport header. Its DestQP is the queue pair to slow down.
func (c CNP) BTH() BTH { return BTH(c[:BTHSize:BTHSize]) }

// Reserved returns the sixteen reserved bytes.
func (c CNP) Reserved() []byte { return c[BTHSize : BTHSize+CNPSize : BTHSize+CNPSize] }

// Set writes the whole packet but the ICRC, which Seed.Seal adds.
func (c CNP) Set(dest QPN, key PKey) {
	h := c.BTH()
	h.SetOpcode(CNPOpcode)
	h.SetFlags(false, false, 0)
	h.SetPKey(key)
	h.SetDestQP(dest)
	h.SetECN(false, true)
	h.SetPSN(0, false)
	clear(c.Reserved())
}
