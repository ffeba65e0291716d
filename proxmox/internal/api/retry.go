package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// Attempts bounds how often work that meets a transient failure is begun again,
// and firstPause is the wait before the second time; the waits double.
const (
	Attempts   = 6
	firstPause = 500 * time.Millisecond
)

// Retry does work until it succeeds. After a transient failure, or one with an unknown outcome, it
// waits for tasks that may still run on id (a VMID, the name of a download), checks whether the
// work is done after all, and only then retries. A check that fails in such a way is retried, too.
func (c *Client) Retry(ctx context.Context, host, id string, work func() error, done func() (bool, error)) error {
	finished := func() (bool, error) {
		if err := c.WaitIdle(ctx, host, id); err != nil {
			return false, err
		}
		return done()
	}
	failed := work()
	err := failed
	var pause Backoff
	for try := 1; err != nil && ctx.Err() == nil && ClassOf(err) != Permanent && try < Attempts; try++ {
		converge.Progressf(ctx, "%s; checking, then retrying", ShortMessage(err))
		if pause.Pause(ctx) != nil {
			return ctx.Err()
		}
		switch ok, unseen := finished(); {
		case ok:
			return nil
		case unseen != nil:
			err = errors.Join(unseen, failed)
		default:
			failed = work()
			err = failed
		}
	}
	return err
}

// Backoff computes the pauses between attempts: about firstPause, then twice as long each time.
type Backoff struct{ last time.Duration }

// Pause waits for the next pause, or until ctx ends.
func (b *Backoff) Pause(ctx context.Context) error {
	b.last = max(firstPause, 2*b.last)
	return converge.Pause(ctx, jitter(b.last))
}

// jitter returns a duration between half of d and one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// ShortMessage returns Proxmox's message in an error, or the error's first line.
func ShortMessage(err error) string {
	if w := strings.TrimSpace(messageOf(err)); w != "" {
		return w
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// WaitIdle waits until every task on id has ended, with any result.
func (c *Client) WaitIdle(ctx context.Context, host, id string) error {
	if id == "" {
		return nil
	}
	all, err := c.RunningTasks(ctx, host)
	if err != nil {
		return err
	}
	for _, l := range all {
		upid, err := ParseUPID(l.UPID)
		if err != nil || l.ID != id || strings.Contains(l.Type, "proxy") { // an open console is a task too
			continue
		}
		if err := c.Wait(ctx, upid); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
