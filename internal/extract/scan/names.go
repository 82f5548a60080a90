package scan

import "fmt"

// Want says which tags of an element Next gives.
type Want uint8

const (
	Starts       Want = 1 << iota // its start tags
	Ends                          // its end tags
	StartsInText                  // its start tags while Scanner.Text is set
	EndsInText                    // its end tags while Scanner.Text is set
)

// An Element is a name in lower case, and what is wanted of it.
type Element struct {
	Name string
	Want Want
}

// Other is the name of an Element that stands for all that are not in the list.
const Other = "*"

// maxAttributes is how many attributes Names can have.
const maxAttributes = 32

// Names are the elements and attributes that a Scanner looks for. They do not change and may be
// used by many.
type Names struct {
	elements   table
	other      *name // nil: it is not wanted
	attributes table
}

// NewNames makes Names. An element or attribute is known to callers by its place in the list. It
// panics if there are more than 32 attributes, or a hundred elements.
func NewNames(elements []Element, attributes []string) *Names {
	if len(attributes) > maxAttributes || len(elements) > 100 {
		panic(fmt.Sprintf("scan: %d elements, %d attributes", len(elements), len(attributes)))
	}
	n := &Names{}
	other := name{id: -1}
	for i, e := range elements {
		if e.Name == Other {
			if other = (name{id: i, want: e.Want}); e.Want != 0 {
				n.other = &other
			}
			continue
		}
		n.elements.add(e.Name, name{id: i, want: e.Want})
	}
	for text, kind := range special {
		if known := n.elements.get(hash(text), []byte(text)); known != nil {
			known.kind = kind
		} else {
			n.elements.add(text, name{id: other.id, want: other.want, kind: kind})
		}
	}
	for i, text := range attributes {
		n.attributes.add(text, name{id: i})
	}
	return n
}

type kind uint8

const (
	ordinary  kind = iota
	rawText        // what follows is text up to the end tag
	rcdata         // the same, but its character references count
	script         // the same, with rules of its own for the end tag
	plaintext      // all that follows is text
	drawing        // has CDATA sections and elements closed by a slash inside
)

// special are the elements that say how to read on. The text of noscript is markup, as it is for
// whoever runs no scripts.
var special = map[string]kind{
	"iframe": rawText, "noembed": rawText, "noframes": rawText, "style": rawText, "xmp": rawText,
	"textarea": rcdata, "title": rcdata, "script": script, "plaintext": plaintext,
	"math": drawing, "svg": drawing,
}

type name struct {
	text string
	hash uint64
	id   int // place in the caller's list; -1: it is not there
	want Want
	kind kind
	role role // of those of roles alone
}

// A table finds names by their hash, which is their last eight bytes. It is never full.
type table struct {
	slots [256]uint8 // 1 + index of names; 0: none
	names []name
}

func slot(hash uint64) uint8 { return uint8(hash * 0x9e3779b97f4a7c15 >> 56) }

func hash(text string) (h uint64) {
	for i := range len(text) {
		h = h<<8 | uint64(text[i])
	}
	return h
}

func (t *table) add(text string, n name) {
	n.text, n.hash = text, hash(text)
	t.names = append(t.names, n)
	i := slot(n.hash)
	for t.slots[i] != 0 {
		i++
	}
	t.slots[i] = uint8(len(t.names))
}

// get finds a name by its hash in lower case, and by itself as it is spelt; nil: it is not there.
func (t *table) get(hash uint64, spelt []byte) *name {
	if i := slot(hash); t.slots[i] != 0 { // rarely
		return t.find(i, hash, spelt)
	}
	return nil
}

func (t *table) find(i uint8, hash uint64, spelt []byte) *name {
	for ; t.slots[i] != 0; i++ {
		n := &t.names[t.slots[i]-1]
		if n.hash == hash && len(n.text) == len(spelt) && (len(spelt) <= 8 || hasFold(spelt, n.text)) {
			return n
		}
	}
	return nil
}

// hasFold reports whether text begins with prefix, which is in lower case, in any case of letters.
func hasFold(text []byte, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if inName[text[i]] != prefix[i] {
			return false
		}
	}
	return true
}

// inName has the bytes of an element's name in lower case; 0: white space, '/' and '>', which
// end it. No name that is looked for has a NUL, which is shown here as another byte.
var inName = func() (t [256]uint8) {
	for i := range t {
		c := uint8(i)
		switch {
		case isSpace(c), c == '/', c == '>':
		case c == 0:
			t[c] = 0xff
		case 'A' <= c && c <= 'Z':
			t[c] = c + 'a' - 'A'
		default:
			t[c] = c
		}
	}
	return t
}()

// inKey is the same for the name of an attribute, which a '=' ends too.
var inKey = func() [256]uint8 {
	t := inName
	t['='] = 0
	return t
}()

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f')
}

func isLetter(c byte) bool { return c|0x20-'a' < 26 }
