package weburl

import "testing"

func TestStrip(t *testing.T) {
	for _, tt := range []struct{ name, strip, in, want string }{
		{"nothing", "", "http://www.a.org/?utm_x=1", "http://www.a.org/?utm_x=1"},
		{"one of two", "utm_*", "http://a.org/p?utm_source=x&id=2", "http://a.org/p?id=2"},
		{"all", "utm_*,PHPSESSID", "http://a.org/p?utm_source=x&PHPSESSID=1", "http://a.org/p"},
		{"only whole names", "id", "http://a.org/?idx=1&id=2&Id=3", "http://a.org/?idx=1&Id=3"},
		{"no value", "id", "http://a.org/?id&b", "http://a.org/?b"},
		{"an empty query stays", "id", "http://a.org/?", "http://a.org/?"},
		{"empty parameters stay", "id", "http://a.org/?a&&id=1&", "http://a.org/?a&&"},
		{"path", "jsessionid", "http://a.org/b;jsessionid=1/c;v=2;JSESSIONID=2;jsessionid?d", "http://a.org/b/c;v=2;JSESSIONID=2?d"},
		{"path and query", "s*", "http://a.org/;s=1/a;b;sid=2;c?sid=3&e", "http://a.org//a;b;c?e"},
		{"no dot segments", "s", "http://a.org/..;s/%2E;s=1/.%2e;s/...;s", "http://a.org/..;s/%2E;s=1/.%2e;s/..."},
		{"a port and no path parameter", "s", "http://a.org:81/s;/?;s=1", "http://a.org:81/s;/?;s=1"},
		{"www", "www.", "https://www.a.org:81/?www.=1", "https://a.org:81/?www.=1"},
		{"www twice", "www.", "https://www.www.a.org/", "https://a.org/"},
		{"www of nothing", "www.", "https://www.org/", "https://www.org/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseStrip(tt.strip)
			if err != nil {
				t.Fatal(err)
			}
			got := s.Apply(tt.in)
			if got != tt.want {
				t.Errorf("%q stripped of %q is %q, want %q", tt.in, tt.strip, got, tt.want)
			}
			if again := s.Apply(got); again != got {
				t.Errorf("not idempotent: %q becomes %q", got, again)
			}
			if c, err := Canonical(got); c != got || err != nil {
				t.Errorf("not canonical: %q is %q, %v", got, c, err)
			}
			if s.String() != tt.strip {
				t.Errorf("written as %q, read from %q", s, tt.strip)
			}
		})
	}
	for _, bad := range []string{"a=b", "*", "a*b", "x y"} {
		if _, err := ParseStrip(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
