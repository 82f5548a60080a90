// Package warc writes and reads WARC files: records of what a crawl asked and was answered, in the
// form of ISO 28500:2017 (WARC 1.1). A file is a sequence of records, each by itself a member of
// gzip where the file is compressed, so that a record can be read alone, by its offset.
//
// Writer and Reader stream: memory does not grow with a record or a file. Neither may be used by
// two goroutines at a time.
package warc

import (
	"crypto/sha1"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Types of records.
const (
	Info     = "warcinfo" // about the file, its first record
	Metadata = "metadata"
	Request  = "request"
	Resource = "resource" // a body without the answer that brought it
	Response = "response" // status line, header and body of an answer
	Revisit  = "revisit"  // an answer whose body is in another record
)

// Names of fields.
const (
	FieldType          = "WARC-Type"
	FieldID            = "WARC-Record-ID"
	FieldDate          = "WARC-Date"
	FieldLength        = "Content-Length"
	FieldContentType   = "Content-Type"
	FieldTarget        = "WARC-Target-URI"
	FieldBlockDigest   = "WARC-Block-Digest"
	FieldPayloadDigest = "WARC-Payload-Digest"
	FieldConcurrentTo  = "WARC-Concurrent-To"
	FieldInfoID        = "WARC-Warcinfo-ID"
	FieldTruncated     = "WARC-Truncated"
	FieldFilename      = "WARC-Filename"
	FieldIP            = "WARC-IP-Address"
	FieldProtocol      = "WARC-Protocol"
	FieldProfile       = "WARC-Profile"

	FieldRefersTo       = "WARC-Refers-To"
	FieldRefersToTarget = "WARC-Refers-To-Target-URI"
	FieldRefersToDate   = "WARC-Refers-To-Date"
	FieldRefersToFile   = "WARC-Refers-To-Filename"
	FieldRefersToOffset = "WARC-Refers-To-File-Offset"
)

// Content types of blocks.
const (
	FieldsType   = "application/warc-fields" // named fields
	RequestType  = "application/http;msgtype=request"
	ResponseType = "application/http;msgtype=response"
)

// SamePayload is the profile of a revisit record whose body is that of the record it refers to.
const SamePayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

// A Field is one named field of a record. Names are compared without regard to case.
type Field struct{ Name, Value string }

// A Header is the named fields of a record, in the order of the file.
type Header []Field

// Get returns the value of the first field of a name, "" if there is none.
func (h Header) Get(name string) string {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Target returns the URL that a record is about, without the angle brackets that some tools put
// around it, "" if it names none.
func (h Header) Target() string {
	url := h.Get(FieldTarget)
	if inner, ok := strings.CutPrefix(url, "<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	return url
}

// Date returns the time that WARC-Date says, in any of the precisions that WARC 1.1 allows.
func (h Header) Date() (time.Time, error) {
	s := h.Get(FieldDate)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z", "2006-01-02", "2006-01", "2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: date %.40q", ErrFormat, s)
}

// FormatDate returns a time as WARC-Date has it: UTC, with as many digits of the second as it has.
func FormatDate(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

// Digest returns the digest of bytes as other tools expect it, SHA-1 in base 32.
func Digest(b []byte) string { return DigestOf(sha1.Sum(b)) }

// DigestOf returns a SHA-1 that was computed already, as [Digest] writes it.
func DigestOf(sum [sha1.Size]byte) string {
	return string(base32.StdEncoding.AppendEncode(append(make([]byte, 0, 64), "sha1:"...), sum[:]))
}

// IDOf returns bytes as a UUID of a version, in the form of WARC-Record-ID.
func IDOf(b [16]byte, version byte) string {
	b[6], b[8] = b[6]&0x0f|version<<4, b[8]&0x3f|0x80
	s := append(make([]byte, 0, 64), "<urn:uuid:"...)
	from := 0
	for _, to := range [...]int{4, 6, 8, 10, 16} {
		s = append(hex.AppendEncode(s, b[from:to]), '-')
		from = to
	}
	s[len(s)-1] = '>'
	return string(s)
}
