package storage

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"

	"urltree/internal/disk"
	"urltree/storage/record"
)

// asks returns a Watch of a disk that has room as long as ask, which it asks each time, returns
// nil; the error of ask is that of waiting for room.
func asks(ask func() error) *disk.Watch {
	ctx, full := context.WithCancelCause(context.Background())
	w := disk.NewWatch(ctx, disk.Limits{}, disk.Space{Bytes: 1}, slog.New(slog.DiscardHandler))
	if _, err := w.FS("", func() (disk.FS, error) { return asking{ask: ask, full: full}, nil }); err != nil {
		panic(err)
	}
	return w
}

type asking struct {
	disk.FS
	ask  func() error
	full context.CancelCauseFunc
}

func (a asking) Free() (bytes, inodes uint64, err error) {
	if err := a.ask(); err != nil {
		a.full(err)
		return 0, 0, nil
	}
	return 1 << 40, 1 << 40, nil
}

// TestRoomBeforeEachTransaction: before a transaction writes records, the index asks for room;
// where there is none, nothing is written.
func TestRoomBeforeEachTransaction(t *testing.T) {
	full := errors.New("full")
	asked, rooms := 0, 0
	x, path := newInbox(t, 100)
	scattered(t, x, rand.New(rand.NewPCG(4, 4)), 90)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, path, Options{NoSync: true, Inbox: 100, Watch: asks(func() error {
		if asked++; asked > rooms {
			return full
		}
		return nil
	})})
	var rows []record.Row
	for name, write := range map[string]func() error{
		"Commit": func() error {
			done, err := x.Commit([]*record.Outcome{{Links: []record.Link{{URL: "http://new.org/", Source: record.Seed}}}})
			rows = done.Fresh
			return err
		},
		"Release": func() error { return x.Release(rows, nil) },
		"Reopen": func() error {
			_, err := x.Reopen(context.Background(), nil, func(*record.Record) bool { return false }, nil)
			return err
		},
		"Rerank": func() error {
			_, err := x.Rerank(context.Background(), 1, func(string) (uint64, bool) { return 0, false })
			return err
		},
		"AddAreas": func() error { return x.Seeds().AddAreas([]string{"a"}) },
		"Fill":     func() error { return x.Fill(func(*Filler) error { return nil }) },
		"Settle":   func() error { return x.Settle(context.Background()) },
	} {
		asked, rooms = 0, 0
		before, err := x.Transaction()
		if err != nil {
			t.Fatal(err)
		}
		if err := write(); !errors.Is(err, full) || asked != 1 {
			t.Errorf("%s: %v, asked %d times; want %v, once", name, err, asked, full)
		}
		if after, err := x.Transaction(); err != nil || after != before {
			t.Errorf("%s: %d transactions without room: %v", name, after-before, err)
		}
	}
	asked, rooms = 0, 100
	if _, err := x.Commit(nil); err != nil || asked == 0 {
		t.Errorf("with room: %v, asked %d times", err, asked)
	}
}
