// SPDX-License-Identifier: Apache-2.0

package roce

// headerSet says which extended transport headers follow the BTH. They follow in the order of the
// bits, whatever the opcode (IBTA 5.2, figure "packet structure").
type headerSet uint8

const (
	hasDETH headerSet = 1 << iota
	hasFETH
	hasRETH
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImmDt
	hasIETH
)

// payloadRule says which payload lengths an opcode allows.
type payloadRule uint8

const (
	payloadNone  payloadRule = iota // 0
	payloadFull                     // a path MTU exactly: First and Middle
	payloadSome                     // 1 to a path MTU: Last
	payloadAny                      // 0 to a path MTU: Only
	payloadEight                    // 8: ATOMIC WRITE
	payloadCNP                      // 16 reserved bytes: CNP
)

// dmaRule says what a packet's RETH length tells about the payload of the same packet.
type dmaRule uint8

const (
	dmaUnrelated dmaRule = iota
	dmaExact             // RDMA WRITE Only: the message is this payload
	dmaMore              // RDMA WRITE First: more follows
)

// A layout is what an opcode says about the packet. size, the bytes before the payload, is 0 for an
// unknown opcode.
type layout struct {
	name    string
	headers headerSet
	size    uint8
	payload payloadRule
	dma     dmaRule
}

// layouts is indexed by opcode: IBTA table 38 together with the length rules of chapter 9.
var layouts = makeLayouts()

func makeLayouts() (t [256]layout) {
	type op struct {
		code    Opcode
		name    string
		headers headerSet
		payload payloadRule
		dma     dmaRule
	}
	// SEND and RDMA WRITE have the same layout on RC and UC, at the same place in their ranges.
	for _, s := range []struct {
		base Opcode
		name string
	}{{serviceRC, "RC "}, {serviceUC, "UC "}} {
		for _, o := range []op{
			{RCSendFirst, "SEND First", 0, payloadFull, 0},
			{RCSendMiddle, "SEND Middle", 0, payloadFull, 0},
			{RCSendLast, "SEND Last", 0, payloadSome, 0},
			{RCSendLastImm, "SEND Last with Immediate", hasImmDt, payloadSome, 0},
			{RCSendOnly, "SEND Only", 0, payloadAny, 0},
			{RCSendOnlyImm, "SEND Only with Immediate", hasImmDt, payloadAny, 0},
			{RCWriteFirst, "RDMA WRITE First", hasRETH, payloadFull, dmaMore},
			{RCWriteMiddle, "RDMA WRITE Middle", 0, payloadFull, 0},
			{RCWriteLast, "RDMA WRITE Last", 0, payloadSome, 0},
			{RCWriteLastImm, "RDMA WRITE Last with Immediate", hasImmDt, payloadSome, 0},
			{RCWriteOnly, "RDMA WRITE Only", hasRETH, payloadAny, dmaExact},
			{RCWriteOnlyImm, "RDMA WRITE Only with Immediate", hasRETH | hasImmDt, payloadAny, dmaExact},
		} {
			t[s.base|o.code] = layout{s.name + o.name, o.headers, 0, o.payload, o.dma}
		}
	}
	for _, o := range []op{
		{RCReadRequest, "RC RDMA READ Request", hasRETH, payloadNone, 0},
		{RCReadResponseFirst, "RC RDMA READ Response First", hasAETH, payloadFull, 0},
		{RCReadResponseMiddle, "RC RDMA READ Response Middle", 0, payloadFull, 0},
		{RCReadResponseLast, "RC RDMA READ Response Last", hasAETH, payloadSome, 0},
		{RCReadResponseOnly, "RC RDMA READ Response Only", hasAETH, payloadAny, 0},
		{RCAcknowledge, "RC Acknowledge", hasAETH, payloadNone, 0},
		{RCAtomicAcknowledge, "RC ATOMIC Acknowledge", hasAETH | hasAtomicAckETH, payloadNone, 0},
		{RCCompareSwap, "RC CmpSwap", hasAtomicETH, payloadNone, 0},
		{RCFetchAdd, "RC FetchAdd", hasAtomicETH, payloadNone, 0},
		{RCSendLastWithInvalidate, "RC SEND Last with Invalidate", hasIETH, payloadSome, 0},
		{RCSendOnlyWithInvalidate, "RC SEND Only with Invalidate", hasIETH, payloadAny, 0},
		{RCFlush, "RC FLUSH", hasFETH | hasRETH, payloadNone, 0},
		{RCAtomicWrite, "RC ATOMIC WRITE", hasRETH, payloadEight, dmaExact},
		{UDSendOnly, "UD SEND Only", hasDETH, payloadAny, 0},
		{UDSendOnlyImm, "UD SEND Only with Immediate", hasDETH | hasImmDt, payloadAny, 0},
		{CNPOpcode, "CNP", 0, payloadCNP, 0},
	} {
		t[o.code] = layout{o.name, o.headers, 0, o.payload, o.dma}
	}
	for i := range t {
		if t[i].name != "" {
			t[i].size = BTHSize + t[i].headers.size()
		}
	}
	return t
}

// size returns the bytes that the headers of s take.
func (s headerSet) size() (n uint8) {
	for _, h := range []struct {
		bit  headerSet
		size uint8
	}{
		{hasDETH, DETHSize}, {hasFETH, FETHSize}, {hasRETH, RETHSize}, {hasAtomicETH, AtomicETHSize},
		{hasAETH, AETHSize}, {hasAtomicAckETH, AtomicAckETHSize}, {hasImmDt, ImmDtSize}, {hasIETH, IETHSize},
	} {
		if s&h.bit != 0 {
			n += h.size
		}
	}
	return n
}

// check applies the length rules that need no queue pair: n is the payload without pad.
func (l *layout) check(n int, dma uint32) error {
	ok := false
	switch l.payload {
	case payloadNone:
		ok = n == 0
	case payloadFull:
		ok = n >= minMTU && n <= maxMTU && n&(n-1) == 0
	case payloadSome:
		ok = n >= 1 && n <= maxMTU
	case payloadAny:
		ok = n <= maxMTU
	case payloadEight:
		ok = n == 8
	case payloadCNP:
		ok = n == CNPSize
	}
	if !ok {
		return ErrLength
	}
	if l.dma == dmaExact && uint64(dma) != uint64(n) || l.dma == dmaMore && uint64(dma) <= uint64(n) {
		return ErrDMALength
	}
	return nil
}
