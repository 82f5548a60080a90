// Package mirror keeps a copy of pages in a folder, as files that open from a disk: the names of
// the files, the stream in which they come, and the folder.
//
// What reads a tree writes the stream ([Writer]), and what has the folder reads it ([Folder]).
package mirror

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http/httputil"
)

// An Entry heads a file in a stream. It is a line of JSON; the bytes of the file follow in chunks
// like those of HTTP.
type Entry struct {
	Name string // with slashes
	Time int64  `json:",omitempty"` // of its last change, Unix seconds; 0: now
	Of   int64  `json:",omitempty"` // files that the stream has, about; 0: as before
	// Stays says that no bytes follow, since the page cannot be read: a file of an earlier run stays.
	// Without a name all such files do.
	Stays bool `json:",omitempty"`
	// Seed is one whose file has the name, if the folder has it; no bytes follow.
	Seed string `json:",omitempty"`
	Last bool   `json:",omitempty"` // the stream was whole; no bytes follow, and no entry
}

// A Writer writes a stream.
type Writer struct{ W *bufio.Writer }

// Entry writes an entry that no bytes follow.
func (w *Writer) Entry(e Entry) error { return json.NewEncoder(w.W).Encode(e) }

// File writes a file whose bytes fn writes. After an error the stream has to end.
func (w *Writer) File(e Entry, fn func(io.Writer) error) error {
	if err := w.Entry(e); err != nil {
		return err
	}
	chunks := httputil.NewChunkedWriter(w.W)
	body := bufio.NewWriterSize(chunks, 32<<10)
	if err := fn(body); err != nil {
		return err
	}
	if err := body.Flush(); err != nil {
		return err
	}
	return chunks.Close()
}
