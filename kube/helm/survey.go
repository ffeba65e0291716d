package helm

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"helm.sh/helm/v3/pkg/release"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// What Helm puts on the objects of a release (helm v3.22.0, pkg/action/validate.go).
const (
	labelManagedBy  = "app.kubernetes.io/managed-by"
	noteName        = "meta.helm.sh/release-name"
	noteNamespace   = "meta.helm.sh/release-namespace"
	notePolicy      = "helm.sh/resource-policy"
	policyKeep      = "keep"
	managedByHelm   = "Helm"
	parallelLooks   = 16
	parallelChanges = 8
)

// objectState is one object of a release: as wanted, as it is, and the difference.
type objectState struct {
	want    *unstructured.Unstructured // nil: it should not be there
	live    *unstructured.Unstructured // nil: it is not there
	diff    converge.Diff
	waiting string // why it is not ready; empty: it is
}

// asApplied prepares an object of a manifest for applying: it sets the release's namespace if
// the object names none, and Helm's labels and annotations.
func (c cluster) asApplied(ctx context.Context, o *unstructured.Unstructured, name, namespace string) (*unstructured.Unstructured, error) {
	u, err := c.place(ctx, o, namespace)
	if err != nil {
		return nil, err
	}
	labels, notes := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if notes == nil {
		notes = map[string]string{}
	}
	labels[labelManagedBy] = managedByHelm
	notes[noteName], notes[noteNamespace] = name, namespace
	u.SetLabels(labels)
	u.SetAnnotations(notes)
	return u, nil
}

// place sets the release's namespace for an object that names none. If its kind is not served
// yet, that happens later.
func (c cluster) place(ctx context.Context, o *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, error) {
	u, err := kube.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	plainSecret(u)
	namespaced, err := c.kube.Namespaced(ctx, u.GetAPIVersion(), u.GetKind())
	var noKind *kube.NoKindError
	switch {
	case errors.As(err, &noKind), err == nil && namespaced:
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
	case err != nil:
		return nil, err
	default:
		u.SetNamespace("")
	}
	return u, nil
}

// wantedObjects returns the objects of a manifest, prepared by asApplied, in the order of
// installation.
func (c *Client) wantedObjects(ctx context.Context, manifest, name, namespace string) ([]*unstructured.Unstructured, error) {
	objs, err := objects(manifest)
	if err != nil {
		return nil, fmt.Errorf("release %s/%s: %w", namespace, name, err)
	}
	for i, o := range objs {
		if objs[i], err = c.asApplied(ctx, o, name, namespace); err != nil {
			return nil, fmt.Errorf("release %s/%s: %w", namespace, name, err)
		}
	}
	return objs, nil
}

// key identifies an object, whatever the version of its kind.
func key(u *unstructured.Unstructured) string {
	return u.GroupVersionKind().GroupKind().String() + " " + u.GetNamespace() + "/" + u.GetName()
}

// obsolete returns the objects that the revisions since the deployed one have and want does
// not have.
func (c *Client) obsolete(ctx context.Context, p *plan, want []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	have := map[string]bool{}
	for _, u := range want {
		have[key(u)] = true
	}
	var out []*unstructured.Unstructured
	for _, rel := range p.history {
		if p.deployed != nil && rel.Version < p.deployed.Version {
			continue
		}
		objs, err := c.wantedObjects(ctx, rel.Manifest, p.release.Name, p.release.Namespace)
		if err != nil {
			return nil, err
		}
		for _, u := range objs {
			if !have[key(u)] {
				have[key(u)] = true
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// survey observes every object of a release, several at a time.
func (c *Client) survey(ctx context.Context, p *plan) ([]objectState, error) {
	want, err := c.wantedObjects(ctx, p.manifest(), p.release.Name, p.release.Namespace)
	if err != nil {
		return nil, err
	}
	before := map[string]*unstructured.Unstructured{}
	var gone []*unstructured.Unstructured
	if !p.same {
		old, err := c.wantedObjects(ctx, p.deployed.Manifest, p.release.Name, p.release.Namespace)
		if err != nil {
			return nil, err
		}
		for _, u := range old {
			before[key(u)] = u
		}
		if gone, err = c.obsolete(ctx, p, want); err != nil {
			return nil, err
		}
	}
	looks := make([]objectState, len(want)+len(gone)+len(p.crds))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLooks)
	for i, u := range want {
		g.Go(func() (err error) {
			old := before[key(u)]
			looks[i], err = c.observe(gctx, u, old == nil && !p.same || old != nil && !equalValues(old.Object, u.Object))
			return err
		})
	}
	for i, u := range gone {
		g.Go(func() (err error) {
			looks[len(want)+i], err = c.observeObsolete(gctx, p, u)
			return err
		})
	}
	for i, d := range p.crds {
		g.Go(func() (err error) {
			looks[len(want)+len(gone)+i], _, err = c.observeDefinition(gctx, d)
			return err
		})
	}
	return looks, g.Wait()
}

// observe observes one object. changed says that the wanted object differs from the last
// revision's: then the API server computes the difference.
func (c cluster) observe(ctx context.Context, u *unstructured.Unstructured, changed bool) (objectState, error) {
	l := objectState{want: u}
	live, err := c.read(ctx, u)
	if err != nil {
		return l, err
	}
	if live == nil {
		if !endsByItself(u) {
			l.diff = converge.Missing("new").WithPrefix(kube.RefOf(u).Path())
		}
		return l, nil
	}
	l.live = live
	dropControllerFields(l.want, live)
	if why, err := c.unreadyReason(ctx, live); err != nil {
		return l, err
	} else if why != "" {
		l.waiting = kube.RefOf(u).String() + ": " + why
	}
	if !changed && includes(live.Object, l.want.Object) {
		return l, nil
	}
	after, err := c.helm.DryRunApply(ctx, l.want)
	var refused *kube.Error
	switch {
	case err == nil:
	case errors.Is(err, kube.ErrUnreachable), errors.Is(err, kube.ErrCannotGrow), !errors.As(err, &refused), ctx.Err() != nil:
		return l, err
	default:
		// An immutable field, one that the definition gets only with this upgrade, or a
		// webhook that does not answer: the object differs, and the reason why the difference
		// cannot be computed is shown instead.
		l.diff = converge.Diff{{Path: kube.RefOf(u).Path(), Have: "live object", Want: "wanted object", Effect: converge.Update, Note: maskError(u, err)}}
		if errors.Is(err, kube.ErrInvalid) {
			l.diff[0].Effect = converge.Replace
		}
		return l, nil
	}
	l.diff = kube.DiffObjects(live, after)
	return l, nil
}

// maskError returns an error's text, unless it is about a Secret, whose values the API server may
// repeat.
func maskError(u *unstructured.Unstructured, err error) string {
	if u.GetKind() == "Secret" {
		return "the API server refuses it as invalid"
	}
	return err.Error()
}

// read reads an object; nil if it or its kind does not exist.
func (c cluster) read(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetAPIVersion(u.GetAPIVersion())
	live.SetKind(u.GetKind())
	live.SetNamespace(u.GetNamespace())
	live.SetName(u.GetName())
	err := c.kube.Get(ctx, live)
	var noKind *kube.NoKindError
	if errors.Is(err, kube.ErrNotFound) || errors.As(err, &noKind) {
		return nil, nil
	}
	return live, err
}

// observeObsolete observes an object that should no longer exist.
func (c *Client) observeObsolete(ctx context.Context, p *plan, u *unstructured.Unstructured) (objectState, error) {
	live, err := c.read(ctx, u)
	if err != nil || live == nil || !ownedBy(live, p.release.Name, p.release.Namespace) || outlivesRelease(live) {
		return objectState{}, err
	}
	return objectState{live: live, diff: converge.DiffUnwanted("obsolete").WithPrefix(kube.RefOf(u).Path())}, nil
}

// ownedBy reports whether an object belongs to a release.
func ownedBy(live *unstructured.Unstructured, name, namespace string) bool {
	notes := live.GetAnnotations()
	return notes[noteName] == name && notes[noteNamespace] == namespace
}

// outlivesRelease reports whether an object outlives its release.
func outlivesRelease(u *unstructured.Unstructured) bool {
	return u.GetAnnotations()[notePolicy] == policyKeep
}

// endsByItself reports whether an object is removed when it is done: a Job with a time to
// live.
func endsByItself(u *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished")
	return found && u.GroupVersionKind().Group == batchv1.GroupName && u.GetKind() == "Job"
}

// pending reports whether a revision was interrupted.
func pending(rel *release.Release) bool {
	return rel.Info.Status.IsPending() || rel.Info.Status == release.StatusUninstalling
}
