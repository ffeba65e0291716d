package ssh

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// plainName is the name of a program that no shell takes for anything else: it has a
// dash or a slash, which no reserved word has, and a shell that is not interactive
// expands no aliases.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.]*[-/][A-Za-z0-9_./-]*$`)

// quote makes the command line that a POSIX shell splits into args again, which is
// what SSH wants: its protocol knows command lines only. Everything goes between
// single quotes, where nothing but the single quote itself has a meaning; only the
// name of a program stands as it is where that means the same, since restricted shells
// such as git-shell and gitolite's compare it with the names that they know.
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
		if i == 0 && plainName.MatchString(arg) {
			b.WriteString(arg)
			continue
		}
		b.WriteByte('\'')
		b.WriteString(strings.ReplaceAll(arg, `'`, `'\''`))
		b.WriteByte('\'')
	}
	return b.String(), nil
}
