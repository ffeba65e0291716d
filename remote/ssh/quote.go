package ssh

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// plainName matches program names that a shell cannot misread: they have a dash or a slash,
// unlike reserved words, and a non-interactive shell expands no aliases.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.]*[-/][A-Za-z0-9_./-]*$`)

// quote returns the command line that a POSIX shell splits into args again, because SSH's
// protocol has only command lines. Everything is in single quotes, where only the single quote
// itself has a meaning. A plain program name is not quoted, because restricted shells such as
// git-shell and gitolite's compare it with the names that they know.
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
