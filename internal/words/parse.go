package words

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// ParseSize reads a number of bytes, with or without a unit.
func ParseSize(s string) (int64, error) {
	s = strings.ToLower(s)
	digits := strings.TrimRight(s, "bikmgt ")
	n, err := strconv.ParseFloat(digits, 64)
	unit, ok := units[strings.TrimSpace(s[len(digits):])]
	if n *= unit; err != nil || !ok || !(n < 1<<62) {
		return 0, strconv.ErrSyntax
	}
	return int64(n), nil
}

// longUnits are the units that [time.ParseDuration] lacks, in hours.
var longUnits = map[string]float64{"d": 24, "w": 7 * 24}

var inLongUnit = regexp.MustCompile(`([0-9]+|[0-9]*\.[0-9]+)([dw])`)

// ParseDuration does what [time.ParseDuration] does, and knows days of 24 hours and weeks.
func ParseDuration(s string) (time.Duration, error) {
	return time.ParseDuration(inLongUnit.ReplaceAllStringFunc(s, func(part string) string {
		unit := part[len(part)-1:]
		n, err := strconv.ParseFloat(part[:len(part)-1], 64)
		if err != nil {
			return part
		}
		return strconv.FormatFloat(n*longUnits[unit], 'f', -1, 64) + "h"
	}))
}
