package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
)

// The work that one page may ask for, in steps that stand for at most some ten nanoseconds each.
// They are counted, not timed, so that answer and folder give the same links on any machine. A
// usual page of 16 MiB takes a tenth of them, one made of links to hosts in other scripts most.
const (
	maxSteps   = 1 << 30
	stepsToken = 16 // and one for each byte of it
	stepsTag   = 3  // more for each byte of a start tag: attributes
	stepsRef   = 32 // for each byte of a reference, besides one for each byte of the base
	stepsHost  = 128
	maxRefWork = 8 << 10 // bytes of a reference after which weburl gives up at once
)

// maxAttributes bounds those of one tag: the tokenizer keeps them in a map, which it clears at
// each later tag at a cost of its full size.
const maxAttributes = 1 << 15

// readAhead bounds what the tokenizer gets at a time, and so the attributes over the bound that
// it meets before source does.
const readAhead = 64 << 10

var errAttributes = errors.New("extract: too many attributes in one tag")

// spend takes steps off the budget. It gives false once they are used up.
func (p *page) spend(steps int) bool {
	if p.left -= steps; p.left < 0 {
		p.Exhausted = true
	}
	return !p.Exhausted
}

// workOf gives the steps to resolve a reference. Hosts that the parser must decode or encode,
// and user names, cost it several times what the rest does.
func workOf(ref string, base int) int {
	ref = ref[:min(len(ref), maxRefWork)]
	steps := base + stepsRef*len(ref)
	if isPlain(ref) {
		return steps
	}
	if host := authority(ref); !isPlain(host) {
		steps += stepsHost * len(host)
	}
	return steps
}

// authority gives what may be user name, host and port of a reference, "" of a mere path.
func authority(ref string) string {
	ref = strings.TrimLeft(ref, space)
	slashes := strings.TrimLeft(ref, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")
	scheme := strings.HasPrefix(slashes, ":")
	if scheme {
		slashes = slashes[1:]
	} else {
		slashes = ref
	}
	host := strings.TrimLeft(slashes, `/\`+"\t\n\r")
	if !scheme && len(slashes)-len(host) < 2 {
		return ""
	}
	if i := strings.IndexAny(host, `/\?#`); i >= 0 {
		host = host[:i]
	}
	return host
}

// isPlain tells whether a host, or a reference and its host with it, costs no more than a path.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x80 || c == '%' || c == '@' {
			return false
		}
	}
	return !strings.Contains(s, "xn--")
}

// A source feeds a tokenizer, and ends the page within a tag of too many attributes.
type source struct {
	r     io.Reader
	ahead []byte // comes before what r gives
	z     *html.Tokenizer
	tag   tagScan // of the token being read; scan begins it anew
}

func (s *source) Read(b []byte) (int, error) {
	if s.tag.attributes(s.z.Raw()) > maxAttributes {
		return 0, errAttributes
	}
	b = b[:min(len(b), readAhead)]
	if len(s.ahead) > 0 {
		n := copy(b, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	return s.r.Read(b)
}

// putBack makes s give once more what z has read behind a text, and what the end of the text may
// have of the next tag. The tokenizer for it is another.
func (s *source) putBack(z *html.Tokenizer) {
	var ahead []byte
	text := z.Raw()
	if i := bytes.LastIndexByte(text[len(text)-2:], '<'); i >= 0 {
		ahead = append(ahead, text[len(text)-2+i:]...)
	}
	s.ahead = append(append(ahead, z.Buffered()...), s.ahead...)
}

// tokenizer gives a new one, which reads from s.
func (s *source) tokenizer() *html.Tokenizer {
	s.z = html.NewTokenizer(s)
	s.z.SetMaxBuf(maxToken)
	return s.z
}

// A tagScan counts the attributes of a start tag as more and more of it is read.
type tagScan struct {
	read  int // bytes of the tag
	count int
	state tagState
	quote byte
}

type tagState uint8

const (
	inTagName tagState = iota
	betweenAttributes
	inName
	afterName
	beforeValue
	inValue
	inQuotes
	noTag // but text
)

// attributes gives how many attributes the start of a token has; 0 if it is no start tag.
func (t *tagScan) attributes(token []byte) int {
	if len(token) < 2 || token[0] != '<' || (token[1]|0x20) < 'a' || (token[1]|0x20) > 'z' {
		return 0
	}
	for ; t.read < len(token) && t.state != noTag; t.read++ {
		c := token[t.read]
		blank := strings.IndexByte(space, c) >= 0
		switch {
		case t.state == inQuotes:
			if c == t.quote {
				t.state = betweenAttributes
			}
		case t.state == inValue && blank, t.state == inTagName && blank, t.state != beforeValue && t.state != inValue && c == '/':
			t.state = betweenAttributes
		case blank:
			if t.state == inName {
				t.state = afterName
			}
		case t.state == beforeValue && (c == '"' || c == '\''):
			t.state, t.quote = inQuotes, c
		case t.state == beforeValue:
			t.state = inValue
		case c == '=' && (t.state == inName || t.state == afterName):
			t.state = beforeValue
		case t.state == betweenAttributes, t.state == afterName:
			t.state = inName
			t.count++
		}
	}
	return t.count
}
