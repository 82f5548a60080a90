// Package words writes numbers and times into messages for people, and reads what people write.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Count writes a number and what it counts, a noun whose plural ends in s: 1 page, 2 pages.
func Count[N ~int | ~int64 | ~uint16 | ~uint32 | ~uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

const day = 24 * time.Hour

// Duration writes a time of 0 or more exactly, in days of 24 hours and without zeros at its end:
// 1d12h, 10m.
func Duration(d time.Duration) string {
	text := (d % day).String()
	for _, zero := range []string{"0s", "0m"} { // of 1h0m0s
		if short := strings.TrimSuffix(text, zero); short != "" && strings.ContainsAny(short[len(short)-1:], "hm") {
			text = short
		}
	}
	switch {
	case d < day:
		return text
	case d%day == 0:
		text = ""
	}
	return strconv.FormatInt(int64(d/day), 10) + "d" + text
}

// Span writes a time as Duration does, cut to its two largest units: 9h58m. Below a second it is
// exact.
func Span(d time.Duration) string {
	switch {
	case d >= day:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	case d >= time.Second:
		d = d.Truncate(time.Second)
	}
	return Duration(d)
}

// Bytes writes a number of bytes for people: 1.5 MB.
func Bytes(n int64) string {
	f, unit := float64(n), 0
	for f >= 1000 && unit < 4 {
		f, unit = f/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, []string{"B", "kB", "MB", "GB", "TB"}[unit])
}
