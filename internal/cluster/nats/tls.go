package nats

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS has the files for encrypted connections.
type TLS struct {
	CA   string // certificates that the other side's must be signed by; "": those of the system
	Cert string // our certificate; a client may do without
	Key  string // its key
}

func (t TLS) client() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pool, err := t.pool()
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (t TLS) pool() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificates in PEM form", t.CA)
	}
	return pool, nil
}

// Server returns what a server needs. With CA its clients must have a certificate as well.
func (t TLS) Server() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.CA != "" {
		pool, err := t.pool()
		if err != nil {
			return nil, err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}
