package cleaner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"urltree/internal/disk"
	"urltree/storage"
	"urltree/storage/record"
)

// Steps say what Clean works on.
type Steps struct {
	// Drain writes all that is left in the buffers into the tree and commits it; it returns when
	// nothing writes to the index any more. nil: nothing is left.
	Drain func(context.Context) error
	Index *storage.Index
	Files Files
	Root  string // folder of the tree, which the statistics name; "": they name none
	// Watch reports calls to the disk that hang, but for those to a stream; nil: nothing does.
	Watch *disk.Watch
	// Figures returns what the engine knows of the run, once it is drained; nil: nothing.
	Figures func() RunFigures
	// Unreached reports whether a pending URL waits because its origin gave no answer, and why it
	// gave none. Failures is then called with what came of the run. Both nil: nothing asks.
	Unreached func(*record.Record) (cause string, yes bool)
	Failures  func(Failures)
	Log       *slog.Logger // nil: no log
}

// slowStep is how long a step takes before it is logged at level Info: once when it has taken so
// long, and once when it has ended. Other steps are logged at level Debug when they have ended.
const slowStep = 2 * time.Second

// Clean ends a crawl in source A's order: the buffers into the tree, the pages of the tree into
// res.txt, the pending URLs into res2.txt, the statistics. Each step is logged. A failing disk is
// [iut.ErrDisk]. Once ctx ends no further file is written or renamed. The first error ends it:
// results that leave out what could not be drained would look whole. Where the index does not agree
// with itself all is written, and the error is record.ErrDamaged.
func Clean(ctx context.Context, s Steps) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	var l *lists
	var failures *failureScan
	for i, step := range []struct {
		name string
		do   func() error
	}{
		{"drain the buffers into the tree", func() error {
			if s.Drain == nil {
				return nil
			}
			return s.Drain(ctx)
		}},
		{"pages of the tree to " + s.Files.Res, func() (err error) {
			// One scan makes both lists; res2.txt takes its place in the next step.
			if s.Failures != nil {
				failures = newFailureScan(s.Index.Runs().Current().ID, s.Unreached)
			}
			if l, err = listRecords(ctx, s.Index, s.Files, failures, s.Watch); err != nil {
				return err
			}
			if err := l.res.commit(ctx); err != nil {
				return errors.Join(err, l.res2.discard())
			}
			return nil
		}},
		{"pending URLs to " + s.Files.Res2, func() error { return l.res2.commit(ctx) }},
		{"statistics", func() error {
			var run RunFigures
			if s.Figures != nil {
				run = s.Figures()
			}
			if err := writeStatistics(ctx, s.Index, s.Files, s.Root, run, l, s.Watch); err != nil {
				return err
			}
			return WriteHourly(ctx, s.Index, s.Files, s.Watch)
		}},
	} {
		if err := s.timed(i+1, step.name, step.do); err != nil {
			return fmt.Errorf("clean: %s: %w", step.name, err)
		}
	}
	if s.Failures != nil {
		s.Failures(failures.end())
	}
	return l.tally.agrees(s.Index.Totals())
}

func (s *Steps) timed(number int, name string, do func() error) error {
	start := time.Now()
	slow := time.AfterFunc(slowStep, func() { s.Log.Info("clean: a step goes on", "step", number, "what", name) })
	err := do()
	quick := slow.Stop()
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if quick {
		level = slog.LevelDebug
	}
	s.Log.Log(context.Background(), level, "clean", "step", number, "what", name, "took", time.Since(start).Round(time.Millisecond))
	return nil
}
