package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// generated runs crawler generate, and returns the folder.
func generated(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var stderr bytes.Buffer
	if code := run([]string{"crawler", "generate", dir}, strings.NewReader(""), io.Discard, &stderr); code != exitDone {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	return dir
}

// TestManPages: there is a page for the crawl and each subcommand, with all that the help text has,
// and groff has nothing to say about them.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(generated(t), "man1")
	c := newCommand(nil)
	texts := map[string]string{"crawler": c.crawlPage().text()}
	for _, sub := range c.visible() {
		texts["crawler-"+sub.name] = sub.page().text()
	}
	if files, err := os.ReadDir(dir); len(files) != len(texts) || err != nil {
		t.Errorf("%d pages, %v; want %d", len(files), err, len(texts))
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	for name, help := range texts {
		file := filepath.Join(dir, name+".1")
		source, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if bytes.ContainsFunc(source, func(r rune) bool { return r > unicode.MaxASCII }) {
			t.Errorf("%s: not ASCII, which man may not show everywhere", name)
		}
		cmd := exec.Command(groff, "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", "-rLL=1000n", file)
		var shown, warnings bytes.Buffer
		cmd.Stdout, cmd.Stderr = &shown, &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: groff: %v\n%s", name, err, &warnings)
		}
		page := strings.Join(strings.Fields(shown.String()), " ")
		for line := range strings.Lines(help) {
			// The titles and the summary stand in other words.
			if text := strings.Join(strings.Fields(line), " "); line[0] == ' ' && !strings.Contains(page, text) {
				t.Errorf("%s: the page lacks %q", name, text)
			}
		}
	}
}

// lines has lines to complete, and what comes of them: all that may stand last.
var lines = []struct {
	line string
	want string
}{
	{"crawler expo", "export"},
	{"crawler -scop", "-scope"},
	{"crawler -scope h", "host"},
	{"crawler export -format j", "jsonl"},
	{"crawler export -columns url,tit", "url,title"},
	{"crawler ls -form", ""},
	{"crawler ls -state hel", "held"},
	{"crawler retry -reason tls-n", "tls-name"},
	{"crawler -input se", "seed.txt"},
	{"crawler ls -tree tr", "tree/"},
	{"crawler help expo", "export"},
	{"crawler import see", "seed.txt"},
	{"crawler import -scope h", "host"},
	{"crawler -delay au", ""},
	{"crawler -delay ls -scop", "-scope"},
	{"crawler merge expo", ""},
}

// The drivers read lines on standard input, complete the last word of each, and print what that
// may be. $1 is the file with the completions.
var drivers = map[string]struct{ file, script string }{
	"bash": {"bash/crawler", `
source "$1"
while read -r line; do
	COMP_WORDS=($line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_crawler
	for word in "${COMPREPLY[@]}"; do
		[[ -d $word ]] && word+=/ # as readline does
		printf '%s ' "$word"
	done
	echo
done
`},
	"fish": {"fish/crawler.fish", `
source $argv[1]
while read -l line
	set -l words (complete -C "$line" | string split -f 1 \t)
	echo "$words"
end
`},
	// The last word is what remains of the line after Tab: one that is not unique stays as it is.
	"zsh": {"zsh/_crawler", `
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=(${1:h} \$fpath); autoload -U compinit; compinit -u -D; show() { print -r -- \"<\"\"<\$BUFFER>\"\">\"; BUFFER= }; zle -N show; bindkey '^I' complete-word; bindkey '^O' show; setopt no_beep; print rea\"\"dy"
zpty -r z out '*ready*'
while read -r line; do
	zpty -w -n z "$line"$'\t\x0f'
	zpty -r z out '*<<*>>*'
	out=${${out##*<<}%%>>*}
	[[ $out == $line ]] && out=
	print -r -- ${${=out}[-1]%,}
done
zpty -d z
`},
}

// TestCompletions: the shells complete subcommands, flags, values and files.
func TestCompletions(t *testing.T) {
	t.Parallel()
	generated := generated(t)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "seed.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	var input, want strings.Builder
	for _, l := range lines {
		input.WriteString(l.line + "\n")
		want.WriteString(l.want + "\n")
	}
	for shell, driver := range drivers {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%s is not installed", shell)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, shell, "-c", driver.script, shell, filepath.Join(generated, driver.file))
			if shell == "fish" { // has no name of the script among the arguments
				cmd.Args = append(cmd.Args[:3], cmd.Args[4:]...)
			}
			var stderr bytes.Buffer
			cmd.Dir, cmd.Stdin, cmd.Stderr = home, strings.NewReader(input.String()), &stderr
			cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
			out, err := cmd.Output()
			if err != nil || stderr.Len() > 0 {
				t.Errorf("%v\n%s", err, &stderr)
			}
			var got strings.Builder
			for line := range strings.Lines(string(out)) {
				got.WriteString(strings.TrimRight(line, " \n") + "\n")
			}
			if d := cmp.Diff(want.String(), got.String()); d != "" {
				t.Errorf("of\n%s(-want +got):\n%s", &input, d)
			}
		})
	}
}
