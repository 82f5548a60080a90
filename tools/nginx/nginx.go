// Package nginx serves a folder on a loopback address, by TLS if that is wanted, and tells what was
// asked for. It needs nginx, taskset and, as nginx has it, root.
package nginx

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"urltree/tools/machine"
)

// config has nginx as it comes, with three differences. The log says what was asked: $uri is the
// file, index.html of a folder included, without the query. And a file that is neither page nor
// asset has a type of its own, since a crawler may look into application/octet-stream for text.
// And a connection lasts: some tools lose what they have asked for by HTTP/2 when it ends, after a
// thousand requests.
const config = `
daemon off;
user root;
worker_processes 1;
pid nginx.pid;
events { worker_connections 1024; }
http {
	types {
		text/html html htm;
		text/plain txt;
		text/css css;
		application/javascript js;
		application/xhtml+xml xhtml;
		application/xml xml;
		image/png png;
		image/gif gif;
		image/jpeg jpg jpeg;
		image/svg+xml svg;
	}
	default_type application/x-other;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 10000000;
	log_format found escape=none '$request_method\t$status\t$sent_http_content_type\t$uri';
	access_log served.log found buffer=256k;
	client_body_temp_path temp;
	fastcgi_temp_path temp;
	proxy_temp_path temp;
	scgi_temp_path temp;
	uwsgi_temp_path temp;
	server {
		listen %s;
		root "%s";
		%s
	}
}
`

// A Server is nginx with a log of its own.
type Server struct {
	URL string // of the root

	log string
	cmd *exec.Cmd
}

// A Web says how a folder is served. The zero value is plain HTTP/1.1.
type Web struct {
	TLS   bool // with a certificate of its own, which no client knows
	HTTP2 bool // for who asks for it, with TLS
	Gzip  bool // for who takes it
}

// Start serves the folder root, an absolute path, on a free port, pinned to a core and with a
// priority of machine.Pinned, and returns when it listens. Its files lie in a new folder below
// work. The caller must Stop it.
func Start(ctx context.Context, work, root string, core, priority int, web Web) (*Server, error) {
	folder, err := os.MkdirTemp(work, "nginx-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	scheme, listen, options := "http", address, ""
	if web.TLS {
		scheme, listen, options = "https", listen+" ssl", "ssl_certificate cert.pem; ssl_certificate_key key.pem;"
		if err := writeCertificate(folder); err != nil {
			return nil, err
		}
	}
	if web.HTTP2 {
		listen += " http2"
	}
	if web.Gzip {
		options += " gzip on; gzip_types *;"
	}
	file := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, listen, root, options), 0o644); err != nil {
		return nil, err
	}
	s := &Server{URL: scheme + "://" + address + "/", log: filepath.Join(folder, "served.log")}
	argv := machine.Pinned(strconv.Itoa(core), priority, "nginx", "-p", folder, "-e", "error.log", "-c", file)
	s.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = 10 * time.Second
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 { // five seconds
		if c, err := net.Dial("tcp", address); err == nil {
			return s, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	said, _ := os.ReadFile(filepath.Join(folder, "error.log"))
	return nil, errors.Join(fmt.Errorf("nginx does not listen; it said: %s", said), s.Stop())
}

// Stop ends the server, which writes the rest of its log.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return fmt.Errorf("nginx: %w", err)
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("nginx: %w", err)
	}
	return nil
}

// Served returns the files of HTML and text that were asked for and given, each as its path from
// the root, and the number of all requests. The server must have stopped.
func (s *Server) Served() (files map[string]bool, requests int, err error) {
	f, err := os.Open(s.log)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	files = map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		requests++
		part := strings.SplitN(lines.Text(), "\t", 4)
		if len(part) < 4 || part[0] != "GET" || part[1] != "200" {
			continue
		}
		switch media, _, _ := strings.Cut(part[2], ";"); media {
		case "text/html", "text/plain", "application/xhtml+xml":
			files[part[3]] = true
		}
	}
	return files, requests, lines.Err()
}

// writeCertificate writes a certificate of 127.0.0.1 that signs itself, and its key, both of the
// kind that most of the web has.
func writeCertificate(folder string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(folder, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
