package session

import (
	"context"

	"github.com/cps-gpu/homelab/converge"
)

// Change has the messages of a command that changes something.
type Change struct {
	ChangeFlags
	Question string // e.g. "Go on?"
	Name     string // what to type if something is destroyed; empty: the name of that, or the cluster's
	Nothing  string // if there is nothing to do
	Done     string // at the end

	narrow bool // -login, -restart and -destroy are flags of the command
	show   bool // the whole plan, before the question
}

// Change shows what a graph would do, asks about its costs, and does it. build is called again
// once nobody else changes the cluster.
func (s *Session) Change(ctx context.Context, build func(context.Context) (*converge.Graph, error), c Change) error {
	defer s.saveHostKeys()
	return verbError(s.runConfirmed(ctx, build, c))
}

// Pending says that something has to be done.
func Pending(err error) error { return exitError(pending, err) }

// Confirm asks a question of yes or no, for a package that has a command of its own. It returns
// nil for yes.
func (s *Session) Confirm(ctx context.Context, question string) error {
	if !s.isInteractive() {
		return exitErrorf(refused, "nothing was changed: there is no terminal to ask on: add -yes")
	}
	return s.ask(ctx, question, "y", "yes")
}

// Invalid is an error in a file or a flag, after which nothing was tried.
func Invalid(format string, args ...any) error { return exitErrorf(invalid, format, args...) }

// RefusedError says that nothing was done, because nobody has agreed to it.
func RefusedError(format string, args ...any) error { return exitErrorf(refused, format, args...) }
