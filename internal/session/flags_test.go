package session

import "context"

// with is a verb with its flags, as a command without any.
func with[F any](f F, verb func(*Session, context.Context, F) error) func(*Session, context.Context) error {
	return func(s *Session, ctx context.Context) error { return verb(s, ctx, f) }
}
