package disk

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Program makes an executable file that stands for the Go function of that name.
// Copied elsewhere, it still is that program; further lines carry its version.
func Program(name string, lines ...string) []byte {
	return []byte("\x7fELF\x02\x01\x01\nprogram: " + name + "\n" + strings.Join(lines, "\n") + "\n")
}

// ProgramOf reads what [program] wrote.
func ProgramOf(data []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(data, []byte("\x7fELF\x02\x01\x01\nprogram: "))
	if !ok {
		return "", false
	}
	name, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(name), true
}

// Value returns a further line's value.
func Value(data []byte, key string) string {
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, key+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// IsText reports whether a file is text, which a shell runs as a script.
func IsText(data []byte) bool {
	return utf8.Valid(data) && !slices.Contains(data, 0)
}

// Lines splits text into lines without their ends.
func Lines(data []byte) []string {
	s := strings.TrimSuffix(string(data), "\n")
	if s == "" && len(data) == 0 {
		return nil
	}
	return strings.Split(s, "\n")
}
