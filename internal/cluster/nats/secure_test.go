package nats_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/embedded"
	"urltree/internal/cluster/nats"
)

// An authority makes certificates, as files of a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.pem and NAME.key. The first certificate is the one that signs the others.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if a.cert == nil {
		a.cert, a.key = c, private
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.IsCA {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSecure: with credentials and certificates nobody gets in without them, nor is anything but
// the server with its certificate believed.
func TestSecure(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "server", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	clientCert, clientKey := a.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	foreignCert, foreignKey := foreign.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	ca, foreignCA := filepath.Join(a.dir, "ca.pem"), filepath.Join(foreign.dir, "ca.pem")

	for _, secret := range []string{"a token\n", "user:pass:word"} {
		creds := write(t, secret)
		server, err := embedded.Start(embedded.Options{
			Dir: t.TempDir(), Listen: "127.0.0.1:0", Creds: creds, TLS: nats.TLS{CA: ca, Cert: cert, Key: key},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		for _, tt := range []struct {
			name   string
			o      nats.Options
			failed string // part of the error
		}{
			{"all", nats.Options{Creds: creds, TLS: nats.TLS{CA: ca, Cert: clientCert, Key: clientKey}}, ""},
			{"in the same process", nats.Options{Creds: creds, Process: server}, ""},
			{"no credentials", nats.Options{TLS: nats.TLS{CA: ca, Cert: clientCert, Key: clientKey}}, "Authorization"},
			{"wrong ones", nats.Options{Creds: write(t, "user:pass"), TLS: nats.TLS{CA: ca, Cert: clientCert, Key: clientKey}}, "Authorization"},
			{"no certificate", nats.Options{Creds: creds, TLS: nats.TLS{CA: ca}}, "tls"},
			{"certificate of others", nats.Options{Creds: creds, TLS: nats.TLS{CA: ca, Cert: foreignCert, Key: foreignKey}}, "tls"},
			{"server that others trust", nats.Options{Creds: creds, TLS: nats.TLS{CA: foreignCA, Cert: clientCert, Key: clientKey}}, "certificate"},
			{"no file", nats.Options{Creds: filepath.Join(a.dir, "none")}, "none"},
			{"file of two lines", nats.Options{Creds: write(t, "a\nb")}, "one line"},
			{"file that is no certificate", nats.Options{TLS: nats.TLS{CA: creds}}, "no certificates"},
		} {
			tt.o.Servers = server.Addr()
			bus, err := nats.Connect(within(t), tt.o, config)
			if err == nil {
				_ = bus.Close()
			}
			if (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.failed)
			}
		}
	}
}

// TestListen: an engine that other machines can reach needs credentials and a certificate.
func TestListen(t *testing.T) {
	t.Parallel()
	creds := write(t, "token")
	taken := freeAddress()
	first, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Listen: taken})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	for _, tt := range []struct {
		o      embedded.Options
		failed string
	}{
		{embedded.Options{Listen: "0.0.0.0:0"}, "credentials"},
		{embedded.Options{Listen: ":0"}, "credentials"},
		{embedded.Options{Listen: "[::]:0", Creds: creds}, "credentials"},
		{embedded.Options{Listen: "192.0.2.1:0", TLS: nats.TLS{Cert: "c", Key: "k"}}, "credentials"},
		{embedded.Options{Listen: "127.0.0.1"}, "host:port"},
		{embedded.Options{Listen: "127.0.0.1:http"}, "port"},
		{embedded.Options{Listen: "127.0.0.1:0", Creds: write(t, "-----BEGIN NATS USER JWT-----\nx")}, "token"},
		{embedded.Options{Listen: taken}, "in use"},
	} {
		tt.o.Dir = t.TempDir()
		s, err := embedded.Start(tt.o)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.failed) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.failed)
		}
	}
}

// TestConnectErrors: what is wrong is said at once, with the address.
func TestConnectErrors(t *testing.T) {
	t.Parallel()
	nobody := freeAddress()
	if _, err := nats.Connect(within(t), nats.Options{Servers: nobody}, config); err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("nobody there: %v", err)
	}
	for _, name := range []string{"", "A", "a.b", "a_b", "a b", strings.Repeat("a", 17)} {
		if _, err := nats.Connect(within(t), nats.Options{Servers: nobody}, cluster.Config{Crawl: name}); err == nil || !strings.Contains(err.Error(), "name of a crawl") {
			t.Errorf("crawl %q: %v", name, err)
		}
	}
}
