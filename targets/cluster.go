package targets

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// Cluster is what cluster.yaml describes.
type Cluster mg.Namespace

// Validate checks cluster.yaml and lists everything that is wrong with it. Flags: -spec=FILE.
func (Cluster) Validate(spec *string) error {
	o := options(spec, nil, nil, nil)
	s, err := session.Load(o)
	if err != nil {
		return leave(o.Console, err)
	}
	return leave(o.Console, s.Validate())
}

// Plan shows what cluster:up would do; exit code 0 for nothing, 2 for changes. Flags: -spec=FILE -charts=FOLDER -offline -json -timeout=10m.
func (Cluster) Plan(ctx context.Context, spec, charts *string, offline, json *bool, timeout *time.Duration) error {
	o := options(spec, json, nil, timeout)
	o.Charts, o.Offline = value(charts), value(offline)
	o.Start = true
	return with(ctx, o, (*session.Session).Plan)
}

// Up creates or changes the cluster to match cluster.yaml; run it again at any time. It asks before it restarts or destroys a machine, or adds your login to machines that others may have made. Flags: -spec=FILE -charts=FOLDER -offline -json -yes -restart -login -destroy=A,B -nowait -timeout=1h.
func (Cluster) Up(ctx context.Context, spec, charts, destroy *string, offline, json, yes, restart, login, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Restart, o.Login, o.Destroy = value(restart), value(login), value(destroy)
	o.Charts, o.Offline = value(charts), value(offline)
	o.Start, o.MakeKey, o.NoWait = true, true, value(nowait)
	return with(ctx, o, (*session.Session).Up)
}

// Status shows every node, every part of the platform, and what is wrong. Flags: -spec=FILE -charts=FOLDER -offline -json.
func (Cluster) Status(ctx context.Context, spec, charts *string, offline, json *bool) error {
	o := options(spec, json, nil, nil)
	o.Charts, o.Offline = value(charts), value(offline)
	return with(ctx, o, (*session.Session).Status)
}

// Down destroys everything that cluster:up made, except the NFS server; -also=NAME destroys that too. Flags: -spec=FILE -also=NAME -yes -json -nowait.
func (Cluster) Down(ctx context.Context, spec, also *string, yes, json, nowait *bool) error {
	o := options(spec, json, yes, nil)
	o.Also, o.NoWait = value(also), value(nowait)
	return with(ctx, o, (*session.Session).Down)
}

// Kubeconfig brings the kubeconfig up to date and prints its path. Flags: -spec=FILE.
func (Cluster) Kubeconfig(ctx context.Context, spec *string) error {
	return with(ctx, options(spec, nil, nil, nil), (*session.Session).Kubeconfig)
}

// options turns Mage's flags into ours; one that was not given is nil.
func options(spec *string, json, yes *bool, timeout *time.Duration) session.Options {
	return session.Options{Spec: value(spec), JSON: value(json), Yes: value(yes), Timeout: value(timeout), Console: console.New(value(json))}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// with opens a session, does one thing in it, and obeys SIGTERM as it does Ctrl-C.
func with(ctx context.Context, o session.Options, do func(*session.Session, context.Context) error) error {
	return within(ctx, o, func(ctx context.Context, o session.Options) error { return session.Do(ctx, o, do) })
}

// within is with for what opens sessions of its own.
func within(ctx context.Context, o session.Options, do func(context.Context, session.Options) error) error {
	if o.Timeout < 0 {
		return mg.Fatalf(3, "-timeout=%s: write a duration, such as 30m", o.Timeout)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	return leave(o.Console, do(ctx, o))
}

// leave ends the program with an error's own exit code and words, said where all else was:
// the console knows the secrets. Mage would print them, and whatever a terminal obeys.
func leave(c *console.Console, err error) error {
	if err == nil {
		return nil
	}
	os.Exit(session.Fail(c, err))
	return err
}
