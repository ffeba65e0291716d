package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/proxmox"
)

// hold lets one run at a time change the cluster, from whatever machine: before its first
// act the run takes the cluster's lease, waits while another has it, and ends when another
// has taken over. Clusters without Proxmox have no lease.
func (s *Session) hold(ctx context.Context, g *converge.Graph) (held context.Context, release func()) {
	if s.Cluster == nil || s.Cluster.Proxmox == nil {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	var lease *proxmox.Lease
	g.Before = func(context.Context) error { // its context ends with Before's own step
		over, l, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		lease = l
		context.AfterFunc(over, func() { end(context.Cause(over)) })
		return nil
	}
	may := g.May
	g.May = func(ctx context.Context, it converge.Item) error {
		still := wait.Rule{What: "asking whether this run may still change the cluster", Limit: askingTime, Strict: true}
		if err := wait.Until(ctx, still, func(ctx context.Context) (string, error) { return "", lease.Check(ctx) }); err != nil || may == nil {
			return err
		}
		return may(ctx, it)
	}
	return ctx, func() { s.giveBack(ctx, end, lease) }
}

// giveBack ends a lease. Who has interrupted the run does not wait for it: what it leaves
// then is known to be dead by the next run here, and by others after a while.
func (s *Session) giveBack(ctx context.Context, end context.CancelCauseFunc, lease *proxmox.Lease) {
	limit, interrupted := giveBackTime, ctx.Err() != nil
	if interrupted {
		limit = time.Second
	}
	end(nil)
	if lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := lease.Release(ctx); err != nil && !interrupted {
		s.Say("warning: %s", err)
	}
}

// askingTime is how long Proxmox may be away before a run stops that cannot know whether
// it is still alone.
const askingTime = 10 * time.Minute

// giveBackTime is how long giving the lease back may take.
const giveBackTime = 20 * time.Second

func (s *Session) acquire(ctx context.Context) (context.Context, *proxmox.Lease, error) {
	hosts, err := s.Cluster.Proxmox.Hosts(ctx)
	if err != nil {
		return nil, nil, err
	}
	r := proxmox.LeaseRequest{
		Cluster: s.Spec.Name, Host: hosts[0].Name, Holder: whoami(), Purpose: purpose(), Process: thisProcess(), Dead: ended,
	}
	for _, h := range hosts {
		if h.Online {
			r.Host = h.Name
			break
		}
	}
	return s.Cluster.Proxmox.Acquire(ctx, r, func(h proxmox.Held) error {
		s.Say("%s changes this cluster; waiting until that is over.", h)
		return nil
	})
}

// purpose is the target that runs, as it was called.
func purpose() string {
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return "a run"
}

// whoami is user@machine.
func whoami() string {
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

// thisProcess tells this process from all others: the boot of its kernel, its namespace of
// processes, its number, and when it began. Empty where the system does not tell.
func thisProcess() string { return processOf(os.Getpid()) }

func processOf(pid int) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %d %s", strings.TrimSpace(string(boot)), namespace, pid, began(pid))
}

// began is the field starttime of /proc/PID/stat (proc_pid_stat(5)), in ticks since the
// boot; the name before it may hold blanks and brackets. Empty: there is no such process.
func began(pid int) string {
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

// ended reports whether another process of this machine has. Of other machines, and other
// containers, nobody here can tell; nor of processes that the system hides from us.
func ended(process string) bool {
	var boot, namespace, start string
	var pid int
	if _, err := fmt.Sscan(process, &boot, &namespace, &pid, &start); err != nil || pid <= 0 {
		return false
	}
	mine := strings.Fields(thisProcess())
	if len(mine) != 4 || mine[0] != boot || mine[1] != namespace {
		return false
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	now := began(pid)
	return now != "" && now != start // its number is another's
}

// cutLast cuts at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
