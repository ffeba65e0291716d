package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/cps-gpu/homelab/converge"
)

// FailedError is a release whose install or upgrade failed.
type FailedError struct {
	Namespace, Name string
	Err             error  // why
	After           string // the state now
	Undo            error  // why the previous state could not be restored; nil if it was
}

// Error says why, and the state now.
func (e *FailedError) Error() string {
	s := fmt.Sprintf("release %s/%s: %v: %s", e.Namespace, e.Name, e.Err, e.After)
	if e.Undo != nil {
		s += fmt.Sprintf(": %v", e.Undo)
	}
	return s
}

// Unwrap returns both errors.
func (e *FailedError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Err, e.Undo}, func(err error) bool { return err == nil })
}

// undo restores the state before a failed revision.
func (c *Client) undo(ctx context.Context, p *plan, rev *revision, why error) error {
	converge.Progressf(ctx, "failed: %v", why)
	failed := &FailedError{Namespace: p.release.Namespace, Name: p.release.Name, Err: why}
	within, cancel := converge.WithRunningTimeout(ctx, timeoutOf(p.release), fmt.Errorf("not done within %s", timeoutOf(p.release)))
	defer cancel()
	if err := c.note(within, rev.record, release.StatusFailed, "Failed: "+why.Error()); err != nil {
		failed.After, failed.Undo = "the previous state could not be restored", err
		return failed
	}
	if p.deployed == nil {
		failed.After = "the installed objects were removed again"
		if failed.Undo = c.removeInstalled(within, p, rev); failed.Undo != nil {
			failed.After = "the installed objects could not be removed"
		}
		return failed
	}
	failed.After = fmt.Sprintf("revision %d was restored", p.deployed.Version)
	if failed.Undo = c.rollBack(within, p, rev); failed.Undo != nil {
		failed.After = fmt.Sprintf("revision %d could not be restored", p.deployed.Version)
	}
	return failed
}

// removeInstalled removes what a first install created, except what outlives a release,
// definitions from crds folders, and objects of hooks other than Jobs and Pods.
func (c *Client) removeInstalled(ctx context.Context, p *plan, rev *revision) error {
	var errs []error
	errs = append(errs, c.removeOurs(ctx, rev.record, rev.made))
	for _, h := range rev.record.Hooks {
		if h.Kind != "Job" && h.Kind != "Pod" {
			continue
		}
		objs, err := c.hookObjects(ctx, rev.record, h)
		if err == nil {
			err = c.remove(ctx, objs)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all, err := c.revisions(ctx, p.release.Namespace, p.release.Name)
	if err != nil {
		return err
	}
	return c.deleteRecords(ctx, p.release.Namespace, p.release.Name, all...)
}

// rollBack creates a revision that repeats the last successful one.
func (c *Client) rollBack(ctx context.Context, p *plan, rev *revision) error {
	converge.Progressf(ctx, "restoring revision %d", p.deployed.Version)
	record := *p.deployed
	info := *p.deployed.Info
	info.LastDeployed = helmtime.Now()
	record.Info, record.Version, record.Labels = &info, rev.record.Version+1, maps.Clone(p.deployed.Labels)
	delete(record.Labels, "createdAt")
	record.SetStatus(release.StatusPendingRollback, weRollBack+strconv.Itoa(p.deployed.Version))
	back := &revision{record: &record, pre: release.HookPreRollback, post: release.HookPostRollback}
	var err error
	if back.objects, err = c.wantedObjects(ctx, record.Manifest, record.Name, record.Namespace); err != nil {
		return err
	}
	old := map[string]bool{}
	for _, u := range back.objects {
		old[key(u)] = true
		live, err := c.find(ctx, u)
		if err != nil {
			return err
		}
		dropControllerFields(u, live)
	}
	for _, u := range rev.objects {
		if !old[key(u)] {
			back.obsolete = append(back.obsolete, u)
		}
	}
	if err := c.createRecord(ctx, &record); err != nil {
		return err
	}
	if err := c.installRevision(ctx, back); err != nil {
		return errors.Join(err, c.note(ctx, &record, release.StatusFailed, "Rollback failed: "+err.Error()))
	}
	if err := c.note(ctx, &record, release.StatusDeployed, record.Info.Description); err != nil {
		return err
	}
	return c.supersede(ctx, p, record.Version)
}
