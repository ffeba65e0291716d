package targets

import (
	"context"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/report"
)

// The options of a command are a struct. Each field with the tag help is a flag, by the field's name in lower
// case. "FILE: what it is" names the flag's value, as in -spec=FILE.

// FileOptions name the cluster's file.
type FileOptions struct {
	Spec string `help:"FILE: the cluster's file; default: cluster.yaml"`
}

// OutputOptions choose the form of what is printed.
type OutputOptions struct {
	JSON bool `help:"print data and events as lines of JSON"`
}

// LimitOptions limit a command's time.
type LimitOptions struct {
	Timeout time.Duration `help:"DURATION: stop after this time, e.g. 1h"`
}

// ReportOptions ask for a page.
type ReportOptions struct {
	Report string `help:"FILE: write a page about it here, for a browser, also if it fails"`
}

// settings collects what the options of a command share with others.
func settings(of any) session.Options {
	var o session.Options
	for i, all := 0, reflect.ValueOf(of); i < all.NumField(); i++ {
		switch s := all.Field(i).Interface().(type) {
		case FileOptions:
			o.Spec = s.Spec
		case OutputOptions:
			o.JSON = s.JSON
		case LimitOptions:
			o.Timeout = s.Timeout
		case ReportOptions:
			o.Report = s.Report
		case session.ChartFlags:
			o.ChartFlags = s
		}
	}
	o.Console = console.New(o.JSON)
	return o
}

// withSession opens a session and does one thing in it.
func withSession(ctx context.Context, o session.Options, do func(*session.Session, context.Context) error) error {
	return withOptions(ctx, o, func(ctx context.Context, o session.Options) error { return session.Do(ctx, o, do) })
}

// withSessionFlags is with for a command with flags of its own.
func withSessionFlags[F any](ctx context.Context, o session.Options, do func(*session.Session, context.Context, F) error, flags F) error {
	return withSession(ctx, o, func(s *session.Session, ctx context.Context) error { return do(s, ctx, flags) })
}

// withReport is withSessionFlags for a command that leaves a page, if its options name one.
func withReport[F any](ctx context.Context, o session.Options, command string, do func(*session.Session, context.Context, F) error, flags F) error {
	return withOptions(ctx, o, func(ctx context.Context, o session.Options) error {
		return report.Do(ctx, o, command, func(s *session.Session, ctx context.Context) error { return do(s, ctx, flags) })
	})
}

// withOptionsFlags is within for a command with flags of its own.
func withOptionsFlags[F any](ctx context.Context, o session.Options, do func(context.Context, session.Options, F) error, flags F) error {
	return withOptions(ctx, o, func(ctx context.Context, o session.Options) error { return do(ctx, o, flags) })
}

// WithDistribution returns a context in which commands have a Kubernetes that this module does not: that of files with
// distribution: talos.
func WithDistribution(ctx context.Context, m distribution.Maker) context.Context {
	return context.WithValue(ctx, distributionKey{}, m)
}

type distributionKey struct{}

// withOptions is with for functions that open their own sessions. SIGTERM works like Ctrl-C.
func withOptions(ctx context.Context, o session.Options, do func(context.Context, session.Options) error) error {
	if o.Timeout < 0 {
		return commandError(o.Console, session.Invalid("-timeout=%s: write a duration, such as 30m", o.Timeout))
	}
	o.Distribution, _ = ctx.Value(distributionKey{}).(distribution.Maker)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	return commandError(o.Console, session.InterruptionError(ctx, do(ctx, o)))
}
