package inspect

import "urltree/storage/record"

// A reason is a word for why something became of a URL or a sitemap, as records, res2.txt and
// statistics.txt have it. A cause may follow it behind a colon.
type reason struct {
	of            string // what became of it: OfFailed and so on
	word, meaning string // a sentence
}

// What a reason is of.
const (
	OfFailed     = "failed"
	OfRefused    = "refused"
	OfRedirected = "redirected" // to where no crawl follows
	OfSitemap    = "sitemap"
	OfHeld       = "held" // by which links are rejected as well
)

const (
	unreachable = "The site's robots.txt could not be read, and nothing is asked without it."
	outside     = "It is outside what -scope allows, seen from the seeds."
	included    = "No -include pattern matches it."
	forgotten   = "It is forgotten, or leads to a URL that is (crawler forget)."
	excluded    = "An -exclude pattern matches it."
)

var reasons = []reason{
	{OfFailed, "dns", "The host name has no address, or no name server answered."},
	{OfFailed, "connect", "No connection could be made to the host or the proxy."},
	{OfFailed, "tls", "The encrypted connection failed: its certificate or its handshake is wrong."},
	{OfFailed, "tls-name", "The certificate of the server is one of another host name."},
	{OfFailed, "tls-expired", "The certificate of the server is not valid any more, or not yet."},
	{OfFailed, "tls-self-signed", "The certificate of the server is signed by itself; -insecure accepts it."},
	{OfFailed, "tls-authority", "The certificate of the server is signed by an authority that this machine does not trust; -insecure accepts it."},
	{OfFailed, "tls-plain-http", "The server speaks HTTP without encryption at this port: its URLs begin with http://."},
	{OfFailed, "timeout", "The answer did not begin, get on or end in time (-first-byte, -min-rate, -timeout)."},
	{OfFailed, "reset", "The connection ended before the answer did."},
	{OfFailed, "truncated", "The body was shorter than announced."},
	{OfFailed, "header", "The header of the answer is too large: more than 64 KiB, or 1,000 lines."},
	{OfFailed, "protocol", "What came back is not an HTTP answer."},
	{OfFailed, "coding", "The body has a content coding that is not supported or broken."},
	{OfFailed, "no-content", "The answer has no body by its status (204, 205 or 304)."},
	{OfFailed, "partial", "The answer is only a part (206) of the page, which was not asked for."},
	{OfFailed, "http-3xx", "The status is a redirect that leads nowhere."},
	{OfFailed, "http-4xx", "The server refused the request (status 400 to 499): it has no such page, or not for everybody; see -user and -cookies."},
	{OfFailed, "login-basic", "The server asks for name and password (401, Basic): -user gives them to the origins of seeds. If it was given, it is a wrong one here."},
	{OfFailed, "login-digest", "The server asks for a login by Digest (401), which is not supported. A cookie of a login may help (-cookies)."},
	{OfFailed, "login", "The server asks for a login (401) by a scheme that is not supported, or names none. A cookie of a login (-cookies) or a header (-header) may help."},
	{OfFailed, "http-5xx", "The server failed (500 to 599)."},
	{OfFailed, "redirect-loop", "Redirects led in a circle, or there were too many in a row."},
	{OfFailed, "redirect-location", "The redirect names no URL that can be followed."},
	{OfFailed, "fetch", "The program that crawls has a Fetch of its own, which gave an error."},
	{OfFailed, "panic", "The crawler itself failed on this answer; that is a defect of it."},
	{OfFailed, "parse-budget", "Finding its links would take more work than one page may ask for."},
	{OfFailed, "tree", "The file system cannot hold this page, though it can hold others."},

	{OfRefused, "address", "The address is private, local or reserved. No seed named host and port when it was asked, or the host had a public address at first."},
	{OfRefused, "robots", "The site's robots.txt disallows it."},
	{OfRefused, "elsewhere", "Another node of the crawl has its outcome: it had the host before."},
	{OfRefused, "noindex", "The page asks not to be kept; its links count all the same."},
	{OfRefused, record.Duplicate, "A page with the same content was stored already (-skip-duplicates); its links count all the same."},
	{OfRefused, "type", "The media type is none that is kept."},
	{OfRefused, "too-large", "The body is larger than -max-size."},
	{OfRefused, "length", "The URL is too long."},

	{OfRedirected, record.Forgotten, forgotten},
	{OfRedirected, "scope", outside},
	{OfRedirected, "include", included},
	{OfRedirected, "exclude", excluded},

	{OfSitemap, "no-sitemap", "The answer is neither a sitemap nor a feed."},
	{OfSitemap, "damaged", "It ends before its end: what could be read of it counts."},
	{OfSitemap, "cut", "It is larger than a sitemap may be (50,000 URLs, 50 MiB): the rest was left out."},
	{OfSitemap, "nesting", "It is an index of sitemaps too deep in other indexes: what it names was left out."},
	{OfSitemap, record.Forgotten, forgotten},
	{OfSitemap, "robots-unreachable", unreachable},

	{OfHeld, "depth", "It is more links away from a seed than -max-depth allows."},
	{OfHeld, "scope", outside},
	{OfHeld, "include", included},
	{OfHeld, "exclude", excluded},
	{OfHeld, record.Forgotten, forgotten},
	{OfHeld, "not-allowed", "The program that crawls does not allow it (Options.Allow)."},
	{OfHeld, "budget-domain", "Its domain has as many hosts as -budget-domain allows."},
	{OfHeld, "budget-host", "Its host has as many URLs as -budget-host allows."},
	{OfHeld, "budget-prefix", "A folder above it has as many URLs as -budget-prefix allows."},
	{OfHeld, "budget-query", "Its path has as many URLs with different queries as -budget-query allows."},
	{OfHeld, "budget-repeat", "A segment stands more often in its path than -budget-repeat allows."},
	{OfHeld, "budget-depth", "Its path has more segments than -budget-depth allows."},
	{OfHeld, "max-held", "Its host has as many held URLs as -max-held allows."},
	{OfHeld, "host given up", "Its host failed too often in this run."},
	{OfHeld, "refused", "Its host or the proxy refused it, or its host could not be reached, each time that this run asked."},
	{OfHeld, "robots-unreachable", unreachable},
	{OfHeld, "http1", "The host refused HTTP/2 for it: it is asked again by HTTP/1.1."},
	{OfHeld, "goaway", "The host ended its connection before it looked at it: it is asked again."},
	{OfHeld, "no-room", "The disk of the tree was nearly full, and the page too large for memory: it is asked again."},
}

// meaning returns a sentence for a reason, "" for one that needs none.
func meaning(word string) string {
	for i := range reasons {
		if reasons[i].word == word {
			return reasons[i].meaning
		}
	}
	return ""
}
