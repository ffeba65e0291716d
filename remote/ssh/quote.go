package ssh

import (
	"errors"
	"fmt"
	"strings"
)

// quote makes the command line that a POSIX shell splits into args again, which is
// what SSH wants: its protocol knows command lines only. Everything goes between
// single quotes, where nothing but the single quote itself has a meaning.
func quote(args []string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", errors.New("ssh: no command given")
	}
	var b strings.Builder
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return "", fmt.Errorf("ssh: argument %d of %s has a NUL byte in it", i, args[0])
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('\'')
		b.WriteString(strings.ReplaceAll(arg, `'`, `'\''`))
		b.WriteByte('\'')
	}
	return b.String(), nil
}
