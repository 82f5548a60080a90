package crawler

import (
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"urltree/crawler/scope"
)

// checkContents says what is wrong with the options of what is followed and stored. It gives the
// media types of Accept their one spelling.
func (o *Options) checkContents() error {
	if o.Scope < scope.Any || o.Scope > scope.Prefix {
		return fmt.Errorf("%w: Scope is %d, one of scope.Any, Domain, Host and Prefix is needed", ErrOptions, int(o.Scope))
	}
	if o.MaxURL > maxRecord {
		return fmt.Errorf("%w: MaxURL is %d, at most %d bytes can be kept", ErrOptions, o.MaxURL, maxRecord)
	}
	o.Accept = slices.Clone(o.Accept)
	for i, text := range o.Accept {
		media, params, err := mime.ParseMediaType(text)
		major, minor, ok := strings.Cut(media, "/")
		if err != nil || !ok || len(params) > 0 || major == "*" && minor != "*" {
			return fmt.Errorf("%w: %q in Accept is no media type such as text/html, text/* or */*", ErrOptions, text)
		}
		o.Accept[i] = media
	}
	return nil
}

// checkWords says what is wrong with options that have a few values.
func (o *Options) checkWords() error {
	if !slices.Contains([]string{"", "tcp4", "tcp6"}, o.Network) {
		return fmt.Errorf("%w: Network is %q, tcp4 or tcp6 is needed", ErrOptions, o.Network)
	}
	if !slices.Contains([]string{"page", "all", "none"}, o.NoFollow) {
		return fmt.Errorf("%w: NoFollow is %q, page, all or none is needed", ErrOptions, o.NoFollow)
	}
	return nil
}

// checkNumbers says which number is too small or too large.
func (o *Options) checkNumbers() error {
	if o.Retries > mostRetries {
		return fmt.Errorf("%w: Retries is %d, at most %d are counted", ErrOptions, o.Retries, mostRetries)
	}
	for _, c := range []struct {
		name  string
		v     int64
		least int64
	}{
		{"Time", int64(o.Time), 0},
		{"Buffers", int64(o.Buffers), 1},
		{"BufferSize", int64(o.BufferSize), 1},
		{"BufferBytes", o.BufferBytes, 1},
		{"FlushInterval", int64(o.FlushInterval), 1},
		{"Crawlers", int64(o.Crawlers), 1},
		{"Downloads", int64(o.Downloads), 1},
		{"MemoryBodies", o.MemoryBodies, 64 << 10},
		{"FrontierBytes", o.FrontierBytes, 64 << 10},
		{"SeenBytes", o.SeenBytes, 32 << 10},
		{"MaxPages", o.MaxPages, 0},
		{"MaxBytes", o.MaxBytes, 0},
		{"MaxSize", o.MaxSize, 1},
		{"Timeout", int64(o.Timeout), 1},
		{"PerHost", int64(o.PerHost), 1},
		{"PerIP", int64(o.PerIP), 0},
		{"FirstByte", int64(o.FirstByte), 0},
		{"MinRate", o.MinRate, 0},
		{"MaxWait", int64(o.MaxWait), 1},
		{"MaxDelay", int64(o.MaxDelay), 1},
		{"MaxURL", int64(o.MaxURL), 1},
		{"LimitRate", o.LimitRate, 0},
		{"Queues", int64(o.Queues), 1},
		{"Parsers", int64(o.Parsers), 0},
		{"QueueSize", int64(o.QueueSize), 0},
	} {
		if c.v < c.least {
			zero := ""
			if c.least > 0 {
				zero = ", or 0 for its default,"
			}
			return fmt.Errorf("%w: %s is %d, at least %d%s is needed", ErrOptions, c.name, c.v, c.least, zero)
		}
	}
	return nil
}

// checkFolders finds out before anything is made whether there is a folder for the results, and
// whether a tree that is not there yet gets seeds and needs no ranks.
func (o *Options) checkFolders() error {
	if o.NoTree {
		return nil
	}
	folder := filepath.Dir(o.Output)
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && !info.IsDir():
		return fmt.Errorf("%w: Output is %s, and there is no folder %s", ErrOptions, o.Output, folder)
	}
	if len(o.Seeds) == 0 && o.MoreSeeds == nil {
		switch list, err := os.ReadDir(o.Tree); {
		case errors.Is(err, fs.ErrNotExist), err == nil && len(list) == 0:
			return ErrNoWork
		}
	}
	if !o.ranked() {
		return nil
	}
	ranks, err := o.openRanks()
	if err != nil {
		return err
	}
	return ranks.Close()
}

// checkBind finds out before anything is made whether connections can come from Bind; from an
// address that the machine lacks every host would seem not to be reached.
func (o *Options) checkBind() error {
	if !o.Bind.IsValid() {
		return nil
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(o.Bind, 0)))
	if err != nil {
		return fmt.Errorf("%w: to bind to %s, an address of this machine is needed: %w", ErrOptions, o.Bind, err)
	}
	return conn.Close()
}
