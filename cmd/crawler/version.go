package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"urltree/crawler"
)

// A build is what the build of this program has recorded about itself; what it did not is empty.
type build struct {
	commit, time string // of the source; the time as in RFC 3339
	modified     bool   // the source has more than the commit
}

func buildOf(info *debug.BuildInfo) (b build) {
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.time":
			b.time = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}

func versionText() string {
	info, _ := debug.ReadBuildInfo()
	var b strings.Builder
	fmt.Fprintf(&b, "urltree %s\n", crawler.Version())
	if made := buildOf(info); made.commit != "" {
		fmt.Fprintf(&b, "commit %s of %s", made.commit, made.time)
		if made.modified {
			b.WriteString(", with changes")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "built with %s for %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return b.String()
}
