package labctl

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// Options select a lab.
type Options struct {
	Dir    string // its folder; DefaultDir when empty
	Needs  *Needs // of a cluster, which the lab chooses hardware and guests for; nil: Model and Guests say them
	Model  string // of the hardware; "eight-a100" when empty
	Source string // the repository to build it from; empty: found from the current folder
	Binary string // an existing program from Build; empty: build it

	Precheck func() error // called before a lab is built and started, not when one runs

	Guests Guests // what is real; the zero value: nothing

	// Speed is how many times faster than real the simulated host and its guests are; 0 is the
	// lab's default, whose VMs boot in about a second.
	Speed float64
}

// DefaultModel is a lab's default hardware.
const DefaultModel = "eight-a100"

// Time limits. A lab is ready in about 5 s.
const (
	startPatience = 2 * time.Minute
	stopPatience  = 5 * time.Second
	look          = 100 * time.Millisecond
)

// LockRunning marks dir as the folder of a running lab while the returned lock is held. The lab
// calls it first; a second lab is refused.
func LockRunning(dir string) (*Lock, error) {
	lock, err := tryLock(dir, lifeFile)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("a lab runs in %s already", dir)
	}
	return lock, err
}

// Find returns the lab that runs in dir, or an error that wraps [ErrNotRunning]. Files left by
// a crash do not count.
func Find(ctx context.Context, dir string) (State, error) {
	dir = cmp.Or(dir, DefaultDir)
	if !isRunning(dir) {
		return State{}, ErrNotRunning
	}
	s, err := readState(dir)
	if err != nil {
		return State{}, err
	}
	if err := s.ping(ctx); err != nil {
		return State{}, fmt.Errorf("the lab (pid %d) runs but does not answer; stop it with lab:stop: %w", s.PID, err)
	}
	return s, nil
}

func isRunning(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, lifeFile)); err != nil {
		return false
	}
	lock, err := tryLock(dir, lifeFile)
	if err == nil {
		lock.Unlock()
	}
	return errors.Is(err, errLocked)
}

// ping makes a TLS connection to the endpoint and checks its certificate.
func (s State) ping(ctx context.Context) error {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // the fingerprint identifies it
		VerifyConnection: func(c tls.ConnectionState) error {
			if got := Fingerprint(c.PeerCertificates[0].Raw); got != s.Fingerprint {
				return fmt.Errorf("the certificate at %s has the fingerprint %s and not %s", s.Endpoint, got, s.Fingerprint)
			}
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	return conn.Close()
}

// Fingerprint writes the SHA-256 of a certificate as Proxmox does.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// Start returns the lab of a folder; if none runs, it builds and starts one. A lab that runs
// already may lack what Needs asks for: compare [Needs.Missing]. It reports to ctx's progress
// listener.
func Start(ctx context.Context, o Options) (State, error) {
	o.Dir, o.Model = cmp.Or(o.Dir, DefaultDir), cmp.Or(o.Model, DefaultModel)
	if s, err := o.findMatching(ctx); !errors.Is(err, ErrNotRunning) {
		return s, err
	}
	lock, err := o.lockStart(ctx)
	if err != nil {
		return State{}, err
	}
	defer lock.Unlock()
	if s, err := o.waitStarting(ctx); !errors.Is(err, ErrNotRunning) { // another command was faster
		return s, err
	}
	if o.Precheck != nil {
		if err := o.Precheck(); err != nil {
			return State{}, err
		}
	}
	if o.Binary == "" {
		if o.Binary, err = Build(ctx, o); err != nil {
			return State{}, err
		}
	}
	if o.Needs != nil {
		if err := o.prepare(ctx); err != nil {
			return State{}, err
		}
	}
	return o.launch(ctx)
}

// findMatching is Find, but refuses a lab with other hardware than Model and Guests say. What Needs
// asks for is compared by the caller, who has words for it.
func (o Options) findMatching(ctx context.Context) (State, error) {
	s, err := Find(ctx, o.Dir)
	if o.Needs != nil {
		return s, err
	}
	if err == nil && s.Guests != o.Guests {
		return s, fmt.Errorf("the lab runs with %s, and %s are asked for: end it with lab:stop first", s.Guests, o.Guests)
	}
	if err == nil && s.Model != o.Model {
		return s, fmt.Errorf("the lab runs with the hardware %q, and %q is asked for: end it with lab:stop first", s.Model, o.Model)
	}
	return s, err
}

// waitStarting waits for a lab that is starting: even if its starter was killed, it continues.
func (o Options) waitStarting(ctx context.Context) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		s, err := o.findMatching(ctx)
		if !errors.Is(err, ErrNotRunning) || !isRunning(o.Dir) {
			return s, err
		}
		converge.Progressf(ctx, "waiting for a lab that is starting")
		if converge.Pause(ctx, look) != nil {
			return State{}, fmt.Errorf("a lab is starting in %s and does not become ready, see %s: %w", o.Dir, filepath.Join(o.Dir, logFile), ctx.Err())
		}
	}
}

func (o Options) lockStart(ctx context.Context) (*Lock, error) {
	for {
		lock, err := tryLock(o.Dir, startFile)
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		converge.Progressf(ctx, "waiting for another command that starts the lab")
		if converge.Pause(ctx, look) != nil {
			return nil, fmt.Errorf("another command is starting the lab: %w", ctx.Err())
		}
	}
}

// launch starts the program in a session of its own and waits until it is ready.
func (o Options) launch(ctx context.Context) (State, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return State{}, fmt.Errorf("lab: %w", err)
	}
	log := filepath.Join(dir, logFile)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return State{}, fmt.Errorf("lab: %w", err)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return State{}, fmt.Errorf("lab: %w", err)
	}
	defer out.Close()
	guests, err := json.Marshal(o.Guests)
	if err != nil {
		return State{}, fmt.Errorf("lab: %w", err)
	}
	args := []string{"serve", "-dir", dir, "-model", o.Model, "-guests", string(guests)}
	if o.Speed > 0 {
		args = append(args, "-speed", strconv.FormatFloat(o.Speed, 'g', -1, 64))
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), o.Binary, args...) // it outlives ctx
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = dir
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return State{}, fmt.Errorf("lab: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s, err := o.awaitReady(ctx, cmd.Process.Pid, log, ended)
	if err != nil {
		_ = kill(cmd.Process.Pid)
	}
	return s, err
}

func (o Options) awaitReady(ctx context.Context, pid int, log string, ended <-chan error) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if s, err := readState(o.Dir); err == nil && s.PID == pid {
			return s, nil
		}
		converge.Progressf(ctx, "starting the lab: %s", cmp.Or(lastLine(log), "its program"))
		select {
		case err := <-ended:
			return State{}, fmt.Errorf("the lab ended (%w): %s; its log is %s", err, lastLine(log), log)
		case <-ctx.Done():
			return State{}, fmt.Errorf("the lab is not ready (%s); its log is %s: %w", lastLine(log), log, ctx.Err())
		case <-tick.C:
		}
	}
}

func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	data = bytes.TrimSpace(data)
	line := string(data[bytes.LastIndexByte(data, '\n')+1:])
	// Lines of log/slog are shown without time and level.
	if _, rest, ok := strings.Cut(line, " msg="); ok {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			if message, err := strconv.Unquote(quoted); err == nil {
				return message
			}
		}
		line, _, _ = strings.Cut(rest, " ")
	}
	return line
}

// Stop stops the lab of a folder and its programs, within about 5 s. It is not an error if
// none runs.
func Stop(ctx context.Context, dir string) error {
	dir = cmp.Or(dir, DefaultDir)
	if !isRunning(dir) {
		return RemoveState(dir)
	}
	s, err := readState(dir)
	if errors.Is(err, ErrNotRunning) {
		return fmt.Errorf("a lab is starting in %s: wait until it is ready", dir)
	}
	if err != nil {
		return err
	}
	if err := terminate(s.PID); err != nil {
		return fmt.Errorf("end the lab (pid %d): %w", s.PID, err)
	}
	if err := awaitEnd(ctx, dir, stopPatience); err == nil || ctx.Err() != nil {
		return errors.Join(err, RemoveState(dir))
	}
	// The kernel kills its children with it.
	if err := kill(s.PID); err != nil {
		return fmt.Errorf("kill the lab (pid %d): %w", s.PID, err)
	}
	return errors.Join(awaitEnd(ctx, dir, stopPatience), RemoveState(dir))
}

func awaitEnd(ctx context.Context, dir string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for isRunning(dir) {
		converge.Progressf(ctx, "waiting for the lab's programs to end")
		if converge.Pause(ctx, look) != nil {
			return fmt.Errorf("the lab still runs: %w", ctx.Err())
		}
	}
	return nil
}
