package proxmox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LeaseRequest is who wants to change a cluster, and what for.
type LeaseRequest struct {
	Cluster string // its name
	Host    string // on which the lease is kept unless it is there: any of the Proxmox cluster's
	Holder  string // for people: user@machine
	Purpose string // for people: cluster:up

	// Process tells this process from all others, on all machines; empty: nobody can
	// tell. Dead reports that the process of another claim has surely ended.
	Process string
	Dead    func(process string) bool
}

// Held is another's lease.
type Held struct {
	Holder  string
	Purpose string
	Since   time.Time // by the holder's clock
}

// String says who has it: ada@desk since 17:02 (cluster:up).
func (h Held) String() string {
	return fmt.Sprintf("%s since %s (%s)", h.Holder, h.Since.Local().Format("15:04"), h.Purpose)
}

// HeldError says that another run changes the cluster.
type HeldError struct {
	Cluster string
	Held
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s changes cluster %s", e.Held, e.Cluster)
}

// ErrLeaseLost says that another run has taken over, or that somebody has removed the lease.
var ErrLeaseLost = errors.New("this run no longer has the right to change the cluster")

const (
	// leaseBeat is how often a holder shows that it lives, leaseDead after how long
	// without that another takes over, as it has watched by its own clock, and leaseOld
	// after how long a holder asks before it changes anything.
	leaseBeat = 20 * time.Second
	leaseDead = 90 * time.Second
	leaseOld  = 45 * time.Second
	leasePoll = 5 * time.Second

	// Leases have VMIDs above those that Proxmox proposes (its default next-id.upper is
	// 1,000,000) and below its largest, 999,999,999.
	leaseBase  = 900_000_000
	leaseRange = 99_000_000

	leaseNote = "A run of homelab holds this while it changes the cluster, and takes it away at its end. It is never started."
)

// Lease is the right to change a cluster, which one run has at a time, from whatever
// machine. It is a VM without disks that is never started: Proxmox makes a VMID once
// only, and a configuration is written only over the one that was read (digest).
type Lease struct {
	c     *Client
	claim LeaseRequest
	vmid  int
	nonce string
	since time.Time

	mu      sync.Mutex
	beat    int
	renewed time.Time // by the wall clock: a machine that slept must notice
	lost    error

	stop func()
	done chan struct{}
}

// Acquire waits until nobody else holds the cluster's lease, and takes it. waiting is
// told of who has it, whenever that changes; its error ends the waiting. A holder that has
// not shown that it lives for 90 s, while we watched, is dead. The context that comes back
// ends, with [ErrLeaseLost], when another has taken over.
func (c *Client) Acquire(ctx context.Context, claim LeaseRequest, waiting func(Held) error) (context.Context, *Lease, error) {
	l := &Lease{c: c, claim: claim, nonce: rand.Text(), since: time.Now(), done: make(chan struct{})}
	var last *Held
	err := l.take(ctx, func(h Held) error {
		last = &h
		return waiting(h)
	})
	if err != nil && ctx.Err() != nil && last != nil { // whatever its end has cut off, this is why there was a wait
		err = errors.Join(&HeldError{claim.Cluster, *last}, err)
	}
	if err != nil {
		return ctx, nil, fmt.Errorf("the right to change cluster %s: %w", claim.Cluster, err)
	}
	held, lose := context.WithCancelCause(ctx)
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.beats(beats, lose)
	return held, l, nil
}

// leaseState is a lease as it is in Proxmox.
type leaseState struct {
	digest string
	name   string
	fields map[string]string
}

func (s leaseState) held() Held {
	since, _ := time.Parse(time.RFC3339, s.fields["since"])
	return Held{Holder: s.fields["holder"], Purpose: s.fields["purpose"], Since: since}
}

// lease reports whether it is one at all; a VM that is being made has no name yet.
func (s leaseState) lease() bool {
	return strings.HasPrefix(s.name, "homelab-") && strings.HasSuffix(s.name, "-lease")
}

func (l *Lease) name() string { return "homelab-" + l.claim.Cluster + "-lease" }

func (l *Lease) path() string { return vmPath(l.claim.Host, l.vmid, "config") }

// text is the description of the VM, for people and for other runs.
func (l *Lease) text() string {
	return strings.Join([]string{
		leaseNote, "", "holder: " + l.claim.Holder, "since: " + l.since.UTC().Format(time.RFC3339), "purpose: " + l.claim.Purpose,
		"process: " + l.claim.Process, "run: " + l.nonce, "beat: " + strconv.Itoa(l.beat),
	}, "\n")
}

func (l *Lease) look(ctx context.Context) (leaseState, error) {
	var config struct {
		Digest      string `json:"digest"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	err := l.c.get(ctx, l.path(), nil, &config)
	s := leaseState{digest: config.Digest, name: config.Name, fields: map[string]string{}}
	for line := range strings.Lines(config.Description) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			s.fields[k] = v
		}
	}
	return s, err
}

// write replaces the lease that was read, and only that.
func (l *Lease) write(ctx context.Context, over leaseState) error {
	return l.c.call(ctx, http.MethodPut, l.path(), params{"name": l.name(), "description": l.text(), "digest": over.digest}, nil)
}

func (l *Lease) take(ctx context.Context, waiting func(Held) error) error {
	l.vmid = leaseBase + int(crc32.ChecksumIEEE([]byte(l.claim.Cluster))%leaseRange)
	var seen watched
	for {
		s, err := l.look(ctx)
		switch {
		case errors.Is(err, ErrNotFound):
			if taken, err := l.create(ctx); err != nil || taken {
				return err
			}
			if err := errors.Join(l.locate(ctx), sleep(ctx, time.Second)); err != nil { // another was quicker, perhaps on another host
				return err
			}
			continue
		case err != nil:
			return err
		case s.name != "" && !s.lease():
			return fmt.Errorf("VM %d (%s) on %s is somebody else's, and runs of this cluster meet there: give it another VMID", l.vmid, s.name, l.claim.Host)
		}
		if seen.dead(s, l.claim) {
			if s.name == "" {
				return fmt.Errorf("VM %d on %s, where runs of this cluster meet, was begun and never made: on the host run qm unlock %d && qm destroy %d", l.vmid, l.claim.Host, l.vmid, l.vmid)
			}
			if err := l.write(ctx, s); err == nil || !saidStale(err) {
				return l.begun(err)
			}
			continue // another was quicker
		}
		if s.name != "" && seen.news() {
			if err := waiting(s.held()); err != nil {
				return err
			}
		}
		if err := sleep(ctx, leasePoll); err != nil {
			return err
		}
	}
}

// create makes the lease, unless it is there.
func (l *Lease) create(ctx context.Context) (taken bool, err error) {
	err = l.c.do(ctx, http.MethodPost, nodePath(l.claim.Host, "qemu"), params{
		"vmid": l.vmid, "name": l.name(), "description": l.text(), "memory": 16, "onboot": 0,
	})
	switch s, lookErr := l.look(ctx); {
	case lookErr == nil && s.fields["run"] == l.nonce:
		return true, l.begun(nil) // also when its answer was lost
	case saidTaken(words(err)):
		return false, nil
	case err == nil:
		return false, lookErr
	}
	return false, err
}

// locate finds the host that has the lease: a VMID is one VM's in the whole Proxmox cluster.
func (l *Lease) locate(ctx context.Context) error {
	all, err := l.c.resources(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Type == "qemu" && int(r.VMID) == l.vmid {
			l.claim.Host = r.Node
		}
	}
	return nil
}

func (l *Lease) begun(err error) error {
	l.renewed = time.Now().Round(0)
	return err
}

func saidStale(err error) bool { return strings.Contains(words(err), "checksum mismatch") }

// watched is what one that waits has seen of a lease.
type watched struct {
	run, beat string
	told      string
	at        time.Time
}

// dead reports whether the holder is.
func (w *watched) dead(s leaseState, mine LeaseRequest) bool {
	if w.at.IsZero() || w.run != s.fields["run"] || w.beat != s.fields["beat"] {
		w.run, w.beat, w.at = s.fields["run"], s.fields["beat"], time.Now()
	}
	if p := s.fields["process"]; p != "" && mine.Dead != nil && mine.Dead(p) {
		return true
	}
	return time.Since(w.at) >= leaseDead
}

// news reports whether the holder is another than the one that was told of.
func (w *watched) news() bool {
	old := w.told
	w.told = w.run
	return old != w.run
}

// beats shows that we live until the lease ends.
func (l *Lease) beats(ctx context.Context, lose context.CancelCauseFunc) {
	defer close(l.done)
	for sleep(ctx, leaseBeat) == nil {
		if err := l.renew(ctx); errors.Is(err, ErrLeaseLost) {
			lose(err)
			return
		}
	}
}

// Check returns [ErrLeaseLost] when another has taken over. It asks only where the last
// sign of ours is older than 45 s: after a sleep of this machine, or while Proxmox did not answer.
func (l *Lease) Check(ctx context.Context) error {
	l.mu.Lock()
	lost, old := l.lost, time.Now().Round(0).Sub(l.renewed) > leaseOld
	l.mu.Unlock()
	if lost != nil || !old {
		return lost
	}
	return l.renew(ctx)
}

// renew shows that we live, unless another has taken over.
func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.lost == nil {
		s, err := l.look(ctx)
		switch {
		case errors.Is(err, ErrNotFound):
			l.lost = fmt.Errorf("%w: VM %d (%s) on %s has been destroyed", ErrLeaseLost, l.vmid, l.name(), l.claim.Host)
		case err != nil:
			return err
		case s.fields["run"] != l.nonce:
			l.lost = fmt.Errorf("%w: %s has taken over", ErrLeaseLost, s.held())
		default:
			l.beat++
			if err = l.write(ctx, s); err == nil {
				return l.begun(nil)
			}
			if !saidStale(err) {
				return err
			}
		}
	}
	return l.lost
}

// Release gives the lease back, unless it is another's.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	err := l.renew(ctx) // nobody takes it over before it is dead
	if errors.Is(err, ErrLeaseLost) {
		return nil
	}
	if err == nil {
		err = l.c.do(ctx, http.MethodDelete, vmPath(l.claim.Host, l.vmid), params{"purge": 1})
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("the lease of cluster %s (VM %d on %s) stays until the next run: %w", l.claim.Cluster, l.vmid, l.claim.Host, err)
	}
	return nil
}
