// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate makes a self-signed certificate for 127.0.0.1 and the configurations of both ends.
func certificate(t testing.TB) (server, client *tls.Config) {
	return certificateOf(t, func(*x509.Certificate) {})
}

// certificateOf is certificate for one that change has changed.
func certificateOf(t testing.TB, change func(*x509.Certificate)) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	change(&template)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{own}}, &tls.Config{RootCAs: roots}
}

func TestTLS(t *testing.T) {
	server, client := certificate(t)
	s, c := pair(t, Config{TLS: server}, Config{TLS: client})
	require.True(t, s.TLS().HandshakeComplete)
	require.True(t, c.TLS().HandshakeComplete)
	atS, atC := exchange(t, s, c, []byte("from server"), []byte("from client"))
	require.Equal(t, "from client", string(atS))
	require.Equal(t, "from server", string(atC))
	require.NoError(t, c.Close())
	require.ErrorIs(t, ended(t, s, waitLimit), ErrPeerClosed)
	inTime(t, time.Second, func() time.Duration {
		_, c := pair(t, Config{TLS: server}, Config{TLS: client})
		return closing(t, c)
	})
}

func TestTLSPeerThatDies(t *testing.T) {
	server, client := certificate(t)
	s, c := pair(t, Config{TLS: server}, Config{TLS: client})
	c.nc.(*tls.Conn).NetConn().Close()
	require.ErrorIs(t, ended(t, s, noticedBy), ErrPeerDied)
}

func TestTLSVerifiesTheServer(t *testing.T) {
	server, _ := certificate(t)
	l, rejected := listen(t, Config{TLS: server})
	_, err := Dial(testContext(t), l.Addr().String(), Config{TLS: &tls.Config{RootCAs: x509.NewCertPool()}})
	require.ErrorContains(t, err, "certificate")
	require.Error(t, rejected.next(t))
}

// TestServerName: it is the host that is dialled, unless the application says which, and the application's Config stays its own: the next
// Dial may be to another host.
func TestServerName(t *testing.T) {
	var ours tls.Config
	require.Equal(t, "a.example", clientTLS(&ours, "a.example:18515").ServerName)
	require.Equal(t, "b.example", clientTLS(&ours, "b.example:18515").ServerName)
	ours.ServerName = "c.example"
	require.Same(t, &ours, clientTLS(&ours, "a.example:18515"))
	ours = tls.Config{InsecureSkipVerify: true} //nolint:gosec // nothing is dialled
	require.Same(t, &ours, clientTLS(&ours, "a.example:18515"))
}

// TestTLSFixes: both ends say what to do about a certificate that one of them doesn't take.
func TestTLSFixes(t *testing.T) {
	_, stranger := certificate(t)
	for name, c := range map[string]struct {
		change            func(server, client *tls.Config)
		cert              func(*x509.Certificate)
		dialled, listened string
	}{
		"unknown": {change: func(_, client *tls.Config) { client.RootCAs = stranger.RootCAs }, dialled: "RootCAs"},
		"name":    {cert: func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"other.example"} }, dialled: "ServerName"},
		"expired": {cert: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, dialled: "renew"},
		"client's": {change: func(server, client *tls.Config) {
			server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, stranger.RootCAs
			client.Certificates = server.Certificates
		}, dialled: "Config.TLS.Certificates", listened: "ClientCAs"},
	} {
		t.Run(name, func(t *testing.T) {
			change := c.cert
			if change == nil {
				change = func(*x509.Certificate) {}
			}
			server, client := certificateOf(t, change)
			if c.change != nil {
				c.change(server, client)
			}
			l, rejected := listen(t, Config{TLS: server})
			_, err := Dial(testContext(t), l.Addr().String(), Config{TLS: client})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Fix, c.dialled)
			require.ErrorAs(t, rejected.next(t), &e)
			require.Contains(t, e.Fix, cmp.Or(c.listened, "Config.TLS.Certificates"))
		})
	}
}

func TestTLSServerNeedsACertificate(t *testing.T) {
	server, client := certificate(t)
	_, err := Listen(testContext(t), "127.0.0.1:0", Config{TLS: client})
	require.ErrorContains(t, err, "no certificate (set Certificates")
	later := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return server, nil }}
	pair(t, Config{TLS: later}, Config{TLS: client})
}

func TestTLSAtOneEndOnly(t *testing.T) {
	server, client := certificate(t)
	t.Run("client without", func(t *testing.T) {
		l, rejected := listen(t, Config{TLS: server})
		_, err := Dial(testContext(t), l.Addr().String(), Config{})
		require.ErrorContains(t, err, "TLS")
		require.ErrorAs(t, err, new(*PeerError), "the server has said so")
		require.ErrorIs(t, rejected.next(t), errPeerWithoutTLS)
	})
	t.Run("server without", func(t *testing.T) {
		l, rejected := listen(t, Config{})
		_, err := Dial(testContext(t), l.Addr().String(), Config{TLS: client})
		require.ErrorIs(t, err, errPeerWithoutTLS)
		require.ErrorContains(t, rejected.next(t), "looks like TLS")
	})
}

// TestTLSPeerThatDoesNotRead: closing doesn't wait for a peer over TLS that takes nothing, no more than without TLS.
func TestTLSPeerThatDoesNotRead(t *testing.T) {
	server, client := certificate(t)
	inTime(t, time.Second, func() time.Duration {
		l, _ := listen(t, Config{TLS: server})
		nc := tls.Client(dialRaw(t, l.Addr().String()), clientTLS(client, l.Addr().String()))
		write(t, nc, appendFrame(nil, frame{kind: kindHello}))
		c, err := l.Accept(testContext(t))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		t.Cleanup(func() { nc.NetConn().Close() }) // first, or Close would wait for the peer to go
		for i := 0; err == nil && i < 100; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), shortLimit)
			err = c.Send(ctx, make([]byte, DefaultMaxBlob))
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return closing(t, c)
	})
}

// TestTLSTurnAway: a peer hears over TLS, too, that there is no room, also while it sends.
func TestTLSTurnAway(t *testing.T) {
	server, client := certificate(t)
	for range 10 {
		s, c := pair(t, Config{TLS: server}, Config{TLS: client})
		errs := make(chan error, 1)
		go func() {
			for {
				if err := c.Send(testContext(t), make([]byte, 1000)); err != nil {
					errs <- err
					return
				}
			}
		}()
		require.NoError(t, s.TurnAway("no room"))
		var told *PeerError
		require.ErrorAs(t, <-errs, &told)
		require.True(t, told.Busy())
		require.NoError(t, c.Close())
	}
}

// TestTLSTooSlow: an end that dials and takes so long to shake hands that the Listener has hung up can tell that from other reasons.
func TestTLSTooSlow(t *testing.T) {
	t.Parallel()
	server, client := certificate(t)
	l, rejected := listen(t, Config{TLS: server})
	client.VerifyConnection = func(tls.ConnectionState) error {
		require.ErrorIs(t, rejected.next(t), context.DeadlineExceeded)
		return nil
	}
	_, err := Dial(testContext(t), l.Addr().String(), Config{TLS: client})
	require.ErrorIs(t, err, ErrTooSlow)
	require.ErrorContains(t, err, "is this host busy")
	for what, cfg := range map[string]Config{"soon": {TLS: client}, "without TLS": {}} {
		err := &Error{Op: "handshake with", Err: errNoHello}
		took := handshakeLimit
		if cfg.TLS != nil {
			took--
		}
		require.Equal(t, error(err), hungUp(err, cfg, took), what)
	}
}

// TestTLSMakesRoom: a peer that has shaken hands over TLS, and has to go for one of another host, hears that there may be room later, as it does
// without TLS.
func TestTLSMakesRoom(t *testing.T) {
	server, client := certificate(t)
	l, rejected := listen(t, Config{TLS: server})
	waiting := fillPlaces(t, l, Config{TLS: client})
	crowd(t, l, 1, false, "127.0.0.2")
	require.ErrorIs(t, rejected.next(t), errEvicted)
	var told *PeerError
	require.ErrorAs(t, ended(t, waiting[0], waitLimit), &told)
	require.True(t, told.Busy())
	for _, c := range waiting {
		require.NoError(t, c.Abort(""))
	}
}
