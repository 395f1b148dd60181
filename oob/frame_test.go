// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// frameOfVersion is a frame of an end that speaks another version.
func frameOfVersion(version uint8, f frame) []byte {
	b := appendFrame(nil, f)
	b[4] = version
	return b
}

func TestFrameLayout(t *testing.T) {
	got := appendFrame(nil, frame{kind: kindBlob, number: 0x01020304, payload: []byte("hi")})
	require.Equal(t, []byte("SDRx\x01\x02\x00\x00\x01\x02\x03\x04\x00\x00\x00\x02hi"), got)
}

func TestReasonIsCutAtARune(t *testing.T) {
	long := bytes.Repeat([]byte("é"), maxReason)
	_, err := readFrame(bytes.NewReader(reasonFrame(CodeRejected, "x"+string(long))), 0)
	var peer *PeerError
	require.ErrorAs(t, err, &peer)
	require.LessOrEqual(t, len(peer.Reason), maxReason)
	require.Regexp(t, "^xé+$", peer.Reason)
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, frame{kind: kindHello}))
	f.Add(appendFrame(nil, frame{kind: kindBlob, number: 1, payload: []byte("blob")}))
	f.Add(appendFrame(nil, frame{kind: kindMessage, number: 9, payload: bytes.Repeat([]byte{7}, 300)}))
	f.Add(frameOfVersion(2, frame{kind: kindHello}))
	f.Add(reasonFrame(CodeTimeout, "too\x00late\xff"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("SDRx\x01\x02\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("SDR"))
	const maxBlob = 256
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		got, err := readFrame(r, maxBlob)
		if err != nil {
			checkReadError(t, b, err)
			return
		}
		if len(got.payload) > maxBlob {
			t.Fatalf("payload of %d bytes", len(got.payload))
		}
		used := len(b) - r.Len()
		again := appendFrame(nil, got)
		copy(again[6:8], b[6:8]) // reserved bytes are ignored
		if !bytes.Equal(again, b[:used]) {
			t.Fatalf("read %x, wrote %x", b[:used], again)
		}
	})
}

// checkReadError holds that each error is of a known kind and safe to print.
func checkReadError(t *testing.T, b []byte, err error) {
	if errors.Is(err, io.EOF) != (len(b) == 0) {
		t.Fatalf("%v for %d bytes", err, len(b))
	}
	known := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isA[*ForeignError](err) ||
		isA[*VersionError](err) || isA[*PeerError](err) || isA[*ProtocolError](err)
	if !known {
		t.Fatalf("unexpected error %#v", err)
	}
	text := err.Error()
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError && !bytes.ContainsRune(b, utf8.RuneError) {
			t.Fatalf("unprintable %q in %q", r, text)
		}
	}
}
