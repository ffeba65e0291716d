// Package sums reads lists of checksums.
package sums

import (
	"bufio"
	"io"
	"strings"
)

// Read reads a list as sha256sum writes it: checksums in hexadecimal by file. Other lines, such as comments, are left out.
func Read(list io.Reader) (map[string]string, error) {
	sums := map[string]string{}
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) == 2 {
			sums[strings.TrimPrefix(words[1], "*")] = words[0]
		}
	}
	return sums, lines.Err()
}
