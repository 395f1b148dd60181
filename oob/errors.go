// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/sdr-rdma/go-sdr/operr"
)

// How a connection ends.
var (
	// ErrClosed: this end called Close. All packages of go-sdr have this one.
	ErrClosed = operr.ErrClosed
	// ErrPeerClosed: the peer called Close.
	ErrPeerClosed = errors.New("connection closed by the peer")
	// ErrPeerDied: the connection broke off without a goodbye; the peer was killed or crashed,
	// its host is gone, or the network in between is.
	ErrPeerDied = errors.New("peer is gone: its process was killed or crashed, or its host or the network is down")
)

// ErrTooSlow: the peer hung up on a Dial with TLS when that had lasted for 3 s, for which a Listener waits. Before the end of its handshake TLS
// has no words for that, where a Listener without TLS says CodeTimeout. This host or the network may be busy: dialled again it may go faster.
var ErrTooSlow = errors.New("shaking hands took longer than the 3 s for which a listener waits")

// How a handshake fails when the peer gives no reason.
var (
	errPeerWithoutTLS = errors.New("this end uses TLS, the peer does not")
	errNoHello        = errors.New("the peer closed the connection before it had said hello")
)

// A givenUp is the error where this end waits no longer, for a reason of its own.
type givenUp struct{ cause error }

func (g givenUp) Error() string { return "given up (" + g.cause.Error() + ")" }
func (g givenUp) Unwrap() error { return g.cause }

// ErrListenerClosed is why a Listener serves its peers no longer, also one of package sdrnet. They hear its text, in a *PeerError.
var ErrListenerClosed = errors.New("the listener has closed")

// silent is the error of a wait for the peer that ctx ended.
func silent(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the peer sent nothing within the time limit (%w)", cause)
	}
	return givenUp{cause}
}

// lost is the error of a read or write on an established connection. It is never io.EOF, which says that the peer has closed in order.
func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if isConnBroken(err) {
		return fmt.Errorf("%w (%w)", ErrPeerDied, err)
	}
	return err
}

// An Error says what failed, with whom (Object is the address asked for, or the peer's), why, and what
// to do about it: the error of all packages of go-sdr.
type Error = operr.Error

// A VersionError says that the ends speak different versions of the protocol.
type VersionError struct{ Ours, Theirs uint8 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("peer speaks version %d of the out-of-band protocol, this end version %d", e.Theirs, e.Ours)
}

// A ForeignError says that the peer speaks another protocol altogether.
type ForeignError struct{ First []byte } // the first bytes that it sent, at most 16

func (e *ForeignError) Error() string {
	s := fmt.Sprintf("peer does not speak the sdr out-of-band protocol (its first bytes are %q", e.First)
	if p := e.protocol(); p != "" {
		s += ", which looks like " + p
	}
	return s + ")"
}

func (e *ForeignError) protocol() string {
	for _, p := range [...]struct{ prefix, name string }{
		{"\x16\x03", "TLS"}, {"\x15\x03", "TLS"}, // handshake, alert
		{"HTTP", "HTTP"}, {"GET ", "HTTP"}, {"POST", "HTTP"}, {"PRI ", "HTTP/2"},
		{"<!DO", "HTTP"}, {"<htm", "HTTP"}, // HTTP/0.9, in which some servers answer what is no request: the page alone
		{"SSH-", "SSH"}, {"220 ", "SMTP or FTP"}, {"220-", "SMTP or FTP"},
	} {
		if bytes.HasPrefix(e.First, []byte(p.prefix)) {
			return p.name
		}
	}
	return ""
}

// A Code says in an ERROR frame what kind of fault an end found with the other.
type Code uint32

// Codes of the protocol. Values are wire format.
const (
	CodeForeign  Code = 1 + iota // not this protocol
	CodeVersion                  // another version
	CodeProtocol                 // a frame that breaks the rules
	CodeTimeout                  // nothing arrived in time
	CodeRejected                 // the application gave up, or refused the peer: CloseWithReason
	CodeBusy                     // no room for the peer now: a Listener's, or TurnAway
)

func (c Code) String() string {
	switch c {
	case CodeForeign:
		return "not the sdr out-of-band protocol"
	case CodeVersion:
		return "version mismatch"
	case CodeProtocol:
		return "protocol violation"
	case CodeTimeout:
		return "time limit"
	case CodeRejected:
		return "rejected"
	case CodeBusy:
		return "busy"
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// A PeerError is the reason that the peer gave for ending the connection.
type PeerError struct {
	Code   Code
	Reason string // printable, at most maxReason bytes
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("the peer ended the connection (%v), saying %q", e.Code, e.Reason)
}

// Rejected reports whether the peer ended the connection on purpose, with CloseWithReason or because it is Busy.
func (e *PeerError) Rejected() bool { return e.Code == CodeRejected || e.Busy() }

// Busy reports whether the peer has no room now: who dials again later may find some.
func (e *PeerError) Busy() bool { return e.Code == CodeBusy }

// A ProtocolError says how the peer broke the rules.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return "peer broke the out-of-band protocol: " + e.What }

func violation(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}

// unreceived is the violation of a peer whose messages this end doesn't receive in time. The mistake may be either end's, so that both are
// told what to do.
type unreceived struct{ error }

func (e unreceived) Unwrap() error { return e.error }

// receiveSooner is what to do about unreceived messages.
const receiveSooner = "call Recv as messages arrive, or send fewer before the peer has answered"

// printable makes text from the network fit for a terminal and a log line.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(b))
}

// farewell is the ERROR frame that tells the peer about a fault this end found, or nothing for
// faults that the peer knows of or that leave nobody to tell.
func farewell(err error) []byte {
	code, reason := CodeProtocol, err.Error()
	var given givenUp
	switch {
	case hasLeft(err):
		return nil
	case isA[*ForeignError](err), errors.Is(err, errPeerWithoutTLS):
		code = CodeForeign
	case isA[*VersionError](err):
		code = CodeVersion
	case errors.Is(err, context.DeadlineExceeded):
		code = CodeTimeout
	case errors.As(err, &given), errors.Is(err, context.Canceled):
		code = CodeRejected
		if given.cause != nil && given.cause != context.Canceled { // the application's own words, as with CloseWithReason
			reason = given.cause.Error()
		}
	}
	if isA[unreceived](err) {
		reason += " (" + receiveSooner + ")"
	}
	return reasonFrame(code, reason)
}

// hasLeft reports whether err is that the peer ended the connection, or is dead.
func hasLeft(err error) bool {
	return isA[*PeerError](err) || errors.Is(err, ErrPeerDied) || errors.Is(err, ErrPeerClosed) || errors.Is(err, errNoHello)
}

func reasonFrame(code Code, reason string) []byte {
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	return appendFrame(nil, frame{kind: kindError, number: uint32(code), payload: []byte(reason)})
}

func isA[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &ne) && ne.Timeout()
}

// withoutAddress is what a *net.OpError says besides the address, which our own errors name.
func withoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// dialFix says what to do about an error of the network.
func dialFix(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is the server running there, on that port?"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "check the address and the routes to it"
	case addressFix(err) != "":
		return addressFix(err)
	case isTimeout(err):
		return "does a firewall drop the packets, is the host up?"
	}
	return limitFix(err)
}

// addressFix says what to do about an address that can't be, or that names nothing.
func addressFix(err error) string {
	var bad *net.AddrError
	var dns *net.DNSError
	switch {
	case errors.As(err, &bad), errors.As(err, &dns) && strings.HasPrefix(dns.Name, "tcp/"): // a port that has no such name
		return "write HOST:PORT, an IPv6 address in brackets, the port from 0 to 65535"
	case errors.As(err, &dns):
		return "check the host name, or give an IP address"
	case errors.Is(err, syscall.EINVAL) && linkLocal(err):
		return "a link-local address needs the interface that it is on: fe80::1%eth0"
	}
	return ""
}

// linkLocal reports whether the address that err is about is one that other interfaces may have, too.
func linkLocal(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) {
		return false
	}
	at, ok := op.Addr.(*net.TCPAddr)
	return ok && at.IP.IsLinkLocalUnicast()
}

func listenFix(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process listens there: stop it or choose another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "no interface of this host has that address"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 need privilege: choose another port"
	case limitFix(err) != "":
		return limitFix(err)
	}
	return addressFix(err)
}

// limitFix says what to do about descriptors that have run out.
func limitFix(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "raise the limit of open files (ulimit -n)"
	case errors.Is(err, syscall.ENFILE):
		return "raise the kernel's limit of open files (sysctl fs.file-max)"
	}
	return ""
}

func handshakeFix(err error) string {
	var foreign *ForeignError
	switch {
	case errors.As(err, &foreign) && foreign.protocol() == "TLS":
		return "the peer uses TLS: give both ends TLS or neither"
	case errors.As(err, &foreign):
		return "is that the address and port of an sdr endpoint?"
	case isA[*VersionError](err):
		return "run the same release at both ends"
	case errors.Is(err, ErrTooSlow):
		return "is this host busy, or the network? if not, is that an sdr endpoint that uses TLS?"
	case errors.Is(err, errPeerWithoutTLS):
		return "give both ends TLS or neither"
	case errors.Is(err, errNoHello), errors.Is(err, context.DeadlineExceeded):
		return "is that an sdr endpoint, and do both ends use TLS or neither?"
	}
	return certificateFix(err)
}

// certificateFix says what to do about a certificate that this end doesn't take, or the peer, of which its alert tells (RFC 8446, section 6.2).
func certificateFix(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "add who signed the peer's certificate to Config.TLS: to RootCAs where this end dials, to ClientCAs where it listens"
	case errors.As(err, &name):
		return "dial a host that the certificate names, or set Config.TLS.ServerName to one"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the peer's certificate, or set the clock"
	case errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate"):
		return "give this end a certificate that the peer can verify: Config.TLS.Certificates"
	}
	return ""
}
