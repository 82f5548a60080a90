package crawler

import (
	"runtime/debug"
	"strings"
)

// modulePath is the path of this module in go.mod.
const modulePath = "urltree"

// Version returns the version of this module, as the build of the running program has recorded it:
// that of a release, such as 0.1.0, or a pseudo-version that names time and commit, with +dirty
// behind it if files were changed. It is devel where the build knew none: go was told not to look
// (-buildvcs=false), there was no repository or no git, or this is a test. The version is part of
// the default user agent.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	const unknown = "devel"
	if info == nil {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) { // a dependency of programs that use the library
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if v, ok := strings.CutPrefix(m.Version, "v"); ok {
			return v
		}
	}
	return unknown
}
