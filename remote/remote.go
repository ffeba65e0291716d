package remote

import (
	"context"
	"io"
)

// Runner runs commands on one machine. Implementations are safe for concurrent use.
type Runner interface {
	// Run runs cmd and waits for its end. It returns nil for exit status 0, an
	// [*ExitError] for any other status or a signal, and another error when the
	// command could not be run or its end not be learnt. When ctx ends, Run
	// returns within 200 ms with an error that wraps ctx.Err().
	Run(ctx context.Context, cmd Cmd) error
}

// RunnerFunc is a function that is a [Runner].
type RunnerFunc func(ctx context.Context, cmd Cmd) error

// Run calls f.
func (f RunnerFunc) Run(ctx context.Context, cmd Cmd) error { return f(ctx, cmd) }

// Cmd is one command.
type Cmd struct {
	Args   []string  // the program and its arguments; nothing in it is expanded
	Stdin  io.Reader // nil is no input
	Stdout io.Writer // nil discards
	Stderr io.Writer // nil discards; the end of it is in ExitError all the same
}
