package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"urltree/internal/lab"
)

// labCommand makes the experiments of the sources and the document about them.
func (c *command) labCommand() *cli.Command {
	var (
		opts = lab.Options{Scale: 1}
		out  = "docs"
	)
	return &cli.Command{
		Name: "lab", Usage: "repeat the experiments of the sources and write experiments.md",
		ArgsUsage: "[-scale F] [-only ID,...] [-out FOLDER]",
		Description: "For those who maintain this program. Everything happens on this machine, on a web that it makes up, and in the temporary folder. " +
			"experiments.md then has the experiments of this run alone; the pictures lie in experiments/ beside it. " +
			"In full it takes about ten minutes and 1 GiB of memory.",
		Flags: []cli.Flag{
			plainFlag("scale", factor{&opts.Scale}, "this `FACTOR` times the numbers of the sources"),
			plainFlag("only", labIDs{&opts.Only}, "only these experiments, by `ID`, comma-separated: "+strings.Join(lab.IDs(), ", ")+"; those of D come together"),
			plainFlag("out", text{&out}, "write into this `FOLDER`"),
		},
		Action: func(x *cli.Context) error {
			if err := arguments(x, 0); err != nil {
				return err
			}
			opts.Say = func(format string, args ...any) {
				_, _ = io.WriteString(c.stderr, fmt.Sprintf("lab: "+format+"\n", args...))
			}
			report, err := lab.Run(x.Context, opts)
			if err != nil {
				return err
			}
			return report.Write(out)
		},
	}
}

// factor is a number above 0.
type factor struct{ p *float64 }

func (v factor) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return fmt.Errorf("a number above 0 is allowed")
	}
	*v.p = f
	return nil
}

func (v factor) String() string {
	if v.p == nil {
		return ""
	}
	return strconv.FormatFloat(*v.p, 'g', -1, 64)
}

// labIDs are names of experiments, comma-separated.
type labIDs struct{ p *[]string }

func (v labIDs) Set(s string) error {
	*v.p = strings.Split(strings.ToUpper(s), ",")
	for _, id := range *v.p {
		if !slices.Contains(lab.IDs(), id) {
			return fmt.Errorf("of %s are allowed", strings.Join(lab.IDs(), ","))
		}
	}
	return nil
}

func (v labIDs) String() string { return "all" }
