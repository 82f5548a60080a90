package crawler

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	module := func(version string) *debug.Module { return &debug.Module{Path: modulePath, Version: version} }
	other := debug.Module{Path: "example.org/other", Version: "v9.9.9"}
	replaced := module("v0.1.0")
	replaced.Replace = &debug.Module{Path: "../urltree"}
	for _, tt := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"no information", nil, "devel"},
		{"no repository", &debug.BuildInfo{Main: *module("(devel)")}, "devel"},
		{"test", &debug.BuildInfo{Main: *module("")}, "devel"},
		{"release", &debug.BuildInfo{Main: *module("v0.1.0")}, "0.1.0"},
		{"commit", &debug.BuildInfo{Main: *module("v0.0.0-20261129224113-43d41ea0aa11+dirty")}, "0.0.0-20261129224113-43d41ea0aa11+dirty"},
		{"library", &debug.BuildInfo{Main: other, Deps: []*debug.Module{&other, module("v0.1.0")}}, "0.1.0"},
		{"library from a folder", &debug.BuildInfo{Main: other, Deps: []*debug.Module{replaced}}, "devel"},
		{"another program", &debug.BuildInfo{Main: other}, "devel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := versionOf(tt.info); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
