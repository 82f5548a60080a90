package crawler

import (
	"net/http"
	"regexp"
	"strings"

	"urltree/internal/fetch"
)

// failReason returns the reason of a status from 400 to 499 that brought no page.
func failReason(res *fetch.Response) string {
	if res.Status != http.StatusUnauthorized {
		return statusReason(res.Status)
	}
	reason := "login"
	for _, header := range res.Header["Www-Authenticate"] {
		for part := range strings.SplitSeq(quoted.ReplaceAllString(header, `""`), ",") {
			scheme, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
			switch {
			case strings.HasPrefix(strings.TrimSpace(rest), "="): // a parameter is NAME=VALUE, also with blanks around the sign
			case strings.EqualFold(scheme, "basic"):
				return "login-basic"
			case strings.EqualFold(scheme, "digest"):
				reason = "login-digest"
			}
		}
	}
	return reason
}

// quoted are the quoted strings of a WWW-Authenticate header (RFC 9110, 11.6.1).
var quoted = regexp.MustCompile(`(?s)"(\\.|[^"\\])*("|\\?$)`)
