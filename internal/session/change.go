package session

import (
	"context"

	"github.com/cps-gpu/homelab/converge"
)

// Change has the messages of a command in a package of its own.
type Change struct {
	ChangeFlags
	Question string // e.g. "Go on?"
	Name     string // what to type if something is destroyed
	Nothing  string // if there is nothing to do
	Done     string // at the end
}

// Change shows what a graph would do, asks about its costs, and does it. build is called again
// once nobody else changes the cluster.
func (s *Session) Change(ctx context.Context, build func(context.Context) (*converge.Graph, error), c Change) error {
	defer s.keep()
	return verbError(s.confirmed(ctx, build, spoken{
		wish: wish{question: c.Question, name: c.Name}, ChangeFlags: c.ChangeFlags, nothing: c.Nothing, done: c.Done,
	}))
}

// Mistake is an error in the flags or a file: nothing was tried.
func Mistake(err error) error { return failed(invalid, err) }

// Pending says that something has to be done.
func Pending(err error) error { return failed(pending, err) }
