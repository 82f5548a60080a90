package crawler

import (
	"net/http"
	"strings"

	"urltree/internal/fetch"
)

// failReason returns the reason of a status from 400 to 499 that brought no page.
func failReason(res *fetch.Response) string {
	if res.Status != http.StatusUnauthorized {
		return statusReason(res.Status)
	}
	reason := "login"
	for _, scheme := range challenges(res.Header["Www-Authenticate"]) {
		switch strings.ToLower(scheme) {
		case "basic":
			return "login-basic"
		case "digest":
			reason = "login-digest"
		}
	}
	return reason
}

// challenges returns the authentication schemes that WWW-Authenticate headers name (RFC 9110,
// 11.6.1).
func challenges(headers []string) (schemes []string) {
	for _, header := range headers {
		quoted, escaped := false, false
		parts := strings.FieldsFunc(header, func(r rune) bool {
			switch {
			case escaped:
				escaped = false
			case quoted && r == '\\':
				escaped = true
			case r == '"':
				quoted = !quoted
			}
			return r == ',' && !quoted
		})
		for _, part := range parts {
			// A parameter is NAME=VALUE, also with blanks around the sign.
			name, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
			if name != "" && !strings.Contains(name, "=") && !strings.HasPrefix(strings.TrimSpace(rest), "=") {
				schemes = append(schemes, name)
			}
		}
	}
	return schemes
}
