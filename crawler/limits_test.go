package crawler_test

import (
	"net"
	"net/http"
	"strconv"
	"testing"
)

// listen serves addresses on one port, which it gives, until the test ends.
func listen(t testing.TB, handler http.Handler, addresses ...string) (port int) {
	t.Helper()
	server := &http.Server{Handler: handler}
	done := make(chan struct{}, len(addresses))
	for _, address := range addresses {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		go func() {
			_ = server.Serve(l)
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		_ = server.Close()
		for range addresses {
			<-done
		}
	})
	return port
}
