package crawler

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"urltree/crawler/weburl"
)

// errNoHost says why a line with tabs has no seed.
var errNoHost = errors.New("its first column has no dot, colon or slash")

// seedOf returns the seed of a line of a seed file, with its user name and password, "" if there is
// only a comment, a title or nothing.
func seedOf(line string) (string, error) {
	// Tabs around the whole line are blanks of whoever wrote it, not columns.
	text, _, table := strings.Cut(strings.TrimSpace(comments.Split(line, 2)[0]), "\t")
	text = strings.TrimSpace(text)
	switch {
	case text == "", table && text == "URL": // the title of our own lists
		return "", nil
	case table && !strings.ContainsAny(text, ".:/"): // the title of another list, or no list of URLs
		return "", errNoHost
	}
	if err := checkCharacters(text); err != nil {
		return "", err
	}
	url, err := weburl.SeedURL(text)
	if err != nil {
		return "", err
	}
	return keepLogin(url, text), nil
}

// comments are the beginnings of comments: a '#' at the beginning of a line, or with the blank
// before it, all that unicode.IsSpace has.
var comments = regexp.MustCompile(`(?:^|[\t-\r \x{85}\p{Z}])#`)

// Characters that no canonical URL has: anywhere, and before the query. RFC 3986 has none of them
// either; the URL standard escapes them.
const (
	nowhere     = `"<>`
	notInFolder = "\\^`{}"
)

// checkCharacters returns what is wrong with the characters of a seed. Browsers would escape them
// or leave them out; in a list they show that the line is not, or not only, a URL.
func checkCharacters(text string) error {
	first, _ := utf8.DecodeRuneInString(text)
	if first < utf8.RuneSelf && !strings.ContainsRune("[/_", first) && !unicode.IsLetter(first) && !unicode.IsDigit(first) ||
		first >= utf8.RuneSelf && unicode.IsPunct(first) {
		return fmt.Errorf("no URL begins with %q", first)
	}
	query := strings.IndexByte(text, '?')
	for i, r := range text {
		blank, invisible := unicode.IsSpace(r), unicode.IsControl(r) || isFormat(r)
		switch {
		case r == utf8.RuneError:
			return errors.New("its text is neither UTF-8 nor UTF-16 with a byte order mark")
		case !blank && !invisible && !strings.ContainsRune(nowhere, r) &&
			!(strings.ContainsRune(notInFolder, r) && (query < 0 || i < query)):
		case i < strings.LastIndexByte(text, '@'): // it may be of a password
			return errors.New("it has a character that no URL has; write it as %XX, a blank as %20")
		case blank:
			return errors.New("no URL has a blank; write it as %20")
		case invisible:
			return fmt.Errorf("no URL has the character %U", r)
		default:
			return fmt.Errorf("no URL has %q there; write it as %%%02X", r, r)
		}
	}
	return nil
}

// isFormat reports whether a character is one of those that format text and are not seen, such as a
// byte order mark. Two of them are letters of some scripts (RFC 5892, A.1 and A.2).
func isFormat(r rune) bool {
	return r >= utf8.RuneSelf && r != '\u200c' && r != '\u200d' && unicode.Is(unicode.Cf, r)
}
