package main

import (
	"strings"
	"testing"
)

// TestReport: of tests that pass nothing is printed, of those that fail or never end everything,
// and those that are skipped are listed with their reasons.
func TestReport(t *testing.T) {
	events := `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"    a_test.go:1: fine\n"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"run","Package":"a","Test":"TestMount/tmpfs"}
{"Action":"output","Package":"a","Test":"TestMount/tmpfs","Output":"=== RUN   TestMount/tmpfs\n"}
{"Action":"output","Package":"a","Test":"TestMount/tmpfs","Output":"    a_test.go:2: mount is not allowed:\n"}
{"Action":"output","Package":"a","Test":"TestMount/tmpfs","Output":"        who are you?\n"}
{"Action":"output","Package":"a","Test":"TestMount/tmpfs","Output":"    --- SKIP: TestMount/tmpfs (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestMount/tmpfs"}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}
{"Action":"pass","Package":"a"}
{"Action":"run","Package":"b","Test":"TestBad"}
{"Action":"output","Package":"b","Test":"TestBad","Output":"    b_test.go:1: wrong\n"}
{"Action":"output","Package":"b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"b","Test":"TestBad"}
{"Action":"run","Package":"b","Test":"TestPanic"}
{"Action":"output","Package":"b","Test":"TestPanic","Output":"panic: no\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.1s\n"}
{"Action":"fail","Package":"b"}
{"Action":"build-output","ImportPath":"c","Output":"c.go:1: syntax error\n"}
go: a word of its own
`
	want := `ok  	a	0.1s
    b_test.go:1: wrong
--- FAIL: TestBad (0.00s)
FAIL	b	0.1s
panic: no
c.go:1: syntax error
go: a word of its own
skipped: a TestMount/tmpfs: a_test.go:2: mount is not allowed: who are you?
`
	var got strings.Builder
	if err := report(&got, strings.NewReader(events)); err != nil || got.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &got, want)
	}
}

// TestFolder: with -C the tests of that folder run, whichever is the present one.
func TestFolder(t *testing.T) {
	t.Chdir("..") // which has no package
	if code := run([]string{"-C", "testlog", "-run", "^$", "."}); code != 0 {
		t.Errorf("code %d", code)
	}
}
