package fetch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// TestTLSCauses shakes hands with servers whose certificates are wrong in one way each.
func TestTLSCauses(t *testing.T) {
	t.Parallel()
	sign := func(c, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, parentKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	now := time.Now()
	certificate := func(name string, until time.Time) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: now.Add(-2 * time.Hour), NotAfter: until,
		}
	}
	authority := func(name string) *x509.Certificate {
		c := certificate(name, now.Add(time.Hour))
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		return c
	}
	ca, caKey := sign(authority("trusted"), nil, nil)
	other, otherKey := sign(authority("other"), nil, nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	good := certificate("good.test", now.Add(time.Hour))
	for _, tt := range []struct {
		name      string
		c         *x509.Certificate
		parent    *x509.Certificate
		parentKey *ecdsa.PrivateKey
		want      string // "": the handshake succeeds
	}{
		{"good", good, ca, caKey, ""},
		{"name", certificate("other.test", now.Add(time.Hour)), ca, caKey, TLSName},
		{"expired", certificate("good.test", now.Add(-time.Hour)), ca, caKey, TLSExpired},
		{"self-signed", good, nil, nil, TLSSelfSigned},
		{"authority", good, other, otherKey, TLSAuthority},
	} {
		c, key := sign(tt.c, tt.parent, tt.parentKey)
		err := shake(t, roots, func(conn net.Conn) {
			_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}}).Handshake()
		})
		if err == nil || tt.want == "" {
			if err != nil || tt.want != "" {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if got, passing := classify(err); got != tt.want || passing || !IsTLS(got) {
			t.Errorf("%s: %s, passing %v, want %s: %v", tt.name, got, passing, tt.want, err)
		}
	}
	for answer, want := range map[string]string{"HTTP/1.0 400 Bad Request\r\n\r\n": TLSPlainHTTP, "220 mail.test ESMTP\r\n": TLS} {
		err := shake(t, roots, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte(answer))
		})
		if err == nil {
			t.Errorf("%q: no error", answer)
		} else if got, passing := classify(err); got != want || passing {
			t.Errorf("%q: %s, passing %v, want %s: %v", answer, got, passing, want, err)
		}
	}
	if IsTLS("timeout") || IsTLS("tlsx") || !IsTLS(TLS) {
		t.Error("IsTLS is wrong")
	}
}

// shake returns the error of a handshake as a client of good.test with a server.
func shake(t *testing.T, roots *x509.CertPool, serve func(net.Conn)) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		serve(conn)
	}()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	err = tls.Client(conn, &tls.Config{ServerName: "good.test", RootCAs: roots}).Handshake()
	conn.Close()
	<-served
	return err
}
