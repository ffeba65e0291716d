package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
)

// grace is how long to wait for an orderly end after a command was cancelled. It leaves half
// of the 200 ms that [remote.Runner] promises.
const grace = 80 * time.Millisecond

// errNotStarted says that a connection turned out to be broken before the command was sent.
var errNotStarted = errors.New("the connection broke before the command was sent")

// process is one run of a command.
type process struct {
	conn *conn
	cmd  remote.Cmd
	line string

	tail           remote.Tail
	stdout, stderr *output

	failing sync.Mutex
	failure error // of the caller's own streams
}

func newProcess(on *conn, cmd remote.Cmd, line string) *process {
	p := &process{conn: on, cmd: cmd, line: line}
	turn := make(chan struct{}, 1) // shared: the caller's streams may be the same
	p.stdout = &output{sem: turn, to: cmd.Stdout}
	p.stderr = &output{sem: turn, to: cmd.Stderr, tail: &p.tail}
	return p
}

// run runs the command until it or ctx ends. It calls ended when the session is over, which
// may be later after a cancellation.
func (p *process) run(ctx context.Context, ended func()) error {
	var result error
	over := make(chan struct{})
	done := p.conn.use()
	go func() {
		defer ended()
		defer done()
		defer close(over)
		result = p.runSession(ctx)
	}()
	select {
	case <-over:
		if result == nil || ctx.Err() == nil {
			return result
		}
	case <-ctx.Done():
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
		}
		p.stdout.detach()
		p.stderr.detach()
	}
	return interruptionError(ctx, fmt.Sprintf("%s on %s", p.cmd, p.conn.addr))
}

// runSession runs the command's session from start to end.
func (p *process) runSession(ctx context.Context) error {
	session, err := p.conn.session(ctx)
	if err != nil {
		return err
	}
	defer p.conn.running.Add(-1)
	abort := func() {
		_ = session.Signal(xssh.SIGTERM)
		_ = session.Close()
	}
	defer func() { _ = session.Close() }()
	defer context.AfterFunc(ctx, abort)()

	fail := p.failer(abort)
	p.stdout.fail = func(err error) { fail("its standard output", err) }
	p.stderr.fail = func(err error) { fail("its standard error", err) }
	session.Stdout, session.Stderr = p.stdout, p.stderr
	stdin, err := session.StdinPipe()
	if err != nil {
		return err
	}
	if err := session.Start(p.line); err != nil {
		return p.startError(err)
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		p.feed(stdin, func(err error) { fail("its standard input", err) })
	}()
	err = session.Wait()
	// The reader belongs to the caller again, but do not wait for one that blocks.
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-fed:
	case <-timer.C:
	}
	return p.outcome(err)
}

// startError is the error of an exec request that failed.
func (p *process) startError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || p.conn.wire.hasBroken() {
		return &LostError{Addr: p.conn.addr, Args: p.cmd.Args, Err: p.conn.wire.explain(err)}
	}
	// The library's own error repeats the command line, which may be long.
	return fmt.Errorf("ssh: %s refuses to run %s: is the account restricted to one command?", p.conn.addr, p.cmd)
}

// failer returns a function that records the first failure of one of the caller's streams and
// ends the command.
func (p *process) failer(abort func()) func(what string, err error) {
	return func(what string, err error) {
		p.failing.Lock()
		defer p.failing.Unlock()
		if p.failure == nil {
			p.failure = fmt.Errorf("%s: %s: %w", p.cmd, what, err)
			go abort() // may block, and the caller of this must continue to read
		}
	}
}

// feed sends the caller's Stdin. It is not a failure if the program does not read all of it,
// but it is if the reader fails.
func (p *process) feed(stdin io.WriteCloser, fail func(error)) {
	if p.cmd.Stdin != nil {
		source := &failingReader{r: p.cmd.Stdin}
		if _, err := io.Copy(stdin, source); err != nil && source.err != nil {
			fail(source.err)
			return // without an end of file, which would mean that the input is complete
		}
	}
	_ = stdin.Close()
}

// outcome turns the end of the session into Run's result.
func (p *process) outcome(err error) error {
	p.failing.Lock()
	defer p.failing.Unlock()
	if p.failure != nil {
		return p.failure
	}
	if err == nil {
		return nil
	}
	if exit, ok := errors.AsType[*xssh.ExitError](err); ok {
		return &remote.ExitError{Args: p.cmd.Args, Code: exit.ExitStatus(), Signal: exit.Signal(), Stderr: p.tail.String()}
	}
	return &LostError{Addr: p.conn.addr, Args: p.cmd.Args, Err: p.conn.wire.explain(err)}
}

// failingReader records that the reader failed.
type failingReader struct {
	r   io.Reader
	err error
}

func (f *failingReader) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// output passes on what the command writes, until it is detached. Its writes never fail,
// because a stream that is not read to its end would block the command.
type output struct {
	sem  chan struct{}
	to   io.Writer // nil: discarded or detached
	tail *remote.Tail
	fail func(error)
}

func (o *output) Write(b []byte) (int, error) {
	o.sem <- struct{}{}
	defer func() { <-o.sem }()
	if o.tail != nil {
		_, _ = o.tail.Write(b)
	}
	if o.to != nil {
		if _, err := o.to.Write(b); err != nil {
			o.to = nil
			o.fail(err)
		}
	}
	return len(b), nil
}

// detach makes sure that nothing more is written to the caller's writer, unless that writer
// itself blocks.
func (o *output) detach() {
	timer := time.NewTimer(grace / 4)
	defer timer.Stop()
	select {
	case o.sem <- struct{}{}:
		o.to = nil
		<-o.sem
	case <-timer.C:
	}
}
