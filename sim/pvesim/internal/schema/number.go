package schema

import (
	"math"
	"strconv"
	"strings"
)

// Atoi is the number that a text says; -1 where it says none.
func Atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// MaxSize is what a size that is more than any is read as, in whole KiB.
const MaxSize = math.MaxInt64 &^ 1023

// ParseSize reads sizes such as 64M as they stand in configurations; 0 for none.
func ParseSize(s string) int64 {
	s = strings.TrimPrefix(s, "+")
	if s == "" {
		return 0
	}
	unit := int64(1)
	switch s[len(s)-1] {
	case 'K':
		unit = 1 << 10
	case 'M':
		unit = 1 << 20
	case 'G':
		unit = 1 << 30
	case 'T':
		unit = 1 << 40
	}
	if unit > 1 {
		s = s[:len(s)-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	if f*float64(unit) >= MaxSize {
		return MaxSize
	}
	return int64(f * float64(unit))
}

// FormatSize writes a size as configurations have it: in the largest unit up to
// G that it is a whole number of.
func FormatSize(n int64) string {
	unit := 0
	for unit < 4 && n%1024 == 0 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + [...]string{"", "K", "M", "G", "T"}[unit]
}
