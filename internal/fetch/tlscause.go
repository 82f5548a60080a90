package fetch

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
)

// Reasons of failure that say more than TLS.
const (
	TLSName       = TLS + "-name"        // the certificate is of another host
	TLSExpired    = TLS + "-expired"     // the certificate is not valid any more, or not yet
	TLSSelfSigned = TLS + "-self-signed" // the certificate is signed by itself
	TLSAuthority  = TLS + "-authority"   // nobody who is trusted has signed the certificate
	TLSPlainHTTP  = TLS + "-plain-http"  // the server speaks HTTP without TLS at this port
)

// IsTLS reports whether a reason is TLS or one that says more.
func IsTLS(reason string) bool { return reason == TLS || strings.HasPrefix(reason, TLS+"-") }

// tlsCause returns the reason of an error of a TLS handshake.
func tlsCause(err error) string {
	record, _ := errors.AsType[tls.RecordHeaderError](err)
	_, isName := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	authority, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), string(record.RecordHeader[:]) == "HTTP/":
		return TLSPlainHTTP
	case isName:
		return TLSName
	case isInvalid && invalid.Reason == x509.Expired:
		return TLSExpired
	case isAuthority:
		if c := authority.Cert; c != nil && bytes.Equal(c.RawIssuer, c.RawSubject) {
			return TLSSelfSigned
		}
		return TLSAuthority
	}
	return TLS
}
