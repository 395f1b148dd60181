// SPDX-License-Identifier: Apache-2.0

package roce

// A UCWriteImm describes the headers of a UC RDMA WRITE Only with Immediate, the packet that carries
// all data of this module. It is the short cut past Packet for senders that gather: headers here, the
// payload where the application has it, PutTrailer's bytes behind.
type UCWriteImm struct {
	VA        uint64
	RKey      uint32
	Imm       uint32
	Length    uint32 // payload bytes, at most a path MTU; gives DMALength and the pad count
	DestQP    QPN
	PSN       PSN
	PKey      PKey // usually DefaultPKey
	Solicited bool
	MigReq    bool
	// Returned is set on the headers of a trimmed packet that its receiver has sent back (ParseTrimmed): BECN
	// in the BTH, which the ICRC doesn't cover and which data has no use for.
	Returned bool
	// More is how many other writes a header-only packet names behind these headers, less than MostTrimmed.
	More uint8
}

// Encode writes UCWriteImmHeaders bytes to b, which must be that long, or Encode panics. Of DestQP and
// PSN it takes the low 24 bits.
func (w *UCWriteImm) Encode(b []byte) {
	b = b[:UCWriteImmHeaders]
	h := BTH(b[:BTHSize])
	h.SetOpcode(UCWriteOnlyImm)
	h.SetFlags(w.Solicited, w.MigReq, PadCount(int(w.Length)))
	h.SetPKey(w.PKey)
	h.SetDestQP(w.DestQP)
	if w.Returned {
		h.SetECN(false, true)
	}
	h.SetMore(w.More)
	h.SetPSN(w.PSN, false)
	RETH(b[BTHSize:BTHSize+RETHSize]).Set(w.VA, w.RKey, w.Length)
	ImmDt(b[BTHSize+RETHSize:]).Set(w.Imm)
}

// A UDSend describes the headers of a UD SEND Only. It is used like UCWriteImm.
type UDSend struct {
	Length    uint32 // payload bytes, at most a path MTU; gives the pad count
	DestQP    QPN
	SrcQP     QPN
	QKey      QKey
	PSN       PSN
	PKey      PKey // usually DefaultPKey
	Solicited bool
	MigReq    bool
}

// Encode writes UDSendHeaders bytes to b, which must be that long, or Encode panics. Of the QPNs and
// the PSN it takes the low 24 bits.
func (s *UDSend) Encode(b []byte) {
	b = b[:UDSendHeaders]
	h := BTH(b[:BTHSize])
	h.SetOpcode(UDSendOnly)
	h.SetFlags(s.Solicited, s.MigReq, PadCount(int(s.Length)))
	h.SetPKey(s.PKey)
	h.SetDestQP(s.DestQP)
	h.SetPSN(s.PSN, false)
	DETH(b[BTHSize:]).Set(s.QKey, s.SrcQP)
}
