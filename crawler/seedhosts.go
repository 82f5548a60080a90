package crawler

import (
	"strings"
)

// seedOrigin reports whether a seed has this origin, as [record.Origin] returns it. The target of
// a seed's redirect is no seed. It costs one look-up in the index. An index that cannot be read
// ends the crawl.
func (e *engine) seedOrigin(origin string) bool {
	return e.seedIs(e.store.index.Seeds().HasOrigin(origin))
}

// seedHost is seedOrigin for a host name or address, without brackets, at any scheme and port.
func (e *engine) seedHost(host string) bool {
	return e.seedIs(e.store.index.Seeds().HasHost(bracketed(host)))
}

// seedServer is seedOrigin for a host name or address, without brackets, and a port, at any scheme.
func (e *engine) seedServer(host, port string) bool {
	for scheme, usual := range map[string]string{"http": "80", "https": "443"} {
		origin := scheme + "://" + bracketed(host)
		if port != usual {
			origin += ":" + port
		}
		if e.seedOrigin(origin) {
			return true
		}
	}
	return false
}

// guard reports whether a server may have an internal address: a seed names it, and its name had
// one when it was first looked up. See [fetch.Options].
func (e *engine) guard(host, port string, private bool) bool {
	if e.opts.AllowPrivate {
		return true
	}
	return e.seedServer(host, port) && e.seedIs(e.frontier.Private(bracketed(host), private))
}

// seedIs returns an answer of the index.
func (e *engine) seedIs(yes bool, err error) bool {
	if err != nil {
		e.ends.fail(err)
	}
	return yes
}

// bracketed returns a host as URLs have it.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
