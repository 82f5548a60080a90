package article

import (
	"cmp"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
)

// mostSample is how much of a text is looked at for its language, in bytes. More costs more time,
// and is not guessed better.
const mostSample = 1000

// Language returns the language that a text seems to be in, as a code of ISO 639 such as "en"; "":
// that is not clear. It goes by the characters and by which three of them stand together.
func Language(text string) string {
	if len(text) > mostSample {
		end := mostSample
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	guess := whatlanggo.Detect(text)
	if !guess.IsReliable() {
		return ""
	}
	return cmp.Or(guess.Lang.Iso6391(), guess.Lang.Iso6393())
}
