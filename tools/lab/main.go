package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"urltree/tools/command"
)

func main() { command.Main("lab", run) }

// run repeats the experiments that the arguments name and writes the document about them.
func run(ctx context.Context, args []string) error {
	o, out, err := parse(args)
	if err != nil {
		return err
	}
	o.Say = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "lab: "+format+"\n", args...) }
	report, err := Run(ctx, o)
	if err != nil {
		return err
	}
	return report.Write(out)
}

// parse reads the flags. out is the folder of the document.
func parse(args []string) (o Options, out string, err error) {
	var only string
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.Float64Var(&o.Scale, "scale", 1, "this `FACTOR` times the numbers of the sources")
	flags.StringVar(&only, "only", "", "only these experiments, by `ID`, comma-separated: "+strings.Join(IDs(), ", ")+"; those of D come together")
	flags.StringVar(&out, "out", "docs", "write into this `FOLDER`")
	if err := command.Parse(flags, args); err != nil {
		return o, "", err
	}
	if only != "" {
		o.Only = strings.Split(strings.ToUpper(only), ",")
	}
	for _, id := range o.Only {
		if !slices.Contains(IDs(), id) {
			return o, "", command.Mistake("-only %s: there is no experiment %q, only %s", only, id, strings.Join(IDs(), ","))
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, "", command.Mistake("argument %q is not understood: there are flags only", flags.Arg(0))
	case !(o.Scale > 0) || math.IsInf(o.Scale, 0):
		return o, "", command.Mistake("-scale %v: it is a number above 0", o.Scale)
	}
	return o, out, nil
}
