package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// seeds writes a line for each of seeds.txt, in its order, with the state of its URL.
func (i *Inspector) seeds(ctx context.Context, w *bufio.Writer) error {
	fmt.Fprint(w, "URL\tstate\treason\n") // the error stays in w
	return i.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
		state, reason := "unknown", ""
		switch r, err := i.Index.Record(url); {
		case err == nil:
			state, reason = r.State.String(), r.Reason
		case errors.Is(err, record.ErrCorrupt):
			state = "damaged"
		case !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, record.ErrKey):
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", url, state, orDash(reason)); err != nil {
			return err
		}
		return context.Cause(ctx)
	})
}

// forgotten writes a line for each entry of forgotten.txt.
func (i *Inspector) forgotten(w *bufio.Writer) error {
	return i.Tree.EachForgotten(func(e iut.ForgottenEntry) error {
		_, err := fmt.Fprintf(w, "%s\t%s\n", e.Kind, e.Text)
		return err
	})
}
