package scan

import "strings"

// Drawings are the open elements of svg and math, those in them whose content is HTML again, and of
// HTML in there, as far as they decide how to read on (HTML standard, "the rules for parsing tokens
// in foreign content"). Elements around the drawings are not known. The zero value has none.
type Drawings struct {
	open []drawn
	// An end tag that nothing in the drawing matches ended it, which is right if it closes an
	// element around the drawing; else the drawing goes on. From then on the content of a title or
	// style is read as markup: in HTML it has no tags anyway.
	unsure bool
}

type drawn struct {
	name uint64 // its hash
	role role
}

type role uint16

const (
	inSVG   role = 1 << iota // an element of a drawing, or what holds HTML in one
	inMath                   // the same of a formula
	holder                   // its content is HTML
	inHTML                   // an element of HTML in one that holds HTML
	breaks                   // an element of HTML whose start tag ends all drawings around
	ends                     // one of HTML whose end tag closes all that is open in it
	inline                   // one in lines of text
	implied                  // one of HTML that another one of its name closes
	void                     // one of HTML without content
)

// maxDrawn bounds how many open elements are known.
const maxDrawn = 128

var roles = func() *table {
	t := &table{}
	for _, list := range []struct {
		names string
		role  role
	}{
		{"desc foreignobject title", holder | inSVG},
		{"mi mn mo ms mtext", holder | inMath},
		{"b big code em embed i img br hr meta nobr s small span strong strike sub sup tt u var", breaks},
		{"blockquote body center div dl h1 h2 h3 h4 h5 h6 head listing menu ol pre ruby table ul", breaks | ends},
		{"dd dt li p", breaks | ends | implied},
		{"address article aside button caption details dialog fieldset figcaption figure footer form header html main nav section summary tbody tfoot thead", ends},
		{"td th tr", ends | implied},
		{"a abbr cite del font ins kbd label mark q samp", inline},
	} {
		for text := range strings.FieldsSeq(list.names) {
			t.add(text, name{role: list.role})
		}
	}
	for text := range strings.FieldsSeq("area base br col embed hr img input link meta param source track wbr") {
		if n := t.get(hash(text), []byte(text)); n != nil {
			n.role |= void
		} else {
			t.add(text, name{role: void})
		}
	}
	return t
}()

var (
	svgHash   = hash("svg")
	mathHash  = hash("math")
	pHash     = hash("p")
	titleHash = hash("title")
	styleHash = hash("style")
)

// Any reports whether an element is open.
func (d *Drawings) Any() bool { return len(d.open) > 0 }

// Foreign reports whether the element opened last is one of a drawing or formula, and its content
// not HTML.
func (d *Drawings) Foreign() bool {
	return len(d.open) > 0 && d.open[len(d.open)-1].role&(holder|inHTML) == 0
}

// Start notes a start tag, with a slash at its end or not. It reports whether its element is, or
// may be, one of a drawing or formula: then a slash closes it, and what follows is never raw text.
func (d *Drawings) Start(name []byte, slash bool) (foreign bool) {
	return d.start(foldedHash(name), name, slash)
}

// End notes an end tag.
func (d *Drawings) End(name []byte) { d.end(foldedHash(name), name) }

func foldedHash(name []byte) (h uint64) {
	for _, c := range name {
		h = h<<8 | uint64(inName[c])
	}
	return h
}

func roleOf(h uint64, name []byte) role {
	if n := roles.get(h, name); n != nil {
		return n.role
	}
	return 0
}

func (d *Drawings) start(h uint64, name []byte, slash bool) (foreign bool) {
	r := roleOf(h, name)
	unsure := d.unsure && (h == titleHash || h == styleHash)
	if d.Foreign() && r&breaks != 0 {
		d.leave()
	}
	added := drawn{name: h}
	switch {
	case d.Foreign():
		space := d.open[len(d.open)-1].role
		added.role = space
		if r&holder != 0 && r&space != 0 {
			added.role |= holder
		}
	case h == svgHash:
		added.role = inSVG
	case h == mathHash:
		added.role = inMath
	case len(d.open) > 0 && r&void == 0:
		added.role = inHTML | r&ends
		if top := d.open[len(d.open)-1].name; r&implied != 0 && top == h || r&ends != 0 && top == pHash {
			d.open = d.open[:len(d.open)-1]
		}
		slash = false
	default:
		return unsure
	}
	if !slash && len(d.open) < maxDrawn {
		d.open = append(d.open, added)
	}
	return unsure || added.role&inHTML == 0
}

func (d *Drawings) end(h uint64, name []byte) {
	r := roleOf(h, name)
	for i := len(d.open) - 1; i >= 0; i-- {
		switch o := &d.open[i]; {
		case o.name == h && d.reaches(i, r):
			d.open = d.open[:i]
			return
		case o.role&holder != 0 && i < len(d.open)-1:
			return // what is open around it is out of reach
		}
	}
	if r&(breaks|ends|inline) != 0 && d.Foreign() { // of an element that is open around the drawing
		d.leave()
		d.unsure = true
	}
}

// reaches reports whether an end tag of this role closes the open element i, whose name it has.
func (d *Drawings) reaches(i int, r role) bool {
	var between role
	for _, o := range d.open[i+1:] {
		between |= o.role
	}
	if d.open[i].role&inHTML != 0 {
		return r&ends != 0 || between&ends == 0
	}
	return between&inHTML == 0
}

// leave closes all that is open up to HTML.
func (d *Drawings) leave() {
	for d.Foreign() {
		d.open = d.open[:len(d.open)-1]
	}
}
