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
	"github.com/cps-gpu/homelab/internal/session/examine"
	"github.com/cps-gpu/homelab/internal/session/report"
)

// Cluster is what cluster.yaml describes.
type Cluster mg.Namespace

// Validate checks cluster.yaml and lists everything that is wrong with it.
func (Cluster) Validate(
	spec *string, // FILE: the cluster's file; default: cluster.yaml
) error {
	o := options(spec, nil, nil)
	s, err := session.Load(o)
	if err != nil {
		return leave(o.Console, err)
	}
	return leave(o.Console, s.Validate())
}

// Plan shows what cluster:up would do; exit code 0 for nothing, 2 for changes.
func (Cluster) Plan(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	charts *string, // FOLDER: take charts from here before any repository
	offline *bool, // take charts from that folder and the cache only
	json *bool, // print data and events as lines of JSON
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	o := options(spec, json, timeout)
	o.ChartFlags = session.ChartFlags{Charts: value(charts), Offline: value(offline)}
	o.Start = true
	return with(ctx, o, (*session.Session).Plan)
}

// Up creates or changes the cluster to match cluster.yaml; run it again at any time. It asks before it restarts or destroys a machine, or adds your login to machines that others may have made.
func (Cluster) Up(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	charts *string, // FOLDER: take charts from here before any repository
	destroy *string, // A,B: agree to destroy these machines
	offline *bool, // take charts from that folder and the cache only
	json *bool, // print data and events as lines of JSON
	yes *bool, // do not ask: agree to everything that is shown
	restart *bool, // agree to restarts of machines
	login *bool, // agree to add your login to machines that know none of your keys
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
	report *string, // FILE: write a page about it here, for a browser, also if it fails
) error {
	o := options(spec, json, timeout)
	o.ChartFlags = session.ChartFlags{Charts: value(charts), Offline: value(offline)}
	o.Start, o.MakeKey, o.Report = true, true, value(report)
	flags := session.UpFlags{ChangeFlags: changes(yes, nowait), Restart: value(restart), Login: value(login), Destroy: value(destroy)}
	return withReport(ctx, o, "cluster:up", func(s *session.Session, ctx context.Context) error { return s.Up(ctx, flags) })
}

// Status shows every node, every part of the platform, and what is wrong.
func (Cluster) Status(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	charts *string, // FOLDER: take charts from here before any repository
	offline *bool, // take charts from that folder and the cache only
	json *bool, // print data and events as lines of JSON
	report *string, // FILE: write a page about it here, for a browser, also if it fails
) error {
	o := options(spec, json, nil)
	o.ChartFlags = session.ChartFlags{Charts: value(charts), Offline: value(offline)}
	o.Report = value(report)
	return withReport(ctx, o, "cluster:status", (*session.Session).Status)
}

// Watch serves a live page about the cluster on this machine, until Ctrl-C.
func (Cluster) Watch(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	charts *string, // FOLDER: take charts from here before any repository
	offline *bool, // take charts from that folder and the cache only
	port *int, // 8080: listen on this port of this machine; default: any free one
	browser *bool, // open it in the browser
) error {
	o := options(spec, nil, nil)
	o.ChartFlags = session.ChartFlags{Charts: value(charts), Offline: value(offline)}
	return withFlags(ctx, o, report.Watch, session.WatchFlags{Port: value(port), Browser: value(browser)})
}

// Doctor finds the cause of a failure: it reads hosts, VMs, machines from inside, K3s, the kernel's log and pods, and changes nothing; exit code 2 if something does not work.
func (Cluster) Doctor(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	json *bool, // print data and events as lines of JSON
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	o := options(spec, json, timeout)
	o.Without = true
	return with(ctx, o, examine.Doctor)
}

// Support packs what a helper needs to find a failure into one file, without secrets: doctor, plan, logs of all machines, pods and events.
func (Cluster) Support(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	out *string, // FILE: the archive; default: CLUSTER-support-DATE.tar.gz
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	o := options(spec, nil, timeout)
	o.Without = true
	return withFlags(ctx, o, examine.Support, examine.SupportFlags{Out: value(out)})
}

// Down destroys everything that cluster:up made, except the NFS server; -also=NAME destroys that too.
func (Cluster) Down(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	also *string, // NAME: destroy this NFS server with its data too
	yes *bool, // do not ask: agree to everything that is shown
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
) error {
	return withFlags(ctx, options(spec, json, nil), (*session.Session).Down, session.DownFlags{
		ChangeFlags: changes(yes, nowait), Also: value(also),
	})
}

// Kubeconfig brings the kubeconfig up to date and prints its path.
func (Cluster) Kubeconfig(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
) error {
	return with(ctx, options(spec, nil, nil), (*session.Session).Kubeconfig)
}

// options turns Mage's flags into ours; one that was not given is nil.
func options(spec *string, json *bool, timeout *time.Duration) session.Options {
	return session.Options{Spec: value(spec), JSON: value(json), Timeout: value(timeout), Console: console.New(value(json))}
}

func changes(yes, nowait *bool) session.ChangeFlags {
	return session.ChangeFlags{Yes: value(yes), NoWait: value(nowait)}
}

func hosts(host, ssh, fingerprint *string) session.HostFlags {
	return session.HostFlags{Host: value(host), SSH: value(ssh), Fingerprint: value(fingerprint)}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// with opens a session and does one thing in it; SIGTERM works like Ctrl-C.
func with(ctx context.Context, o session.Options, do func(*session.Session, context.Context) error) error {
	return within(ctx, o, func(ctx context.Context, o session.Options) error { return session.Do(ctx, o, do) })
}

// withFlags is with for a verb with flags of its own.
func withFlags[F any](ctx context.Context, o session.Options, do func(*session.Session, context.Context, F) error, flags F) error {
	return with(ctx, o, func(s *session.Session, ctx context.Context) error { return do(s, ctx, flags) })
}

// withReport is with for a command that leaves a page, if its options name one.
func withReport(ctx context.Context, o session.Options, command string, do func(*session.Session, context.Context) error) error {
	return within(ctx, o, func(ctx context.Context, o session.Options) error { return report.Do(ctx, o, command, do) })
}

// within is with for functions that open their own sessions.
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

// leave ends the program with an error's exit code, and prints the error on the console, which
// redacts secrets. Mage would print secrets and control characters.
func leave(c *console.Console, err error) error {
	if err == nil {
		return nil
	}
	os.Exit(session.Fail(c, err))
	return err
}
