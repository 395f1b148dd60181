// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/quic-go/quic-go"
)

// quicPacket is the largest UDP payload that quic-go sends, whatever the MTU.
const quicPacket = 1452

// quicConfig has flow control windows that don't limit on this link: quic-go's
// defaults are smaller than the product of rate and delay.
func quicConfig() *quic.Config {
	const window = 64 << 20
	return &quic.Config{
		InitialPacketSize:              quicPacket,
		InitialStreamReceiveWindow:     window,
		MaxStreamReceiveWindow:         window,
		InitialConnectionReceiveWindow: window,
		MaxConnectionReceiveWindow:     window,
		MaxIdleTimeout:                 time.Minute,
	}
}

// newQUIC is quic-go with one stream on a connection.
func newQUIC(o Options) (Endpoint, error) {
	s := &stream{buf: make([]byte, o.Buffer), release: func() error { return nil }, version: VersionQUIC()}
	if o.Side == Sending {
		s.open = func(ctx context.Context) (io.ReadWriteCloser, error) {
			return DialQUIC(ctx, o.Local, netip.AddrPortFrom(o.Remote, port))
		}
		return s, nil
	}
	l, err := ListenQUIC(netip.AddrPortFrom(o.Local, port))
	if err != nil {
		return nil, err
	}
	s.release, s.open = l.Close, l.Accept
	return s, nil
}

// VersionQUIC is that of quic-go.
func VersionQUIC() string { return "quic-go " + moduleVersion("github.com/quic-go/quic-go") }

// A QUICListener accepts connections of one stream each.
type QUICListener struct {
	listener *quic.Listener
	socket   *net.UDPConn
}

// ListenQUIC listens at an address; port 0 is any.
func ListenQUIC(at netip.AddrPort) (*QUICListener, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13}
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	listener, err := quic.Listen(socket, config, quicConfig())
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &QUICListener{listener, socket}, nil
}

// Addr is where it listens.
func (l *QUICListener) Addr() netip.AddrPort { return l.socket.LocalAddr().(*net.UDPAddr).AddrPort() }

// Close ends it and its connections.
func (l *QUICListener) Close() error { return errors.Join(l.listener.Close(), l.socket.Close()) }

// protocol is negotiated by TLS.
const protocol = "peers"

// quicStream closes its connection, and the socket under it, with it.
type quicStream struct {
	*quic.Stream
	conn   *quic.Conn
	socket *net.UDPConn // nil at the listener's side
}

// Close ends the connection at once.
func (s *quicStream) Close() error {
	err := s.conn.CloseWithError(0, "")
	if s.socket != nil {
		err = errors.Join(err, s.socket.Close())
	}
	return err
}

// DialQUIC uses a socket of its own for each connection, and opens the stream by a
// byte, because the peer doesn't see an unused one.
func DialQUIC(ctx context.Context, local netip.Addr, remote netip.AddrPort) (io.ReadWriteCloser, error) {
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, err
	}
	// The certificate is made up; nobody else is on this link.
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13} //nolint:gosec
	conn, err := quic.Dial(ctx, socket, net.UDPAddrFromAddrPort(remote), config, quicConfig())
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	stream, err := conn.OpenStreamSync(ctx)
	if err == nil {
		_, err = stream.Write([]byte{0})
	}
	return &quicStream{stream, conn, socket}, err
}

// Accept waits for a connection and its stream.
func (l *QUICListener) Accept(ctx context.Context) (io.ReadWriteCloser, error) {
	conn, err := l.listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := conn.AcceptStream(ctx)
	if err == nil {
		var b [1]byte
		_, err = io.ReadFull(stream, b[:])
	}
	return &quicStream{stream, conn, nil}, err
}

func selfSigned() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of unknown version" // test binaries don't say
}
