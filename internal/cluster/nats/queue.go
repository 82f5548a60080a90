package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"urltree/internal/cluster"
	"urltree/internal/cluster/batch"
)

// Numbers of errors that jetstream has no names for.
const (
	notUnique        = 10100 // a consumer of a work queue would get what another one gets
	storeFailed      = 10077 // also for a stream that is full
	noResources      = 10023
	noStorage        = 10047
	consumerNotFound = jetstream.JSErrCodeConsumerNotFound
)

const (
	mostHeld = 512       // batches that a subscription has and has not acknowledged
	inactive = time.Hour // after which the server removes the consumer of a node that is gone
	prefetch = 64        // batches that wait in the client, by shard
	lifeSign = time.Second
)

// Publish sends a batch under an id of its own: one that is published again must not be taken for a
// repeat, since the first one may have been lost.
func (b *bus) Publish(ctx context.Context, it cluster.Batch) error {
	m := nats.NewMsg(b.subject(it.Partition))
	m.Header.Set("B", it.Sender+"/"+strconv.FormatUint(it.Number, 10))
	m.Header.Set("C", cmp.Or(it.Schema, batch.Schema))
	m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%s.%d.%d", it.Sender, it.Boot, it.Number, it.Try))
	m.Data = it.Body
	err := b.do(ctx, func(ctx context.Context) error {
		_, err := b.js.PublishMsg(ctx, m)
		return err
	})
	if hasCode(err, storeFailed, noResources, noStorage) {
		return fmt.Errorf("%w: %w", cluster.ErrFull, err)
	}
	return err
}

// parse makes a batch of a message. One that has not the form of ours has a schema that nobody
// knows.
func parse(m jetstream.Msg) cluster.Batch {
	h := m.Headers()
	it := cluster.Batch{Schema: cmp.Or(h.Get("C"), "none"), Body: m.Data()}
	sender, number, _ := strings.Cut(h.Get("B"), "/")
	id := strings.Split(h.Get(nats.MsgIdHdr), ".")
	var errs [3]error
	it.Sender = sender
	it.Number, errs[0] = strconv.ParseUint(number, 10, 64)
	if len(id) == 4 {
		it.Boot = id[1]
		it.Try, errs[1] = strconv.Atoi(id[3])
	}
	it.Partition, errs[2] = strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
	if errs != [3]error{} || len(id) != 4 {
		it.Schema = "none"
	}
	return it
}

var consumerName = regexp.MustCompile(`^n_([A-Za-z0-9-]+)_([0-9]+)_([A-Za-z0-9-]+)$`)

func consumer(s cluster.Subscriber) string { return fmt.Sprintf("n_%s_%d_%s", s.Node, s.Epoch, s.Boot) }

func (b *bus) Subscribe(ctx context.Context, by cluster.Subscriber, parts []int) (cluster.Subscription, error) {
	name := consumer(by)
	if !consumerName.MatchString(name) {
		return nil, fmt.Errorf("subscription %q: names of nodes have letters, digits and hyphens", name)
	}
	subjects := make([][]string, b.cfg.Shards)
	for _, p := range parts {
		s := p % b.cfg.Shards
		subjects[s] = append(subjects[s], b.subject(p))
	}
	s := &subscription{b: b, name: name, got: make(chan jetstream.Msg), fenced: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(context.Background())
	err := b.do(ctx, func(ctx context.Context) error { return s.open(ctx, subjects) })
	if err != nil {
		_ = s.Close()
		if hasCode(err, notUnique) {
			err = fmt.Errorf("%w: %w", cluster.ErrOwned, err)
		}
		return nil, err
	}
	return s, nil
}

// Fence removes consumers. The server does so before it answers.
func (b *bus) Fence(ctx context.Context, node string, before uint64) error {
	return b.do(ctx, func(ctx context.Context) error {
		for shard := range b.cfg.Shards {
			stream, err := b.js.Stream(ctx, b.stream(shard))
			if err != nil {
				return err
			}
			names := stream.ConsumerNames(ctx)
			var old []string
			for name := range names.Name() {
				if m := consumerName.FindStringSubmatch(name); m != nil && m[1] == node {
					if epoch, err := strconv.ParseUint(m[2], 10, 64); err == nil && epoch < before {
						old = append(old, name)
					}
				}
			}
			if err := names.Err(); err != nil {
				return err
			}
			for _, name := range old {
				if err := remove(ctx, b.js, b.stream(shard), name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// remove removes a consumer that may be there.
func remove(ctx context.Context, js jetstream.JetStream, stream, name string) error {
	err := js.DeleteConsumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// A subscription is a consumer in each shard, with a goroutine that takes messages from it.
type subscription struct {
	b      *bus
	name   string
	ctx    context.Context
	end    context.CancelFunc
	shards []int
	got    chan jetstream.Msg

	readers sync.WaitGroup
	once    sync.Once
	fenced  chan struct{} // closed when one of the consumers is gone
}

// open makes the consumers. A filter that is added to a consumer does not offer what waits already,
// so they are always made anew.
func (s *subscription) open(ctx context.Context, subjects [][]string) error {
	for shard, filter := range subjects {
		if slices.Contains(s.shards, shard) {
			continue // made before another shard turned out to be missing
		}
		if err := remove(ctx, s.b.js, s.b.stream(shard), s.name); err != nil {
			return err
		}
		if len(filter) == 0 {
			continue // a consumer without a filter would get all
		}
		c, err := s.b.js.CreateConsumer(ctx, s.b.stream(shard), jetstream.ConsumerConfig{
			Durable: s.name, FilterSubjects: filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.b.ackWait,
			DeliverPolicy: jetstream.DeliverAllPolicy, MaxAckPending: mostHeld, InactiveThreshold: inactive,
		})
		if err != nil {
			return err
		}
		s.shards = append(s.shards, shard)
		messages, err := c.Messages(jetstream.PullMaxMessages(prefetch), jetstream.PullHeartbeat(lifeSign))
		if err != nil {
			return err
		}
		s.readers.Go(func() { s.read(c, messages) })
	}
	return nil
}

// read passes on messages of one shard until the subscription is closed or its consumer is gone.
func (s *subscription) read(c jetstream.Consumer, messages jetstream.MessagesContext) {
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(s.ctx))
		switch {
		case err == nil:
			select {
			case s.got <- m:
			case <-s.ctx.Done():
				return
			}
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			// The server is away, or has another store than before.
			if _, err := c.Info(s.ctx); errors.Is(err, jetstream.ErrStreamNotFound) || hasCode(err, consumerNotFound) {
				s.fence()
				return
			}
		default:
			s.fence()
			return
		}
	}
}

func (s *subscription) fence() { s.once.Do(func() { close(s.fenced) }) }

func (s *subscription) Next(ctx context.Context, most int) ([]cluster.Delivery, error) {
	var list []cluster.Delivery
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.fenced:
		return nil, cluster.ErrFenced
	case m := <-s.got:
		list = append(list, &delivery{m: m, batch: parse(m)})
	}
	for len(list) < most {
		select {
		case m := <-s.got:
			list = append(list, &delivery{m: m, batch: parse(m)})
		default:
			return list, nil
		}
	}
	return list, nil
}

// Close removes the consumers, so that others get what they have not acknowledged.
func (s *subscription) Close() error {
	s.end()
	s.readers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, shard := range s.shards {
		errs = append(errs, remove(ctx, s.b.js, s.b.stream(shard), s.name))
	}
	return errors.Join(errs...)
}

type delivery struct {
	m     jetstream.Msg
	batch cluster.Batch
}

func (d *delivery) Batch() cluster.Batch { return d.batch }

// Ack does not wait for an answer: if it is lost, the batch is delivered again, and merging it
// again changes nothing.
func (d *delivery) Ack(context.Context) error { return once(d.m.Ack()) }

func (d *delivery) Nak(_ context.Context, delay time.Duration) error {
	return once(d.m.NakWithDelay(delay))
}

// once returns nil for what was said already: the first word counts.
func once(err error) error {
	if errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return nil
	}
	return err
}
