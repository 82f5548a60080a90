// Package nats is the engine of a crawl on several machines: NATS with JetStream, a server of its
// own or one in another process.
//
// Names, where c is that of the crawl:
//
//	cr.c.url.s.p  subject of the batches for partition p (four digits), in shard s = p mod shards
//	CR_c_URL_s    stream of a shard: a work queue in files; a message goes when it is acknowledged
//	n_node_epoch_boot  durable pull consumer: a subscription, in each shard with partitions of it
//	CR_c_lease    bucket of cluster.Leases, whose keys expire
//	CR_c_ctl      bucket of cluster.Control
//	cr.c.ack.node    subject of confirmations: numbers of 8 bytes, big-endian
//	cr.c.probe.node  subject of probes
//
// Streams and buckets that are missing are made by whoever misses them, with the configuration of
// the crawl: a server that has lost its store is used again, empty. Revisions of a new bucket begin
// at a random number, so that none of a lost one can be right in it.
package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"urltree/internal/cluster"
)

const (
	patience  = 5 * time.Second  // of a call that has no other limit
	duplicate = 10 * time.Second // in which a message with the same id is dropped
)

// Options say how to reach the servers.
type Options struct {
	Servers string // addresses separated by commas, nats://host:port or host:port
	Creds   string // file with credentials of NATS, or a line with a token or user:password; "": none
	TLS     TLS

	// Process, if set, is a server in this process; Servers and TLS do not count.
	Process nats.InProcessConnProvider
	// Log, if set, is called with what an operator may want to know: connections lost and regained.
	Log func(string)

	// Visit is set by a process that is no node. It makes no streams: without those of the crawl there
	// is cluster.ErrNoCrawl.
	Visit bool

	ackWait time.Duration // until what was delivered and not acknowledged is delivered again; 0: a minute
}

// A bus is a connection to the servers, as one node has it.
type bus struct {
	cfg     cluster.Config
	visit   bool // see Options
	ackWait time.Duration
	nc      *nats.Conn
	js      jetstream.JetStream

	mu          sync.Mutex
	reconnected map[chan struct{}]bool // guarded by mu; who waits to be told
	watching    chan struct{}          // guarded by mu; closed and replaced when the tables were made
}

var _ cluster.Bus = (*bus)(nil)

var crawlName = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// Connect returns the engine as a node uses it, with all that a crawl needs there. If there are
// streams and tables of the crawl already they stay as they are.
func Connect(ctx context.Context, o Options, cfg cluster.Config) (cluster.Bus, error) {
	if !crawlName.MatchString(cfg.Crawl) {
		return nil, fmt.Errorf("name of a crawl %q: 1 to 16 of a-z and 0-9", cfg.Crawl)
	}
	cfg.Shards = max(cfg.Shards, 1)
	b := &bus{cfg: cfg, visit: o.Visit, ackWait: o.ackWait, reconnected: map[chan struct{}]bool{}, watching: make(chan struct{})}
	if b.ackWait == 0 {
		b.ackWait = time.Minute
	}
	options, err := o.connection(b)
	if err != nil {
		return nil, err
	}
	where := o.Servers
	if o.Process != nil {
		where = "the engine of this process"
	}
	if b.nc, err = nats.Connect(o.Servers, options...); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if b.js, err = jetstream.New(b.nc, jetstream.WithDefaultTimeout(patience)); err == nil {
		err = b.ensure(ctx)
	}
	if err != nil {
		b.nc.Close()
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return b, nil
}

func (o *Options) connection(b *bus) ([]nats.Option, error) {
	say := o.Log
	if say == nil {
		say = func(string) {}
	}
	list := []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(patience),
		// What is said while there is no connection is an error at once, and never said late.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				say("connection to the engine lost: " + err.Error())
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			say("connected to the engine again")
			b.notify()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { say("engine: " + err.Error()) }),
	}
	if o.Process != nil {
		list = append(list, nats.InProcessServer(o.Process))
	} else if o.TLS != (TLS{}) {
		config, err := o.TLS.client()
		if err != nil {
			return nil, err
		}
		list = append(list, nats.Secure(config))
	}
	if o.Creds != "" {
		own, err := credentials(o.Creds)
		if err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	return list, nil
}

// credentials reads a file of credentials.
func credentials(file string) (nats.Option, error) {
	user, password, err := Secret(file)
	switch {
	case err != nil:
		return nil, err
	case user == "" && strings.HasPrefix(password, "-----BEGIN "):
		return nats.UserCredentials(file), nil
	case user == "":
		return nats.Token(password), nil
	}
	return nats.UserInfo(user, password), nil
}

// Secret reads a file with a token, which is returned as a password without user, or with
// user:password.
func Secret(file string) (user, password string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	line := strings.TrimSpace(string(text))
	if strings.HasPrefix(line, "-----BEGIN ") {
		return "", line, nil
	}
	if line == "" || strings.ContainsAny(line, "\n\r") {
		return "", "", fmt.Errorf("%s: want one line, a token or user:password, or a file of credentials of NATS", file)
	}
	if user, password, ok := strings.Cut(line, ":"); ok {
		return user, password, nil
	}
	return "", line, nil
}

// ensure makes the streams and tables that are missing. One that is there stays, whatever it was
// made with. A visitor makes none.
func (b *bus) ensure(ctx context.Context) error {
	fresh := false
	for _, cfg := range b.streams() {
		made, err := b.make(ctx, cfg)
		if err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
		fresh = fresh || made
	}
	if fresh {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.watching)
		b.watching = make(chan struct{})
	}
	return nil
}

// make makes a stream that is missing. A cluster without a leader does not answer at all.
func (b *bus) make(ctx context.Context, cfg jetstream.StreamConfig) (made bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = b.js.Stream(ctx, cfg.Name)
	switch {
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return false, err
	case b.visit:
		return false, fmt.Errorf("%w: %s", cluster.ErrNoCrawl, b.cfg.Crawl)
	}
	if _, err = b.js.CreateStream(ctx, cfg); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		err = nil // another node was first
	}
	return true, err
}

// streams returns what each stream of the crawl is made with. A bucket is a stream as well.
func (b *bus) streams() []jetstream.StreamConfig {
	var list []jetstream.StreamConfig
	for s := range b.cfg.Shards {
		list = append(list, jetstream.StreamConfig{
			Name: b.stream(s), Subjects: []string{fmt.Sprintf("cr.%s.url.%d.*", b.cfg.Crawl, s)},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: max(b.cfg.Replicas, 1),
			Discard: jetstream.DiscardNew, MaxBytes: b.maxBytes(), Duplicates: duplicate,
			MaxMsgs: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		})
	}
	for t, history := range map[cluster.Table]int64{cluster.Leases: 1, cluster.Control: 5} {
		cfg := jetstream.StreamConfig{
			Name: "KV_" + b.bucket(t), Subjects: []string{"$KV." + b.bucket(t) + ".>"},
			Storage: jetstream.FileStorage, Replicas: max(b.cfg.Replicas, 1), MaxMsgsPerSubject: history,
			Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true,
			MaxMsgs: -1, MaxConsumers: -1, MaxBytes: -1, MaxMsgSize: -1,
			FirstSeq: 1 + rand.Uint64N(1<<40),
		}
		if t == cluster.Leases {
			cfg.MaxAge, cfg.Duplicates = b.cfg.TTL, min(b.cfg.TTL, duplicate)
			cfg.AllowMsgTTL, cfg.SubjectDeleteMarkerTTL = true, max(b.cfg.TTL, time.Second)
		}
		list = append(list, cfg)
	}
	return list
}

// maxBytes returns the limit of one shard; -1: none.
func (b *bus) maxBytes() int64 {
	if b.cfg.MaxBytes <= 0 {
		return -1
	}
	return max(b.cfg.MaxBytes/int64(b.cfg.Shards), 1)
}

func (b *bus) stream(shard int) string { return fmt.Sprintf("CR_%s_URL_%d", b.cfg.Crawl, shard) }

func (b *bus) subject(part int) string {
	return fmt.Sprintf("cr.%s.url.%d.%04d", b.cfg.Crawl, part%b.cfg.Shards, part)
}

func (b *bus) bucket(t cluster.Table) string {
	if t == cluster.Leases {
		return "CR_" + b.cfg.Crawl + "_lease"
	}
	return "CR_" + b.cfg.Crawl + "_ctl"
}

// do calls f, and once more if it misses a stream that could be made. What is not answered in time
// has failed: a server that has just been elected does not know what the last one was asked.
func (b *bus) do(ctx context.Context, f func(context.Context) error) error {
	once := func() error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return f(ctx)
	}
	err := once()
	for _, missing := range []error{jetstream.ErrStreamNotFound, jetstream.ErrNoStreamResponse, jetstream.ErrBucketNotFound, nats.ErrNoResponders} {
		if errors.Is(err, missing) {
			if err := b.ensure(ctx); err != nil {
				return err
			}
			return once()
		}
	}
	return err
}

// hasCode reports whether the server has refused something with one of these numbers.
func hasCode(err error, codes ...jetstream.ErrorCode) bool {
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		return false
	}
	for _, code := range codes {
		if refused.ErrorCode == code {
			return true
		}
	}
	return false
}

func (b *bus) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.reconnected {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// listen returns a channel that has something after each reconnection.
func (b *bus) listen() (c chan struct{}, stop func()) {
	c = make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reconnected[c] = true
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.reconnected, c)
	}
}

func (b *bus) Reconnected(ctx context.Context, fn func()) {
	again, stop := b.listen()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			fn()
		}
	}
}

func (b *bus) Close() error {
	b.nc.Close()
	return nil
}
