package mirror

import (
	"slices"
	"strings"
)

// A kind says which extensions files of some media types have.
type kind struct {
	media     string   // types, with blanks between them
	extension string   // of a URL that has none of these
	others    []string // that a URL may have as well
	isGeneric bool     // and all that are not of documents: the type says little
}

var kinds = []*kind{
	{media: "text/html", extension: "html", others: []string{"htm"}},
	{media: "application/xhtml+xml", extension: "xhtml", others: []string{"xht"}},
	{media: "image/svg+xml", extension: "svg"},
	{media: "text/xml application/xml application/rss+xml application/atom+xml application/rdf+xml text/xsl application/xslt+xml", extension: "xml", others: []string{"rss", "atom", "rdf", "xsl", "xslt"}},
	{media: "text/css", extension: "css"},
	{media: "text/javascript application/javascript application/x-javascript text/ecmascript application/ecmascript", extension: "js", others: []string{"mjs"}},
	{media: "application/json application/manifest+json application/ld+json application/feed+json", extension: "json", others: []string{"webmanifest", "map"}},
	{media: "image/png", extension: "png"},
	{media: "image/apng", extension: "apng", others: []string{"png"}},
	{media: "image/jpeg image/jpg", extension: "jpg", others: []string{"jpeg", "jpe", "jfif"}},
	{media: "image/gif", extension: "gif"},
	{media: "image/webp", extension: "webp"},
	{media: "image/avif", extension: "avif"},
	{media: "image/bmp image/x-ms-bmp", extension: "bmp"},
	{media: "image/tiff", extension: "tif", others: []string{"tiff"}},
	{media: "image/vnd.microsoft.icon image/x-icon", extension: "ico"},
	{media: "font/woff application/font-woff application/x-font-woff", extension: "woff"},
	{media: "font/woff2 application/font-woff2", extension: "woff2"},
	{media: "font/ttf application/x-font-ttf application/x-font-truetype", extension: "ttf"},
	{media: "font/otf application/x-font-otf application/x-font-opentype", extension: "otf", others: []string{"ttf"}},
	{media: "application/vnd.ms-fontobject", extension: "eot"},
	{media: "audio/mpeg audio/mp3", extension: "mp3"},
	{media: "audio/mp4 audio/x-m4a", extension: "m4a", others: []string{"mp4"}},
	{media: "audio/ogg application/ogg", extension: "ogg", others: []string{"oga", "ogv", "opus"}},
	{media: "audio/wav audio/x-wav audio/wave", extension: "wav"},
	{media: "audio/flac audio/x-flac", extension: "flac"},
	{media: "video/mp4", extension: "mp4", others: []string{"m4v"}},
	{media: "video/webm audio/webm", extension: "webm"},
	{media: "video/ogg", extension: "ogv", others: []string{"ogg"}},
	{media: "video/quicktime", extension: "mov"},
	{media: "text/vtt", extension: "vtt"},
	{media: "application/wasm", extension: "wasm"},
	{media: "application/pdf", extension: "pdf"},
	{media: "application/epub+zip", extension: "epub"},
	{media: "application/zip application/x-zip-compressed", extension: "zip"},
	{media: "application/gzip application/x-gzip", extension: "gz", others: []string{"tgz"}},
	{media: "text/csv", extension: "csv"},
	{media: "text/markdown", extension: "md"},
	{media: "text/plain", extension: "txt", others: []string{"text", "log", "rst", "c", "h", "go", "rs", "java", "diff", "patch", "yaml", "toml"}, isGeneric: true},
	generic,
}

// generic is the kind of unknown types. No extension of a program that a web server might run is
// among its own.
var generic = &kind{extension: "bin", others: []string{
	"tar", "bz2", "xz", "zst", "7z", "rar", "jar", "deb", "rpm", "iso", "dmg", "exe", "msi", "apk",
	"doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "ps", "rtf", "heic", "jxl",
}, isGeneric: true}

// documents are the extensions of what browsers take for a document, or have references rewritten
// in: a file of another type has none of them.
var documents = []string{"html", "htm", "xhtml", "xht", "svg", "xml", "rss", "atom", "rdf", "xsl", "xslt", "css"}

// extensions are those of all kinds.
var extensions = func() map[string]bool {
	all := map[string]bool{}
	for _, k := range kinds {
		for _, e := range append(k.others, k.extension) {
			all[e] = true
		}
	}
	return all
}()

var byMedia = func() map[string]*kind {
	all := map[string]*kind{}
	for _, k := range kinds {
		for m := range strings.FieldsSeq(k.media) {
			all[m] = k
		}
	}
	return all
}()

func kindOf(media string) *kind {
	if k := byMedia[strings.ToLower(media)]; k != nil {
		return k
	}
	if strings.HasSuffix(strings.ToLower(media), "+xml") {
		return byMedia["application/xml"]
	}
	return generic
}

// takes reports whether a file of this kind keeps an extension of its URL.
func (k *kind) takes(extension string) bool {
	return extension == k.extension || slices.Contains(k.others, extension) ||
		k.isGeneric && extensions[extension] && !slices.Contains(documents, extension)
}
