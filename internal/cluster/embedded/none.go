//go:build noembed

package embedded

import (
	"errors"
	"net"
)

// A Server is what a program without one has instead: nothing starts one.
type Server struct{}

// Start returns an error.
func Start(Options) (*Server, error) {
	return nil, errors.New("this program was built without an engine of its own (noembed): run nats-server and name its address")
}

// Addr returns "".
func (s *Server) Addr() string { return "" }

// InProcessConn returns an error.
func (s *Server) InProcessConn() (net.Conn, error) {
	return nil, errors.New("no engine in this process")
}

// Close does nothing.
func (s *Server) Close() error { return nil }
