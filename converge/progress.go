package converge

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// ProgressUpdate is one report.
type ProgressUpdate struct {
	Message string // what is being done or waited for, in words, without a full stop
	Done    int64  // how much of Total is done, in bytes or pieces
	Total   int64  // 0 when not known
}

// String returns the message, with a percentage where a total is known.
func (u ProgressUpdate) String() string {
	if u.Total <= 0 {
		return u.Message
	}
	return fmt.Sprintf("%s %d %%", u.Message, u.Done*100/u.Total)
}

type key struct{}

// WithProgress returns a context whose reports go to listen, which must be safe for
// concurrent use and must not block.
func WithProgress(ctx context.Context, listen func(ProgressUpdate)) context.Context {
	return context.WithValue(ctx, key{}, listen)
}

// Notify sends u to the context's listener, if there is one.
func Notify(ctx context.Context, u ProgressUpdate) {
	if listen, ok := ctx.Value(key{}).(func(ProgressUpdate)); ok {
		listen(u)
	}
}

// Progressf reports a phrase, formatted as by fmt.Sprintf.
func Progressf(ctx context.Context, format string, args ...any) {
	Notify(ctx, ProgressUpdate{Message: fmt.Sprintf(format, args...)})
}

// ProgressWriter returns a writer that reports each whole line written to it; a program's
// output can be sent there. It is not safe for concurrent use.
func ProgressWriter(ctx context.Context) io.Writer { return &progressWriter{ctx: ctx} }

type progressWriter struct {
	ctx  context.Context
	rest []byte
}

// maxLine bounds what an endless line can hold in memory.
const maxLine = 4096

func (l *progressWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexAny(l.rest, "\r\n")
		if i < 0 {
			if len(l.rest) > maxLine {
				l.rest = l.rest[:0]
			}
			return len(p), nil
		}
		if line := bytes.TrimSpace(l.rest[:i]); len(line) > 0 {
			Notify(l.ctx, ProgressUpdate{Message: string(line)})
		}
		l.rest = l.rest[i+1:]
	}
}
