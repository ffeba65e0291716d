package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cps-gpu/homelab/internal/limit"
)

// Runner runs commands on one machine. Implementations are safe for concurrent use.
type Runner interface {
	// Run runs cmd and waits for its end. It returns nil for exit status 0, an [*ExitError]
	// for any other status or a signal, and another error if the command could not run or its
	// end is not known. When ctx ends, Run returns within 200 ms with an error that wraps
	// ctx.Err().
	Run(ctx context.Context, cmd Cmd) error
}

// RunnerFunc is a function that is a [Runner].
type RunnerFunc func(ctx context.Context, cmd Cmd) error

// Run calls f.
func (f RunnerFunc) Run(ctx context.Context, cmd Cmd) error { return f(ctx, cmd) }

// errNoRunner says that a nil Runner was passed.
var errNoRunner = errors.New("remote: there is no Runner to run it on: it is nil")

// run is r.Run, of a nil Runner too.
func run(ctx context.Context, r Runner, cmd Cmd) error {
	if r == nil {
		return fmt.Errorf("%s: %w", cmd, errNoRunner)
	}
	return r.Run(ctx, cmd)
}

// Cmd is one command.
type Cmd struct {
	Args   []string  // the program and its arguments; nothing in it is expanded
	Stdin  io.Reader // nil: no input
	Stdout io.Writer // nil discards
	Stderr io.Writer // nil discards; ExitError has its end in any case
}

// Run runs a command without input, and discards its output.
func Run(ctx context.Context, r Runner, args ...string) error {
	return run(ctx, r, Cmd{Args: args})
}

// maxOutput is the most that [Output] reads from a command, in bytes.
const maxOutput = 16 << 20

// Output runs a command and returns its standard output, even with an error. A command that
// writes more than 16 MiB is stopped, which is an error: the machine may be broken or hostile.
func Output(ctx context.Context, r Runner, args ...string) ([]byte, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := output{Buffer: limit.Buffer{Most: maxOutput}, stop: stop}
	err := run(ctx, r, Cmd{Args: args, Stdout: &out})
	if out.large != nil {
		err = fmt.Errorf("%s: its output: %w", Cmd{Args: args}, out.large)
	}
	return out.Bytes(), err
}

// output stops a command whose output is too long: a Runner may continue although it cannot
// write.
type output struct {
	limit.Buffer
	stop  context.CancelFunc
	large error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Buffer.Write(b)
	if err != nil {
		o.large = err
		o.stop()
	}
	return n, err
}
