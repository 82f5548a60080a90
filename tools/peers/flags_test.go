package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		says string // of the error; "": none
	}{
		{"none", nil, ""},
		{"blanks", []string{"-tools", "crawler, wget2 ,before=bin/crawler", "-disks", " tmpfs"}, ""},
		{"options of the crawler", []string{"--", "-buffers", "3"}, ""},
		{"no runs", []string{"-runs", "0"}, "-runs 0: it is 1 to"},
		{"fewer", []string{"-runs", "-3"}, "-runs -3"},
		{"no number", []string{"-runs", "many"}, `"many"`},
		{"no core", []string{"-cpu", "-1"}, "-cpu -1"},
		{"priority", []string{"-priority", "100"}, "-priority 100: it is 0 to 99"},
		{"priority of nginx", []string{"-nginx-priority", "-1"}, "-nginx-priority -1"},
		{"tool", []string{"-tools", "crawler,curl"}, `"curl"`},
		{"no tool", []string{"-tools", ""}, `""`},
		{"build without a path", []string{"-tools", "before="}, `"before="`},
		{"disk", []string{"-disks", "ext4,xfs"}, `"xfs" is neither`},
		{"web", []string{"-web", "tls-h2-gzip", "-tools", "crawler-warc-plain,floor"}, ""},
		{"other web", []string{"-web", "h3"}, `"h3" is none of gzip, plain, tls-h1`},
		{"stray", []string{"crawler"}, `"crawler"`},
		{"packages elsewhere", []string{"-packages", "a", "-corpus", "x"}, "folder www"},
	} {
		_, err := parse(tt.args)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	b, err := parse([]string{"-tools", "crawler, wget2", "-corpus", "www"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.tools, []string{"crawler", "wget2"}) || len(b.packages) > 0 || !filepath.IsAbs(b.root) {
		t.Errorf("%+v", b)
	}
	if b, err = parse([]string{"-web", "tls-h1-gzip"}); err != nil || !b.web.TLS || b.web.HTTP2 || !b.web.Gzip {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = parse(nil); err != nil || !slices.Equal(b.packages, []string{defaultPackages}) {
		t.Errorf("%+v, %v", b, err)
	}
}

// A build is named as seen from where the comparison is started; it runs elsewhere.
func TestRelativeBuild(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("crawler-1", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := &bench{tools: []string{"before=crawler-1"}}
	list, err := b.installed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].name != "before" || !filepath.IsAbs(list[0].path) || filepath.Base(list[0].path) != "crawler-1" {
		t.Errorf("%+v", list)
	}
	b.tools = []string{"before=not-there"}
	if _, err := b.installed(t.Context()); err == nil || !strings.Contains(err.Error(), "not-there") {
		t.Errorf("a build that is not there: %v", err)
	}
}

func TestLayOut(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("SHARED", folder)
	root := filepath.Join(folder, "www")
	b := &bench{root: root, packages: []string{"b-doc", "a-doc"}}
	if err := b.layOut(t.Context()); err == nil || !strings.Contains(err.Error(), "SHARED") {
		t.Errorf("without the script: %v", err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	page := `<li><a href="a-doc/api/index.html">a-doc</a></li>` + "\n" + `<li><a href="b-doc/index.html">b-doc</a></li>`
	if err := os.WriteFile(filepath.Join(root, "index.html"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.layOut(t.Context()); err != nil {
		t.Errorf("all is there: %v", err)
	}
	b.packages = []string{"a-doc"}
	if err := b.layOut(t.Context()); err == nil {
		t.Error("other packages are there, and nothing is laid out")
	}
}

func TestReady(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct{ args, says string }{
		{"-tools crawler -priority 5", "nginx, taskset, mount, truncate, mkfs.ext4, go, chrt"},
		{"-tools wget2 -disks tmpfs", "nginx, taskset, mount"},
	} {
		b, err := parse(strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.ready(); err == nil || !strings.HasSuffix(err.Error(), ": "+tt.says) {
			t.Errorf("%s: %v", tt.args, err)
		}
	}
}
