// Package command is what the tools have in common before they start: the folder they run in, flags
// that are read with one line for a mistake, what must be installed, where the shared data lies.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// A mistake is one of the command line.
type mistake struct{ what string }

func (m mistake) Error() string { return m.what }

// Mistake returns an error that says what is wrong on the command line, and what is allowed.
func Mistake(format string, args ...any) error { return mistake{fmt.Sprintf(format, args...)} }

// Main runs a command until it returns or a signal cancels its context, and exits: with 0, with 1
// after an error, with 2 after a mistake on the command line. The command runs in the root of the
// repository if it was started in this module's folder, as go run -C tools does.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := toRoot()
	if err == nil {
		err = run(ctx, os.Args[1:])
	}
	stop()
	os.Exit(code(os.Stderr, name, err))
}

// toRoot changes from the folder of this module to that of the repository. It does nothing
// elsewhere.
func toRoot() error {
	mod, err := os.ReadFile("go.mod")
	if err != nil || !bytes.HasPrefix(mod, []byte("module urltree/tools\n")) {
		return nil
	}
	return os.Chdir("..")
}

// code writes an error as one that name met, and gives the exit status.
func code(w io.Writer, name string, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(w, "%s: %v\n", name, err)
	if errors.As(err, new(mistake)) {
		return 2
	}
	return 1
}

// Parse reads flags. Only -h prints more than the line of the error.
func Parse(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stderr)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return Mistake("%v; -h lists the flags", err)
	}
	return nil
}

// More returns the arguments behind the flags: more of them, for the crawler.
func More(flags *flag.FlagSet) ([]string, error) {
	if flags.NArg() > 0 && !strings.HasPrefix(flags.Arg(0), "-") {
		return nil, Mistake("argument %q is not understood; flags for the crawler begin behind --", flags.Arg(0))
	}
	return flags.Args(), nil
}

// Installed returns one error that names all programs that are not installed.
func Installed(programs ...string) error {
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not installed, but needed: %s", strings.Join(missing, ", "))
	}
	return nil
}

// Shared returns a path of the shared data: in the folder $SHARED, by default shared beside the
// repository, which the working directory is.
func Shared(elements ...string) string {
	root := os.Getenv("SHARED")
	if root == "" {
		root = filepath.Join("..", "shared")
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// WriteJSON writes figures to a file, whose folder it makes, and says so on standard error. It does
// nothing if file is "".
func WriteJSON(file string, figures any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(figures, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	fmt.Fprintf(os.Stderr, "all figures are in %s\n", file)
	return nil
}
