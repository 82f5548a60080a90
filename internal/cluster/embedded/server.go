//go:build !noembed

package embedded

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"urltree/internal/cluster/nats"
)

// start is how long a server may take to read its store.
const start = 2 * time.Minute

// A Server is a server in this process.
type Server struct{ s *server.Server }

// Start starts a server. Each message and each write of a table is on the disk when it is answered.
func Start(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	host, text, _ := net.SplitHostPort(o.Listen)
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("address of the engine %q: the port is not a number up to 65535", o.Listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts := &server.Options{
		ServerName: "crawler", Host: host, Port: port, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: o.Dir, SyncAlways: true, JetStreamMaxMemory: 16 << 20,
	}
	if o.Creds != "" {
		user, password, err := nats.Secret(o.Creds)
		switch {
		case err != nil:
			return nil, err
		case strings.HasPrefix(password, "-----BEGIN "):
			return nil, fmt.Errorf("%s: an embedded engine takes a token or user:password, no file of credentials of NATS", o.Creds)
		case user == "":
			opts.Authorization = password
		default:
			opts.Username, opts.Password = user, password
		}
	}
	if o.TLS.Cert != "" {
		if opts.TLSConfig, err = o.TLS.Server(); err != nil {
			return nil, err
		}
		opts.TLSTimeout = 5
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	log := &logger{say: o.Log, fatal: make(chan string, 1)}
	s.SetLoggerV2(log, false, false, false)
	ready := make(chan bool, 1)
	go s.Start()
	go func() { ready <- s.ReadyForConnections(start) }()
	cause := ""
	select {
	case cause = <-log.fatal:
	case ok := <-ready:
		if ok {
			return &Server{s: s}, nil
		}
		cause = "it is not ready after " + start.String()
	}
	s.Shutdown()
	s.WaitForShutdown()
	return nil, fmt.Errorf("the engine on %s does not start: %s", o.Listen, cause)
}

// A logger passes on what goes wrong.
type logger struct {
	say   func(string) // may be nil
	fatal chan string  // of a server that cannot start
}

func (l *logger) Errorf(format string, v ...any) {
	if l.say != nil {
		l.say("engine: " + fmt.Sprintf(format, v...))
	}
}

func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}

func (l *logger) Warnf(format string, v ...any) { l.Errorf(format, v...) }
func (l *logger) Noticef(string, ...any)        {}
func (l *logger) Debugf(string, ...any)         {}
func (l *logger) Tracef(string, ...any)         {}

// Addr returns where the server listens, as host:port.
func (s *Server) Addr() string { return s.s.Addr().String() }

// InProcessConn returns a connection to the server that needs no network.
func (s *Server) InProcessConn() (net.Conn, error) { return s.s.InProcessConn() }

// Close stops the server. What it has answered stays in its folder.
func (s *Server) Close() error {
	s.s.Shutdown()
	s.s.WaitForShutdown()
	return nil
}
