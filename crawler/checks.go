package crawler

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"mime"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"urltree/crawler/scope"
)

// checkContents says what is wrong with the options of what is followed and stored. It gives the
// media types of Accept their one spelling.
func (o *Options) checkContents() error {
	if o.Scope < scope.Any || o.Scope > scope.Prefix {
		return fmt.Errorf("%w: Scope is %d, one of scope.Any, Domain, Host and Prefix is needed", ErrOptions, int(o.Scope))
	}
	if o.SeedsOnly && o.MaxDepth != 0 {
		return fmt.Errorf("%w: MaxDepth is %d, and SeedsOnly leaves nothing to it: one of them must be unset", ErrOptions, o.MaxDepth)
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
	if err := errors.Join(
		oneOf("Order", o.Order, Orders),
		oneOf("ScoreBy", o.ScoreBy, Scores),
		oneOf("Queue", o.Queue, Queues),
		oneOf("Pick", o.Pick, Picks),
		oneOf("Store", o.Store, Stores),
		oneOf("Network", o.Network, []Network{NetworkIPv4, NetworkIPv6}),
		oneOf("NoFollow", o.NoFollow, []NoFollow{NoFollowPage, NoFollowAll, NoFollowNone}),
	); err != nil {
		return err
	}
	if strings.ContainsAny(o.WARC.Operator, "\r\n") {
		return fmt.Errorf("%w: WARC.Operator has more than a line", ErrOptions)
	}
	return nil
}

// oneOf says that an option has none of its values. "" stands for the default.
func oneOf[S ~string](name string, value S, list []S) error {
	if value != "" && !slices.Contains(list, value) {
		return fmt.Errorf("%w: %s is %q, one of %q is needed", ErrOptions, name, value, list)
	}
	return nil
}

// checkNumbers says which number is too small or too large. One that has a default is at least 1,
// and any other one at least 0, but where less has a meaning.
func (o *Options) checkNumbers() error {
	if o.WARC.Size < 1 {
		return fmt.Errorf("%w: WARC.Size is %d, at least 1, or 0 for its default, is needed", ErrOptions, o.WARC.Size)
	}
	if o.Retries > mostRetries {
		return fmt.Errorf("%w: Retries is %d, at most %d are counted", ErrOptions, o.Retries, mostRetries)
	}
	if o.RecrawlMin < time.Second || o.RecrawlMax < o.RecrawlMin || o.RecrawlMax > mostRecrawl {
		return fmt.Errorf("%w: RecrawlMin is %s and RecrawlMax %s: at least 1s, and at most %s, can be counted, in this order", ErrOptions, o.RecrawlMin, o.RecrawlMax, mostRecrawl)
	}
	if o.Recrawl > mostRecrawl {
		return fmt.Errorf("%w: Recrawl is %s, at most %s can be counted", ErrOptions, o.Recrawl, mostRecrawl)
	}
	if o.RecrawlShare > 100 {
		return fmt.Errorf("%w: RecrawlShare is %d, of 100", ErrOptions, o.RecrawlShare)
	}
	if o.RecrawlShare != 0 && (o.Order == OrderTree || o.Step != 0) {
		return fmt.Errorf("%w: RecrawlShare is not for OrderTree or Step", ErrOptions)
	}
	return checkGroup(reflect.ValueOf(o).Elem(), reflect.ValueOf(DefaultOptions()))
}

// leasts are the least values of numbers for which that is neither 0, nor 1 with a default.
var leasts = map[string]int64{
	"MemoryBodies": 64 << 10, "FrontierBytes": 64 << 10, "SeenBytes": 32 << 10, "Recrawl": RecrawlAuto, "Versions": AllVersions,
	"MinFree": math.MinInt64, "MinFreeInodes": math.MinInt64, "Delay": math.MinInt64, "Retries": math.MinInt64,
}

// checkGroup checks the numbers of Options or of a group of them, against its defaults.
func checkGroup(values, usual reflect.Value) error {
	for i := range values.NumField() {
		value, field := values.Field(i), values.Type().Field(i)
		if field.Anonymous {
			if err := checkGroup(value, usual.Field(i)); err != nil {
				return err
			}
		}
		if !value.CanInt() {
			continue
		}
		least, named := leasts[field.Name]
		if !named && !usual.Field(i).IsZero() {
			least = 1
		}
		if v := value.Int(); v < least {
			zero := ""
			if least > 0 {
				zero = ", or 0 for its default,"
			}
			return fmt.Errorf("%w: %s is %d, at least %d%s is needed", ErrOptions, field.Name, v, least, zero)
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
	if len(o.Seeds) == 0 && o.MoreSeeds == nil && len(o.Archives) == 0 && o.Cluster == nil {
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
