// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"bytes"
	"slices"
	"testing"
)

// FuzzParse: whatever arrives, nothing panics, the error is one of those documented, and a packet that
// is accepted can be encoded again to the bytes it came from. More seeds are in testdata/fuzz.
func FuzzParse(f *testing.F) {
	for i := range goldens {
		f.Add(goldens[i].udpPayload(f))
	}
	for _, op := range knownOpcodes() {
		p := sample(op)
		f.Add(encode(f, &p))
	}
	known := []error{ErrShort, ErrVersion, ErrOpcode, ErrPad, ErrLength, ErrDMALength}
	flow := testFlow4()
	f.Fuzz(func(t *testing.T, b []byte) {
		orig := slices.Clone(b)
		var p Packet
		err := p.Parse(b)
		seed := flow.Seed(len(b))
		valid := seed.Verify(b)
		if _, ok := flow.VerifyAnyID(b); valid && !ok && len(b)%4 == 0 {
			t.Fatal("identification 0 is not among any")
		}
		_, cnpErr := ParseCNP(b)
		if (cnpErr == nil) != (err == nil && p.Opcode == CNPOpcode) {
			t.Fatalf("Parse says %v, ParseCNP %v", err, cnpErr)
		}
		if !bytes.Equal(b, orig) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if !slices.Contains(known, err) {
				t.Fatalf("undocumented error %v", err)
			}
			return
		}
		again := make([]byte, p.Size())
		if n, err := p.Encode(again); err != nil || n != len(b) {
			t.Fatalf("%d bytes of %d, %v", n, len(b), err)
		}
		clearIgnored(&p, orig)
		if !bytes.Equal(again, orig) {
			t.Fatalf("%v\n%x came back as\n%x", p.Opcode, orig, again)
		}
	})
}

// clearIgnored clears the bits of b that a receiver ignores and a sender sends as 0.
func clearIgnored(p *Packet, b []byte) {
	b[bthECN] &= flagFECN | flagBECN
	b[bthAckReq] &= flagAckReq
	if layouts[p.Opcode].headers&hasDETH != 0 {
		b[BTHSize+dethSrcQP] = 0
	}
	end := len(b) - ICRCSize
	clear(b[end-PadCount(len(p.Payload)) : end])
}

// FuzzHeaders: a header type's Parse function and accessors accept any input.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, AtomicETHSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := ParseBTH(b); err == nil {
			c := BTH(make([]byte, BTHSize))
			c.SetOpcode(h.Opcode())
			c.SetFlags(h.Solicited(), h.MigReq(), h.PadCount())
			c.SetPKey(h.PKey())
			c.SetDestQP(h.DestQP())
			c.SetECN(h.FECN(), h.BECN())
			c.SetPSN(h.PSN(), h.AckReq())
			want := slices.Clone(h)
			want[bthFlags] &^= tverMask
			want[bthECN] &= flagFECN | flagBECN
			want[bthAckReq] &= flagAckReq
			equal(t, "BTH", c, want)
		}
		if h, err := ParseRETH(b); err == nil {
			c := RETH(make([]byte, RETHSize))
			c.Set(h.VA(), h.RKey(), h.DMALength())
			equal(t, "RETH", c, h)
		}
		if h, err := ParseImmDt(b); err == nil {
			c := ImmDt(make([]byte, ImmDtSize))
			c.Set(h.Value())
			equal(t, "ImmDt", c, h)
		}
		if h, err := ParseDETH(b); err == nil {
			c := DETH(make([]byte, DETHSize))
			c.Set(h.QKey(), h.SrcQP())
			want := slices.Clone(h)
			want[dethSrcQP] = 0
			equal(t, "DETH", c, want)
		}
		if h, err := ParseAETH(b); err == nil {
			c := AETH(make([]byte, AETHSize))
			c.Set(h.Syndrome(), h.MSN())
			equal(t, "AETH", c, h)
			_ = h.Syndrome().String()
		}
		if h, err := ParseAtomicETH(b); err == nil {
			c := AtomicETH(make([]byte, AtomicETHSize))
			c.Set(h.VA(), h.RKey(), h.Swap(), h.Compare())
			equal(t, "AtomicETH", c, h)
		}
	})
}

func equal(t *testing.T, name string, got, want []byte) {
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: %x, want %x", name, got, want)
	}
}
