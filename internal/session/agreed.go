package session

import "context"

// Agreed asks a question of yes or no, for a package that has a command of its own. It returns
// nil for yes.
func (s *Session) Agreed(ctx context.Context, question string) error {
	if !s.person() {
		return failedf(refused, "nothing was changed: there is no terminal to ask on: add -yes")
	}
	return s.ask(ctx, question, "y", "yes")
}

// Invalid is an error in a file or a flag, after which nothing was tried.
func Invalid(format string, args ...any) error { return failedf(invalid, format, args...) }
