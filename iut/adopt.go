package iut

import "errors"

// Has reports whether the folder of a URL seems to hold a complete page. Adopt makes sure. A
// failing disk is ErrDisk.
func (t *Tree) Has(url string) (bool, error) {
	_, ok, err := t.Complete(url, false)
	if errors.Is(err, ErrDisk) {
		return false, err
	}
	return ok && err == nil, nil
}

// Adopt returns a complete page that the index does not know of yet, its SHA-256 compared, and
// lets the next Sync cover its files: they may be younger than the last one. Errors are those of
// Load.
func (t *Tree) Adopt(url string) (Facts, []byte, error) {
	facts, body, err := t.Load(url)
	if err != nil {
		return facts, nil, err
	}
	rel, err := t.Path(url)
	if err != nil {
		return facts, nil, err
	}
	t.fs.Adopt(rel)
	return facts, body, nil
}
