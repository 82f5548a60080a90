package inspect

import "testing"

// TestWords: the words that completions offer are those that a question takes.
func TestWords(t *testing.T) {
	for _, word := range Words("state") {
		if _, err := chosen(word, ""); err != nil {
			t.Error(err)
		}
	}
	for _, word := range Words("columns") {
		if _, err := chosenColumns("urls", "jsonl", word); err != nil {
			t.Error(err)
		}
	}
	for _, flag := range []string{"state", "what", "format", "columns", "text"} {
		if len(Words(flag)) == 0 {
			t.Errorf("no words of -%s", flag)
		}
	}
}
