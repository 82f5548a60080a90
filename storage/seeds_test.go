package storage

import (
	"testing"

	"urltree/storage/record"
)

// TestSeedOrigins finds the origins and hosts of seeds, also of those that were known before, and
// none whose name or port only begins so, nor that of a link or of the target of a seed's redirect.
func TestSeedOrigins(t *testing.T) {
	x, path := newIndex(t, 1)
	commitLinks := func(links ...record.Link) {
		t.Helper()
		if _, err := x.Commit([]*record.Outcome{{Links: links}}); err != nil {
			t.Fatal(err)
		}
	}
	commitLinks(record.Link{URL: "http://known.org/", Source: "http://a.org/", Depth: 1})
	commitLinks(
		record.Link{URL: "http://known.org/", Source: record.Seed}, record.Link{URL: "https://a.org/x", Source: record.Seed},
		record.Link{URL: "http://b.org:8080/", Source: record.Seed}, record.Link{URL: "http://[::1]:81/", Source: record.Seed},
		record.Link{URL: "http://link.org/", Source: "http://a.org/", Depth: 1},
		record.Link{URL: "http://target.org/", Source: record.Seed, Via: "http://b.org:8080/", Hops: 1},
	)
	x.Close()
	for _, readOnly := range []bool{false, true} {
		x = open(t, path, Options{ReadOnly: readOnly})
		for origin, want := range map[string]bool{
			"http://known.org": true, "https://known.org": false, "https://a.org": true, "http://a.org": false,
			"https://a.org:443": false, "http://b.org:8080": true, "http://b.org:80": false, "http://b.org:808": false,
			"http://b.org": false, "http://[::1]:81": true, "http://link.org": false, "http://target.org": false,
		} {
			if got, err := x.Seeds().HasOrigin(origin); err != nil || got != want {
				t.Errorf("SeedOrigin(%s) = %v, %v", origin, got, err)
			}
		}
		for host, want := range map[string]bool{
			"known.org": true, "a.org": true, "b.org": true, "[::1]": true, "b.or": false, "b.org.evil.org": false,
			"link.org": false, "target.org": false, "": false, "a": false,
		} {
			if got, err := x.Seeds().HasHost(host); err != nil || got != want {
				t.Errorf("SeedHost(%s) = %v, %v", host, got, err)
			}
		}
		x.Close()
	}
}
