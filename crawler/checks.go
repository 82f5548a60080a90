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
		return fmt.Errorf("%w: Bind is %s, an address of this machine is needed: %w", ErrOptions, o.Bind, err)
	}
	return conn.Close()
}
