package record

import "encoding/binary"

// Edges says how much of the file of edges counts, see package internal/edges. It changes with the
// records that it belongs to, so that a page which is stored and was kept with its edges has them
// there, once. The zero value: none are kept.
type Edges struct {
	End    int64 // bytes of the file
	Pages  int64 // stored pages that have their edges there
	Assets bool  // references to images, styles and the like are among them
}

// Append appends the value that stands under key.
func (e *Edges) Append(b, key []byte) []byte {
	assets := byte(0)
	if e.Assets {
		assets = 1
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.End)), uint64(e.Pages))
	return Seal(append(b, assets), key)
}

// DecodeEdges reads a value that Append has made.
func DecodeEdges(key, v []byte) (Edges, error) {
	d := unseal(v, key)
	e := Edges{End: int64(d.uint(63)), Pages: int64(d.uint(63)), Assets: d.byte() == 1}
	return e, d.end("edges", "")
}

// AppendRanked appends the value that keeps the version of the ranks.
func AppendRanked(b, key []byte, version uint64) []byte {
	return Seal(binary.AppendUvarint(b, version), key)
}

// DecodeRanked reads a value that AppendRanked has made.
func DecodeRanked(key, v []byte) (version uint64, err error) {
	d := unseal(v, key)
	version = d.uvarint()
	return version, d.end("ranked", "")
}
