package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"
)

// roleFloor is the name of this program as a child: what follows is a file with paths of pages, one
// a line, and the URL of the server.
const roleFloor = "fetch-all"

// pageList returns the name of the file that the floor has its pages of.
func (b *bench) pageList() string { return filepath.Join(b.work, "pages.txt") }

// fetchAll asks for all pages of a list, five at a time as the tools do, and decodes them. Nothing
// is looked into or kept: no crawler in Go can take less with the same client.
func fetchAll(ctx context.Context, list, url string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 5, MaxConnsPerHost: 5, DisableCompression: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer client.CloseIdleConnections()
	paths := make(chan string)
	g, ctx := errgroup.WithContext(ctx)
	for range 5 {
		g.Go(func() error {
			var f fetcher
			for path := range paths {
				if err := f.fetch(ctx, client, url+path); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(paths)
		for path := range strings.SplitSeq(string(text), "\n") {
			select {
			case paths <- path:
			case <-ctx.Done():
				return nil // whoever ended it has the error
			}
		}
		return nil
	})
	return g.Wait()
}

// A fetcher is what is used again for the next page.
type fetcher struct {
	coded, page bytes.Buffer
	zip         gzip.Reader
}

func (f *fetcher) fetch(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept-Encoding", "gzip")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	f.coded.Reset()
	_, err = f.coded.ReadFrom(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	if res.Header.Get("Content-Encoding") != "gzip" {
		return nil
	}
	f.page.Reset()
	if err := f.zip.Reset(&f.coded); err != nil {
		return err
	}
	_, err = io.Copy(&f.page, &f.zip)
	return err
}
