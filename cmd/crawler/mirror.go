package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"urltree/internal/inspect"
	"urltree/internal/mirror"
	"urltree/internal/words"
)

// mirror writes the pages that q names into the folder output, as files that lead to each other.
func (c *command) mirror(ctx context.Context, q inspect.Question, output string, stdout io.Writer) (err error) {
	if output == "" {
		return usagef("-what mirror needs -output, the folder to write to")
	}
	if err := outsideOf(output, c.root()); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) }) // in the middle of a page too
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_ = w.CloseWithError(c.inspectTrees(ctx, q, nil, w))
	}()
	defer func() {
		stop()
		_ = r.Close()
		<-asked
	}()
	in := bufio.NewReaderSize(r, 64<<10)
	if _, err := in.Peek(1); err != nil { // what is wrong with the question or the tree comes before there is a folder
		return err
	}
	part := mirror.Part{Name: q.URL, Timed: q.Since != 0 || q.Until != 0}
	folder, err := mirror.Open(output, part)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return usagef("-output %s: there is no folder %s", output, filepath.Dir(output))
	case errors.Is(err, mirror.ErrForeign), errors.Is(err, mirror.ErrBusy):
		return usagef("-output %s: %w; choose a folder that is empty, or not there", output, err)
	case err != nil:
		return fmt.Errorf("-output %s: %w", output, err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if terminal(c.stderr) != nil {
		began := time.Now()
		defer showEach(newProgress(c.stderr, false), func() string { return copied(folder, time.Since(began)) })()
	}
	if err := folder.Receive(ctx, in); err != nil {
		return err
	}
	removed, n := "", folder.Removed.Load()
	if part.Name != "" && !part.Timed && folder.Files.Load() == folder.Own.Load() && n == 0 {
		return fmt.Errorf("%w: no page at or below %s", inspect.ErrNotFound, part.Name)
	}
	if n > 0 {
		removed = fmt.Sprintf(", %d removed", n)
	}
	if n := folder.Lacking.Load(); n > 0 {
		c.print(fmt.Sprintf("%s not read, so that the mirror lacks them or has older ones; crawler check names them", words.Count(n, "page")))
	}
	_, err = fmt.Fprintf(stdout, "%s, %d of them written now%s; open %s\n",
		words.Count(folder.Files.Load(), "file"), folder.Written.Load(), removed, filepath.Join(output, "index.html"))
	return err
}

// copied says how far a mirror is after some time.
func copied(f *mirror.Folder, after time.Duration) string {
	files, of := f.Files.Load(), f.Of.Load()
	var b strings.Builder
	fmt.Fprintf(&b, "mirror: %d of %s, %d written, %s", files, words.Count(max(of, files), "file"), f.Written.Load(), words.Bytes(f.Bytes.Load()))
	if rate := float64(files) / after.Seconds(); files > 0 {
		fmt.Fprintf(&b, ", %.0f/s, %s left", rate, words.Span(time.Duration(float64(max(of-files, 0))/rate*float64(time.Second)).Truncate(time.Second)))
	}
	return b.String()
}
