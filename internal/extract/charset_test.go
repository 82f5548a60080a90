package extract

import (
	"strings"
	"testing"

	"golang.org/x/net/html/charset"
)

// declarations of an encoding; quick are those that need no library.
var heads = []struct {
	head  string
	quick bool
}{
	{"<!DOCTYPE html><html><head><meta charset=utf-8>", true},
	{"<meta charset='Shift_JIS'>", true},
	{"<META CHARSET=\"GBK\" content=x>", true},
	{"<meta charset=utf-16le>", true},
	{`<title>a</title><meta name=x content=y><meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">`, true},
	{"<meta content='text/html;charset=koi8-r;x' http-equiv=content-type>", true},
	{"<meta content='charset=big5' charset=euc-kr http-equiv=content-type>", true},
	{"<meta charset=euc-kr charset=gbk>", true},
	{"<meta content='charset=big5'><meta http-equiv=refresh content='charset=big5'><meta charset=gbk>", true},
	{"<script><meta charset=gbk></script><!--<meta charset=gbk>--><meta charset=euc-jp>", true},
	{"<meta charset='&#98;ig5'>", true},
	{"<meta charset=none content='charset=gbk' http-equiv=content-type><meta charset=big5>", false},
	{"<meta charset><meta charset=gbk>", false},
	{"<meta charset=' gbk '>", false},
	{"<meta http-equiv=content-type><meta charset=gbk>", false},
	{"<meta http-equiv=content-type content='charset =gbk charset=big5'>", false},
	{"<meta http-equiv=content-type content='CHARSET=gbk charset=big5'>", false},
	{"<meta http-equiv=content-type content='charset=\"gbk\"'>", false},
	{"<meta http-equiv=content-type content='charset=gbk x'>", false},
	{"<meta http-equiv=content-type content='charset='><meta charset=gbk>", false},
	{"<svg><![CDATA[<meta charset=gbk>]]></svg>", false},
	{"<svg><title/><meta charset=gbk></svg>", false},
	{strings.Repeat(" ", headSize-len("<meta charset=gbk>")) + "<meta charset=gbk>", true},
	{strings.Repeat(" ", headSize+1-len("<meta charset=gbk>")) + "<meta charset=gbk>", false},
	{"no declaration, \xe9", false},
	{"no declaration, \u00e9", false},
	{"", false},
}

// TestDeclared holds what is found without the library to what the library finds.
func TestDeclared(t *testing.T) {
	for _, tt := range heads {
		for i := range len(tt.head) + 1 {
			sameCharset(t, []byte(tt.head[:i]))
		}
		if e, _ := declared([]byte(tt.head[:min(len(tt.head), headSize)])); (e != nil) != tt.quick {
			t.Errorf("%q: found without the library: %v", tt.head, e != nil)
		}
	}
}

func sameCharset(t *testing.T, body []byte) {
	t.Helper()
	_, got := charsetOf(body, "")
	if _, want, _ := charset.DetermineEncoding(body, ""); got != want {
		t.Errorf("%q: %q, want %q", body, got, want)
	}
}

func FuzzDeclared(f *testing.F) {
	for _, tt := range heads {
		f.Add([]byte(tt.head))
	}
	f.Fuzz(sameCharset)
}
