package crawler

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/buffer"
	"urltree/iut"
)

// A pipeline is the goroutines of a run, in the order in which they end.
type pipeline struct {
	crawlers, builders, committing, others errgroup.Group

	committer  *iut.Committer
	stopOthers func() // others end soon after
}

// startIn runs fn in a group. An error ends the crawl.
func (e *engine) startIn(g *errgroup.Group, fn func() error) {
	g.Go(func() error {
		err := fn()
		if err != nil {
			e.ends.fail(err)
		}
		return err
	})
}

// startPipeline starts all but the crawlers: buffers with their builders, the committer, reports
// and answers.
func (e *engine) startPipeline() *pipeline {
	p := &pipeline{committer: iut.NewCommitter(e.store.tree, e.store.index, e.opts.Buffers)}
	p.committer.After, p.committer.Edges = e.committed, e.store.edges
	p.committer.Committed = func(items int, sync, commit time.Duration) {
		e.measured.syncs.add(sync)
		e.measured.commits.add(commit)
		if items > 0 {
			e.measured.stages[stageMetadata].addMany((sync+commit)/time.Duration(items), items)
		}
	}
	for range e.opts.Buffers {
		buf := buffer.New(buffer.Options[*iut.Item]{
			// One half fills while the other is committed.
			Size: e.opts.BufferSize, Batch: (e.opts.BufferSize + 1) / 2,
			Bytes: e.opts.BufferBytes, Wait: e.opts.FlushInterval,
			Weight: weigh,
		})
		e.buffers = append(e.buffers, buf)
		b := &iut.Builder{Tree: e.store.tree, Source: buf, Committer: p.committer, Parse: e.rules.linker.Parse, Stored: e.measured.stages[stageStore].add}
		e.startIn(&p.builders, func() error { return b.Run(e.ends.alive) })
	}
	e.startIn(&p.committing, func() error { return p.committer.Run(e.ends.alive) })
	for i := range e.opts.Crawlers {
		e.crawlers = append(e.crawlers, e.newCrawler(i+1, e.buffers[i%e.opts.Buffers]))
	}
	stopAnswering := func() {}
	if !e.opts.NoTree && !e.opts.silent {
		stopAnswering = e.answerQuestions()
	}
	reporting, stopReporting := context.WithCancel(e.ends.alive)
	p.stopOthers = func() {
		stopReporting()
		stopAnswering()
	}
	e.startIn(&p.others, func() error { return e.report(reporting) })
	return p
}

// startFetching starts the crawlers, and what is done beside them.
func (e *engine) startFetching(p *pipeline) {
	for _, c := range e.crawlers {
		e.startIn(&p.crawlers, c.run)
	}
	if e.opts.Cluster != nil {
		e.startIn(&p.crawlers, e.exchange)
	}
	if e.opts.External {
		return
	}
	for _, beside := range []func(context.Context) error{e.fillFilter, e.releaseHeld, e.settle, e.queueRevisits} {
		e.startIn(&p.others, func() error { return beside(e.ends.fetching) })
	}
}

// drain ends all but the crawlers, which have ended, one after the other, once their work is done.
func (p *pipeline) drain(buffers []*buffer.Buffer[*iut.Item]) error {
	for _, b := range buffers {
		b.Close()
	}
	err := p.builders.Wait()
	p.committer.Close()
	err = errors.Join(err, p.committing.Wait())
	p.stopOthers()
	return errors.Join(err, p.others.Wait())
}
