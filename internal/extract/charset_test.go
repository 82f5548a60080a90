package extract

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html/charset"
)

// heads are declarations of an encoding, and what each declares; "": nothing.
var heads = []struct{ head, want string }{
	{"<!DOCTYPE html><html><head><meta charset=utf-8>", "utf-8"},
	{"<meta charset='Shift_JIS'>", "shift_jis"},
	{"<META CHARSET=\"GBK\" content=x>", "gbk"},
	{"<meta charset=utf-16le>", "utf-8"},
	{`<title>a</title><meta name=x content=y><meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">`, "windows-1252"},
	{"<meta content='text/html;charset=koi8-r;x' http-equiv=content-type>", "koi8-r"},
	{"<meta content='charset=big5' charset=euc-kr http-equiv=content-type>", "euc-kr"},
	{"<meta charset=euc-kr charset=gbk>", "euc-kr"},
	{"<meta content='charset=big5'><meta http-equiv=refresh content='charset=big5'><meta charset=gbk>", "gbk"},
	{"<script><meta charset=gbk></script><!--<meta charset=gbk>--><meta charset=euc-jp>", "euc-jp"},
	{"<meta charset='&#98;ig5'>", "big5"},
	{"<meta charset><meta charset=gbk>", "gbk"},
	{"<meta charset=' gbk '>", "gbk"},
	{"<meta charset=none><meta charset=gbk>", "gbk"},
	{"<meta http-equiv=content-type><meta charset=gbk>", "gbk"},
	{"<meta http-equiv=content-type content='charset =gbk charset=big5'>", "gbk"},
	{"<meta http-equiv=content-type content='xcharset charset\n= gbk'>", "gbk"},
	{"<meta http-equiv=content-type content='CHARSET=gbk charset=big5'>", "gbk"},
	{"<meta http-equiv=content-type content='charset=\"gbk\"x'>", "gbk"},
	{"<meta http-equiv=content-type content='charset=\"gbk'>", ""},
	{"<meta http-equiv=content-type content='charset=gbk x'>", "gbk"},
	{"<meta http-equiv=content-type content='charset='><meta charset=gbk>", "gbk"},
	{"<meta http-equiv=content-type content='charse'>", ""},
	{"no declaration", ""},
	{"", ""},
}

// TestDeclared: a declaration counts wherever it stands, before or behind what a browser looks at
// before it begins to read. Heads cut anywhere are held to what the library takes them for.
func TestDeclared(t *testing.T) {
	for _, tt := range heads {
		for i := range len(tt.head) + 1 {
			sameCharset(t, []byte(tt.head[:i]))
		}
		for _, before := range []string{"", strings.Repeat("<p class=x>", 1000)} {
			page, want := before+tt.head+"\xff\xe4", tt.want
			if want == "" {
				want = "windows-1252"
			}
			if _, got := charsetOf([]byte(page), "", inHTML); got != want {
				t.Errorf("%q behind %d bytes: %s, want %s", tt.head, len(before), got, want)
			}
		}
	}
}

// sameCharset holds a declaration to what the library finds, which looks no further than 1024 bytes
// and reads drawings in another way.
func sameCharset(t *testing.T, body []byte) {
	t.Helper()
	lower := bytes.ToLower(body)
	if len(body) > headSize-10 || bytes.HasPrefix(body, []byte("<?xml")) || bytes.Contains(lower, []byte("<svg")) || bytes.Contains(lower, []byte("<math")) {
		return
	}
	for _, s := range starts {
		if bytes.HasPrefix(body, []byte(s.start)) {
			return
		}
	}
	for _, end := range []string{" \u00e9 x", " \xff x"} {
		page := append(bytes.Clone(body), end...)
		_, got := charsetOf(page, "", inHTML)
		if _, want, _ := charset.DetermineEncoding(page, ""); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

// TestCharsetOf: what a page says of its encoding, or does not say, and what its media type makes
// of that.
func TestCharsetOf(t *testing.T) {
	long := strings.Repeat("a{b:c}\n", 1000)
	const meta = "<meta charset=gbk>"
	for _, tt := range []struct{ body, label, html, xml string }{
		{"\xef\xbb\xbf" + meta, "big5", "utf-8", "utf-8"},
		{meta, "big5", "big5", "big5"},
		{meta, "ISO-88509-1", "gbk", "utf-8"},
		{"<?xml version='1.0' encoding='KOI8-R'?>\xc4", "", "koi8-r", "koi8-r"},
		{"<?xml version=\"1.0\" encoding = \n \"windows-1251\"?>" + meta, "", "gbk", "windows-1251"},
		{"<?xml encoding='utf-16'?>\xe9", "", "utf-8", "utf-8"},
		{"<?xml encoding='no such'?>\xe9", "", "windows-1252", "utf-8"},
		{"<?xml encoding='gbk?>'", "", "windows-1252", "utf-8"},
		{"<?xml encoding=gbk?>", "", "windows-1252", "utf-8"},
		{"<?xml version='1.0'?>", "", "windows-1252", "utf-8"},
		{" <?xml encoding='gbk'?>", "", "windows-1252", "utf-8"},
		{"<\x00?\x00x\x00m\x00l\x00", "", "utf-16le", "utf-16le"},
		{"\x00<\x00?\x00x\x00m\x00l", "", "utf-16be", "utf-16be"},
		{long + "\u00e9", "", "utf-8", "utf-8"},
		{long + "\u00e9 \xe4\xb8", "", "utf-8", "utf-8"}, // cut within a character
		{long + "\u00e9 \xe4", "", "utf-8", "utf-8"},
		{long + "\u00e9 \xe4 ", "", "windows-1252", "utf-8"},
		{"\u00e9" + long + "\xe4 ", "", "utf-8", "utf-8"},
		{long + "\xe9", "", "windows-1252", "utf-8"},
		{long, "", "windows-1252", "utf-8"},
		{"\xe9", "", "windows-1252", "utf-8"},
		{"\u00e9", "", "utf-8", "utf-8"},
		{"\x80\x80\x80\x80", "", "windows-1252", "utf-8"},
	} {
		for _, xml := range []bool{false, true} {
			want := tt.html
			if xml {
				want = tt.xml
			}
			e, got := charsetOf([]byte(tt.body), tt.label, formatOf(xml))
			if got != want || e == nil {
				t.Errorf("%.60q, label %q, XML %v: %s, want %s", tt.body, tt.label, xml, got, want)
			}
			if _, again := charsetOf([]byte(tt.body), got, formatOf(xml)); again != got {
				t.Errorf("%.60q: %s, and with that as its label %s", tt.body, got, again)
			}
		}
	}
}

func FuzzDeclared(f *testing.F) {
	for _, tt := range heads {
		f.Add([]byte(tt.head))
	}
	f.Fuzz(sameCharset)
}
