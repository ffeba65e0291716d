package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/placement"
)

// hold lets one run at a time change the cluster, across machines: before its first change the
// run takes the cluster's lease, waits while another run holds it, and ends if another run
// takes over. The returned context is the run's. With noWait it ends instead of waiting.
func (s *Session) hold(ctx context.Context, noWait bool) (context.Context, *leaseHold) {
	ctx, end := context.WithCancelCause(ctx)
	r := &leaseHold{s: s, end: end, noWait: noWait}
	if s.Cluster != nil {
		r.add("cluster "+s.Spec.Name, s.Cluster.Lease())
	}
	return ctx, r
}

// leaseHold is a run's right to change the cluster, or hosts, once it has taken it.
type leaseHold struct {
	s      *Session
	end    context.CancelCauseFunc
	noWait bool        // end instead of waiting
	on     []heldLease // taken in this order; none: no exclusion
	taken  bool        // all of them
	late   bool        // another run held one
	done   func()
}

// heldLease is the right to change one thing.
type heldLease struct {
	what  string // what is changed
	store converge.LeaseStore
	lease *converge.Lease // nil: not taken
}

// add extends the right to this, too.
func (r *leaseHold) add(what string, store converge.LeaseStore) {
	r.on = append(r.on, heldLease{what: what, store: store})
}

// errMeanwhile ends a run before its first change: another run may have changed the world
// since it checked. Run the graph again.
var errMeanwhile = errors.New("another run has changed it in the meantime")

// guard makes a graph take the right before its first change, and check it before each. If it
// had to wait, the graph's run ends with errMeanwhile. ctx is the run's.
func (r *leaseHold) guard(ctx context.Context, g *converge.Graph) {
	before, may := g.BeforeActing, g.Approve
	g.BeforeActing = func(step context.Context) error { // which ends with that step, unlike the right
		if before != nil {
			if err := before(step); err != nil {
				return err
			}
		}
		had := r.taken
		if err := r.acquire(ctx); err != nil || had || !r.late {
			return err
		}
		return errMeanwhile
	}
	g.Approve = func(ctx context.Context, it converge.Item) error {
		if err := r.check(ctx); err != nil || may == nil {
			return err
		}
		return may(ctx, it)
	}
}

// acquire waits for the right, and takes it. ctx is the run's.
func (r *leaseHold) acquire(ctx context.Context) error {
	if len(r.on) == 0 || r.taken {
		return nil
	}
	for i := range r.on {
		if err := r.acquireLease(ctx, &r.on[i]); err != nil {
			return err
		}
	}
	r.taken = true
	if c := r.s.Cluster; c != nil && c.Proxmox != nil { // if the right is lost, requests in progress change no host
		r.done = c.Proxmox.Guard(r.verify)
	}
	return r.s.checkPlacement(ctx)
}

// acquireFirst takes the right before anything is checked. Its error is that of a command that has
// changed nothing; ctx is the command's, held the run's.
func (r *leaseHold) acquireFirst(ctx, held context.Context) error {
	err := r.acquire(held)
	if err == nil {
		return nil
	}
	return interruptionError(ctx, notStartedError(err, ""), failuresText(&converge.Report{}, err))
}

func (r *leaseHold) acquireLease(ctx context.Context, t *heldLease) error {
	claim := converge.LeaseClaim{What: t.what, Holder: userAtMachine(), Purpose: purpose(), Process: processID(), Dead: hasEnded}
	said := r.reportReasons(t)
	defer said.end()
	held, l, err := converge.AcquireLease(converge.WithProgress(ctx, said.listen), t.store, claim, func(h converge.LeaseHolder) error {
		if r.noWait {
			return &converge.LeaseHeldError{What: t.what, LeaseHolder: h}
		}
		r.late = true
		r.s.Printf("%s changes %s; waiting until that is over.", h, t.what)
		return nil
	})
	if err != nil {
		return err
	}
	t.lease = l
	context.AfterFunc(held, func() { r.end(context.Cause(held)) })
	return nil
}

// verify returns an error if another run has taken over any part of it.
func (r *leaseHold) verify(ctx context.Context) error {
	for _, t := range r.on {
		if err := t.lease.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// placed checks that nodes with host: auto still belong on the hosts that were chosen at the
// start: another run may have placed them elsewhere since.
func (s *Session) checkPlacement(ctx context.Context) error {
	if s.unplaced == nil {
		return nil
	}
	now, err := placement.Place(ctx, s.unplaced, s.Cluster.Proxmox)
	if err != nil {
		return err
	}
	for _, n := range s.Cluster.Spec().Nodes { // a trial removes some from its file
		if is, _ := now.Node(n.Name); is.Host != n.Host {
			return fmt.Errorf("another run has taken room since this one started: %s now belongs on %s, not on %s; run it again", n.Name, is.Host, n.Host)
		}
	}
	return nil
}

// check checks whether the run still has the right, and waits while that is unknown.
func (r *leaseHold) check(ctx context.Context) error {
	if !r.taken {
		return nil
	}
	still := converge.WaitRule{What: "asking whether this run may still change the cluster", Limit: askingTime, Strict: true}
	return converge.Until(ctx, still, func(ctx context.Context) (string, error) { return "", r.verify(ctx) })
}

// release releases the right, also after an interruption: the next run on this machine would see that
// the process has ended, but others only after a while. Mage ends an interrupted command after 5 s.
func (r *leaseHold) release(ctx context.Context) {
	limit := releaseLimit
	if ctx.Err() != nil {
		limit = interruptedLimit
	}
	r.end(nil)
	if r.done != nil {
		r.done()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var all sync.WaitGroup
	for _, t := range r.on {
		if t.lease == nil {
			continue
		}
		all.Go(func() { // one that does not answer does not block the others
			if err := t.lease.Release(ctx); err != nil {
				r.s.Printf("warning: %s", err)
			}
		})
	}
	all.Wait()
}

// askingTime is how long Proxmox may not answer before a run stops because it cannot check its
// lease.
const askingTime = 10 * time.Minute

// releaseLimit is how long releasing the lease may take, and interruptedLimit after an interruption.
const (
	releaseLimit     = 20 * time.Second
	interruptedLimit = 4 * time.Second
)

// purpose is the name of the running target.
func purpose() string {
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return "a run"
}

// userAtMachine is user@machine.
func userAtMachine() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// processID identifies this process among all others: by its kernel's boot, its PID
// namespace, its PID and its start time. Empty if the system does not provide them.
func processID() string { return processOf(os.Getpid()) }

func processOf(pid int) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %d %s", strings.TrimSpace(string(boot)), namespace, pid, startTime(pid))
}

// startTime is the field starttime of /proc/PID/stat (proc_pid_stat(5)), in ticks since the boot;
// the name before it may contain blanks and brackets. Empty: no such process.
func startTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := cutLast(string(text), ")")
	fields := strings.Fields(after)
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// hasEnded reports whether another process of this machine has ended. It is unknown for processes
// of other machines and containers, and for hidden ones.
func hasEnded(process string) bool {
	var boot, namespace, start string
	var pid int
	if _, err := fmt.Sscan(process, &boot, &namespace, &pid, &start); err != nil || pid <= 0 {
		return false
	}
	mine := strings.Fields(processID())
	if len(mine) != 4 || mine[0] != boot || mine[1] != namespace {
		return false
	}
	if p, err := os.FindProcess(pid); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return err == nil
	}
	now := startTime(pid)
	return now != "" && now != start // its number is another's
}

// cutLast splits at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
