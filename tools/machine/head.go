package machine

import (
	"fmt"
	"os/exec"
	"strings"
)

// A Head stands above figures: where they come from, and how to have them again.
type Head struct {
	Machine Machine `json:"machine"`
	Commit  string  `json:"commit,omitempty"` // short, with " with changes" behind if files differ from it; "": not in a repository
	Command string  `json:"command"`          // for a shell
}

// Now describes this machine, the commit of the working directory, and the command: the package
// that is run, such as ./peers, and its arguments.
func Now(pkg string, args []string) Head {
	return Head{Machine: Here(), Commit: commit(""), Command: quote(append([]string{"go", "run", "-C", "tools", pkg}, args...))}
}

// String returns a line and, as Markdown's code, the command.
func (h Head) String() string {
	at := "in no repository"
	if h.Commit != "" {
		at = "commit " + h.Commit
	}
	return fmt.Sprintf("%v, %s\n\n    %s", h.Machine, at, h.Command)
}

// commit returns what is checked out in a folder.
func commit(folder string) string {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = folder
		text, err := cmd.Output()
		return strings.TrimSpace(string(text)), err
	}
	name, err := git("rev-parse", "--short", "HEAD")
	if err != nil {
		return ""
	}
	if changes, err := git("status", "--porcelain"); err != nil || changes != "" {
		name += " with changes"
	}
	return name
}

// quote writes a command so that a shell takes it apart into the same words.
func quote(words []string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%"
	var all []string
	for _, w := range words {
		if w == "" || strings.Trim(w, plain) != "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}
