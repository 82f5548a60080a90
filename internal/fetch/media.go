package fetch

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// mediaOf reads a Content-Type header as far as it can be read. It is not sure where the header is
// missing, names no media type, or names one that only says that the server does not know.
func mediaOf(header string) (media, charset string, sure bool) {
	media, params, _ := strings.Cut(header, ";")
	media, _, _ = strings.Cut(media, ",") // two headers joined into one
	media = strings.ToLower(strings.TrimSpace(media))
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") {
			charset = strings.ToLower(strings.Trim(value, " \t\"'"))
			break
		}
	}
	kind, sub, _ := strings.Cut(media, "/")
	if !httpguts.ValidHeaderFieldName(kind) || !httpguts.ValidHeaderFieldName(sub) {
		return "", charset, false
	}
	switch media {
	case "application/octet-stream", "application/unknown", "unknown/unknown", "binary/octet-stream", "*/*":
		return media, charset, false
	}
	return media, charset, true
}

// sniff returns the media type of the first bytes, as the MIME Sniffing standard does. The charset
// that comes with it is a guess and is left to those who read the text.
func sniff(body []byte) string {
	media, _, _ := strings.Cut(http.DetectContentType(body), ";")
	return media
}
