package helm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// defaultTimeout is how long everything in a release may take to be ready.
const defaultTimeout = 10 * time.Minute

func timeoutOf(r chart.Release) time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return defaultTimeout
}

// Apply installs or upgrades r and waits until everything in it is ready. If chart and values
// are those of the last revision, it only repairs objects that somebody changed or deleted,
// without a new revision and without hooks.
//
// If it fails, it restores the previous state, and the error is a [*FailedError]: the objects
// of a first install are removed, and an upgrade is rolled back to the last successful
// revision. Only definitions from crds folders stay. Any other error occurred before the first
// object was written, or while the record of a complete revision was written: that revision
// stays pending, and the next Apply continues it. When ctx ends, Apply returns at once. It
// changes nothing further and undoes nothing: the revision stays pending, and the next Apply
// continues it.
func (c *Client) Apply(ctx context.Context, r chart.Release) error {
	within, cancel := converge.WithRunningTimeout(ctx, timeoutOf(r), fmt.Errorf("not ready within %s", timeoutOf(r)))
	defer cancel()
	if err := c.awaitOthers(within, r); err != nil {
		return fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
	}
	p, err := c.plan(within, r)
	if err != nil {
		return err
	}
	if p.same {
		if err := c.repair(within, p); err != nil {
			return fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
		}
		return nil
	}
	if err := c.prepareRevision(within, p); err != nil {
		return fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
	}
	return c.advance(ctx, within, p)
}

// Descriptions of our records while they are pending.
const (
	weInstall = "Install by homelab"
	weUpgrade = "Upgrade by homelab"

	weRollBack = "Rollback by homelab to "
)

// helmTimeout is how long Helm works on a release at most, unless told otherwise
// (helm v3.22.0, cmd/helm/install.go).
const helmTimeout = 5 * time.Minute

// awaitOthers waits while another Helm works on a release, up to Helm's own time limit: the
// record of a killed Helm stays pending forever.
func (c *Client) awaitOthers(ctx context.Context, r chart.Release) error {
	return waitUntilNone(ctx, func(ctx context.Context) ([]string, error) {
		history, err := c.history(ctx, r.Namespace, r.Name)
		if err != nil || len(history) == 0 {
			return nil, err
		}
		last := history[len(history)-1]
		age := time.Since(last.Info.LastDeployed.Time)
		if !last.Info.Status.IsPending() || last.Info.Description == weInstall || last.Info.Description == weUpgrade ||
			strings.HasPrefix(last.Info.Description, weRollBack) || age > helmTimeout {
			return nil, nil
		}
		return []string{fmt.Sprintf("revision %d is %s by another Helm", last.Version, last.Info.Status)}, nil
	})
}

// repair restores what differs from the last revision.
func (c *Client) repair(ctx context.Context, p *plan) error {
	looks, err := c.survey(ctx, p)
	if err != nil {
		return err
	}
	var want []*unstructured.Unstructured
	if err := c.define(ctx, p.crds); err != nil {
		return err
	}
	for _, l := range looks {
		if l.want == nil || l.want.GetKind() == "CustomResourceDefinition" && !ownedBy(l.want, p.release.Name, p.release.Namespace) {
			continue // nothing to do, or done by define
		}
		want = append(want, l.want)
		if l.diff.Empty() {
			continue
		}
		converge.Progressf(ctx, "repairing %s", kube.RefOf(l.want))
		if err := c.adopt(ctx, l.live); err != nil {
			return err
		}
		if err := c.write(ctx, l.want); err != nil {
			return err
		}
	}
	return c.awaitReady(ctx, want)
}

// adopt takes over the fields that Helm set, through its command line or Terraform.
func (c cluster) adopt(ctx context.Context, live *unstructured.Unstructured) error {
	if live == nil {
		return nil
	}
	return c.helm.Adopt(ctx, live, manager, "terraform-provider-helm")
}

// prepareRevision prepares a revision: its namespace, and the definitions of kinds in crds folders,
// which Helm would neither upgrade nor roll back.
func (c *Client) prepareRevision(ctx context.Context, p *plan) error {
	if err := c.ensureNamespace(ctx, p.release.Namespace); err != nil {
		return err
	}
	if len(p.crds) == 0 {
		if p.next != nil {
			return nil
		}
		return c.render(ctx, p)
	}
	if err := c.define(ctx, p.crds); err != nil {
		return err
	}
	// Templates may ask for kinds that exist only now.
	caps, err := c.awaitCapabilities(ctx)
	if err != nil {
		return err
	}
	if p.chart.caps, err = caps.helm(); err != nil {
		return err
	}
	p.inputs = p.digest(caps)
	return c.render(ctx, p)
}

// ensureNamespace creates a missing namespace. If one of this name is being deleted, it first
// waits until that is gone.
func (c cluster) ensureNamespace(ctx context.Context, name string) error {
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(name)
	live, err := c.find(ctx, ns)
	if err != nil {
		return err
	}
	if live != nil && live.GetDeletionTimestamp() != nil {
		if err := c.awaitGone(ctx, []*unstructured.Unstructured{ns}); err != nil {
			return err
		}
		live = nil
	}
	if live != nil {
		return nil
	}
	_, err = c.kube.Apply(ctx, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
	return err
}

// revision is a revision that is being installed.
type revision struct {
	record    *release.Release
	objects   []*unstructured.Unstructured // in order
	obsolete  []*unstructured.Unstructured
	pre, post release.HookEvent
	made      []*unstructured.Unstructured // objects that did not exist before
}

// advance installs the next revision, or restores the previous state. within ends earlier than
// ctx, because undoing may take longer than the change.
func (c *Client) advance(ctx, within context.Context, p *plan) error {
	fail := func(err error) error {
		return fmt.Errorf("release %s/%s: %w", p.release.Namespace, p.release.Name, err)
	}
	rev := &revision{record: p.record(), pre: release.HookPreUpgrade, post: release.HookPostUpgrade}
	if p.deployed == nil {
		rev.pre, rev.post = release.HookPreInstall, release.HookPostInstall
	}
	var err error
	if rev.objects, err = c.wantedObjects(within, p.next.manifest, p.release.Name, p.release.Namespace); err != nil {
		return fail(err)
	}
	if rev.obsolete, err = c.obsolete(within, p, rev.objects); err != nil {
		return fail(err)
	}
	if err := c.claim(within, p, rev); err != nil {
		return fail(err)
	}
	if err := c.failPending(within, p); err != nil {
		return fail(err)
	}
	if err := c.createRecord(within, rev.record); err != nil {
		return fail(err)
	}
	why := c.installRevision(within, rev)
	if why == nil {
		if err := c.recordSuccess(within, p, rev.record); err != nil {
			return fail(err)
		}
		return nil
	}
	if ctx.Err() != nil {
		return fail(fmt.Errorf("cut off: %w", why))
	}
	return c.undo(ctx, p, rev, why)
}

// record returns the record of the next revision.
func (p *plan) record() *release.Release {
	now := helmtime.Now()
	rel := &release.Release{
		Name: p.release.Name, Namespace: p.release.Namespace, Version: p.moment().revision,
		Chart: p.chart.chart, Config: p.chart.values, Manifest: p.next.manifest, Hooks: p.next.hooks,
		Labels: map[string]string{labelInputs: p.inputs},
		Info: &release.Info{FirstDeployed: now, LastDeployed: now, Notes: p.next.notes,
			Status: release.StatusPendingUpgrade, Description: weUpgrade},
	}
	if p.deployed == nil {
		rel.SetStatus(release.StatusPendingInstall, weInstall)
	} else {
		rel.Info.FirstDeployed = p.deployed.Info.FirstDeployed
	}
	return rel
}

// claim reads which objects of a revision exist, and refuses to take over another owner's.
func (c *Client) claim(ctx context.Context, p *plan, rev *revision) error {
	lives := make([]*unstructured.Unstructured, len(rev.objects))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLooks)
	for i, u := range rev.objects {
		g.Go(func() (err error) { lives[i], err = c.find(gctx, u); return err })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var foreign []string
	for i, u := range rev.objects {
		live := lives[i]
		if live == nil {
			rev.made = append(rev.made, u)
			continue
		}
		if !ownedBy(live, p.release.Name, p.release.Namespace) && (u.GetKind() != "Namespace" || live.GetAnnotations()[noteName] != "") {
			ours, err := c.abandoned(ctx, p.release, live)
			if err != nil {
				return err
			}
			if !ours {
				foreign = append(foreign, ownerOf(live))
				continue
			}
		}
		dropControllerFields(u, live)
		if err := c.adopt(ctx, live); err != nil {
			return err
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	n, ns := p.release.Name, p.release.Namespace
	return fmt.Errorf("%s: remove them, or make them this release's: kubectl label … %s=%s, and kubectl annotate … %s=%s %s=%s",
		strings.Join(foreign, "; "), labelManagedBy, managedByHelm, noteName, printable.Word(n), noteNamespace, printable.Word(ns))
}

// ownerOf names the owner of an object.
func ownerOf(live *unstructured.Unstructured) string {
	notes := live.GetAnnotations()
	if notes[noteName] == "" {
		return kube.RefOf(live).String() + " is there already, made without Helm"
	}
	return fmt.Sprintf("%s belongs to release %s/%s", kube.RefOf(live), notes[noteNamespace], notes[noteName])
}

// failPending marks interrupted revisions as failed: Helm itself refuses to work on a release
// while one is pending.
func (c *Client) failPending(ctx context.Context, p *plan) error {
	for _, rel := range p.history {
		if !pending(rel) {
			continue
		}
		if err := c.note(ctx, rel, release.StatusFailed, "Cut off while "+rel.Info.Status.String()); err != nil {
			return err
		}
	}
	return nil
}

// installRevision installs a revision: hooks, objects, removal of obsolete objects, readiness, hooks.
func (c *Client) installRevision(ctx context.Context, rev *revision) error {
	if err := c.runHooks(ctx, rev.record, rev.pre); err != nil {
		return err
	}
	if err := c.writeAll(ctx, rev.objects); err != nil {
		return err
	}
	if err := c.removeOurs(ctx, rev.record, rev.obsolete); err != nil {
		return err
	}
	if err := c.awaitReady(ctx, rev.objects); err != nil {
		return err
	}
	return c.runHooks(ctx, rev.record, rev.post)
}

// recordSuccess records a successful revision, and deletes the oldest records.
func (c *Client) recordSuccess(ctx context.Context, p *plan, rel *release.Release) error {
	what := "Upgrade complete"
	if p.deployed == nil {
		what = "Install complete"
	}
	if err := c.stamp(ctx, p, rel); err != nil {
		return err
	}
	if err := c.note(ctx, rel, release.StatusDeployed, what); err != nil {
		return err
	}
	return c.supersede(ctx, p, rel.Version)
}

// stamp adds the digest that later observations compare. A chart may itself install kinds that
// its templates ask for; if that does not change what it renders, later observations need not
// render it again.
func (c *Client) stamp(ctx context.Context, p *plan, rel *release.Release) error {
	caps, err := c.awaitCapabilities(ctx)
	if err != nil {
		return err
	}
	now := p.digest(caps)
	if now == p.inputs {
		return nil
	}
	if p.chart.caps, err = caps.helm(); err != nil {
		return err
	}
	again, err := p.rendersAgain(rel, lookup{ctx: ctx, kube: c.kube})
	if again {
		rel.Labels[labelInputs] = now
	}
	return err
}

// supersede marks earlier deployed revisions as superseded, and deletes the oldest records.
func (c *Client) supersede(ctx context.Context, p *plan, current int) error {
	for _, rel := range p.history {
		if rel.Info.Status == release.StatusDeployed && rel.Version != current {
			if err := c.note(ctx, rel, release.StatusSuperseded, rel.Info.Description); err != nil {
				return err
			}
		}
	}
	all, err := c.revisions(ctx, p.release.Namespace, p.release.Name)
	if err != nil || len(all) <= maxHistory {
		return err
	}
	return c.deleteRecords(ctx, p.release.Namespace, p.release.Name, all[:len(all)-maxHistory]...)
}
