// Package embedded is a server of package nats in this process, for a crawl on a few machines
// without one that does nothing else. Programs that are built with the tag noembed are about 10 MB
// smaller and have none.
package embedded

import (
	"errors"
	"fmt"
	"net"

	"urltree/internal/cluster/nats"
)

// Options say where a server keeps its messages, and who may reach it.
type Options struct {
	Dir    string // folder of its store; made if it is missing
	Listen string // host:port for the other nodes; port 0: any
	Creds  string // file with a token or user:password that clients must know; "": none
	TLS    nats.TLS
	Log    func(string) // if set, called with what goes wrong in the server
}

// check returns an error for a server that anybody could use.
func (o *Options) check() error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("address of the engine %q: want host:port", o.Listen)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	if o.Creds == "" || o.TLS.Cert == "" {
		return errors.New("an engine that listens on " + o.Listen +
			" can be reached by other machines: it needs credentials, and a certificate with its key")
	}
	return nil
}
