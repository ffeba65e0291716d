package parts

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
)

// charts returns the client that installs releases. There is one for each connection, so that
// it reads everything only once for all steps.
func (s *Steps) charts(ctx context.Context) (*kube.Client, *helm.Client, error) {
	client, err := s.Kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil || s.clientOf != client {
		s.client, s.clientOf = helm.NewClient(client, chartSource(s)), client
	}
	return client, s.client, nil
}

// chartSource is the source of charts. The settings of the session override those of the file.
func chartSource(s *Steps) helm.Source {
	src := s.Charts
	if src.Folder == "" {
		src.Folder = s.Spec.Platform.Charts.Folder
	}
	src.Offline = src.Offline || s.Spec.Platform.Charts.Offline
	return src
}

// chartState is a release, the objects before it, and the values and settings for both.
type chartState struct {
	part    addon.Recipe
	around  converge.Diff
	release helm.State
	theirs  map[string]any // charts.values of the part
}

func (s chartState) diff() converge.Diff {
	return dropRecordField(slices.Concat(s.around, markUserValues(s.release.Diff(), s.theirs)))
}

// releaseTime is how long a release may take if it sets no limit of its own.
const releaseTime = 10 * time.Minute

// chartStep keeps a part's release, its namespace and the objects before it up to date.
func (s *Steps) chartStep(p addon.Recipe) *converge.Resource[chartState] {
	settle := p.Release.Timeout
	if settle == 0 {
		settle = releaseTime
	}
	return &converge.Resource[chartState]{
		ID:      "chart/" + p.Name,
		Observe: func(ctx context.Context) (chartState, error) { return s.observeChart(ctx, p) },
		Diff:    chartState.diff,
		Costs:   s.costsOfChart,
		Apply:   s.applyChart,
		Settle:  settle,
		Poll:    run.PollInterval,
		Hint:    "kubectl -n " + p.Release.Namespace + " get pods,events shows more; run it again to continue",
	}
}

func (s *Steps) observeChart(ctx context.Context, p addon.Recipe) (seen chartState, err error) {
	client, charts, err := s.charts(ctx)
	if err != nil {
		return seen, err
	}
	if seen.part, err = p.Resolve(ctx, client); err != nil {
		return seen, err
	}
	if seen.around, err = client.Diff(ctx, s.objectsBeforeRelease(seen.part)...); err != nil {
		return seen, err
	}
	if !p.ObjectsApart() {
		left, err := s.recordDiff(ctx, client, seen.part)
		if err != nil {
			return seen, err
		}
		seen.around = append(seen.around, left...)
	}
	seen.release, err = charts.Observe(ctx, *seen.part.Release)
	seen.theirs = s.Spec.Platform.Charts.Values[p.Name]
	return seen, err
}

func (s *Steps) applyChart(ctx context.Context, seen chartState) error {
	client, charts, err := s.charts(ctx)
	if err != nil {
		return err
	}
	p := seen.part
	if err := s.supersede(ctx, p); err != nil {
		return err
	}
	if err := errors.Join(s.checkOnlyFleet(ctx, p), s.checkNotInFleet(ctx, client, p)); err != nil {
		return err
	}
	if err := s.enter(ctx, client, p); err != nil {
		return err
	}
	if _, err := client.Apply(ctx, s.objectsBeforeRelease(p)...); err != nil {
		return err
	}
	release := *p.Release
	release.Former = fleet.ApplicationOf(p.Name)
	if err := charts.Apply(ctx, release); err != nil || p.ObjectsApart() {
		return err
	}
	return s.closeRecord(ctx, client, p)
}

// objectsBeforeRelease are the objects of a part that are applied before its release, the namespaces first.
func (s *Steps) objectsBeforeRelease(p addon.Recipe) []runtime.Object {
	return append(s.namespacesOf(p), slices.DeleteFunc(slices.Clone(p.Before), addon.IsNamespace)...)
}

// namespacesOf are the namespace of a part's release and those among its objects before that. Of a part that goes through
// Git they are all of its objects', because Git has none, and its Secrets': these may be another part's, which the tool has
// not made yet.
func (s *Steps) namespacesOf(p addon.Recipe) []runtime.Object {
	own := slices.DeleteFunc(slices.Clone(p.Before), func(o runtime.Object) bool { return !addon.IsNamespace(o) })
	var names []string
	if p.Release != nil {
		names = append(names, p.Release.Namespace)
	}
	if p.InGit() {
		own = p.Namespaces()
		for _, secret := range p.Secrets {
			names = append(names, secret.Namespace)
		}
	}
	builtIn := []string{"", metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
	var out []runtime.Object
	for i, name := range names {
		if !slices.Contains(builtIn, name) && !slices.Contains(names[:i], name) {
			out = append(out, agreedNamespace(s.Spec, s.Pieces(), name))
		}
	}
	return append(out, agreedNamespaces(s.Spec, s.Pieces(), own)...)
}

// agreedNamespaces replaces the namespaces among objects by those that all parts agree on.
func agreedNamespaces(of *spec.Spec, pieces []addon.Recipe, objects []runtime.Object) []runtime.Object {
	out := slices.Clone(objects)
	for i, o := range out {
		if m, err := meta.Accessor(o); err == nil && addon.IsNamespace(o) {
			ns := agreedNamespace(of, pieces, m.GetName())
			maps.Copy(ns.Labels, m.GetLabels()) // of a part that is made again in a running cluster
			out[i] = ns
		}
	}
	return out
}

// agreedNamespace is one with the labels of every part that has something in it: homelab applies it for each of them, and
// what it then leaves out goes.
func agreedNamespace(of *spec.Spec, pieces []addon.Recipe, name string) *corev1.Namespace {
	ns := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
	}
	for _, p := range pieces {
		if p.Release != nil && p.Release.Namespace == name {
			maps.Copy(ns.Labels, p.NamespaceLabels)
		}
		for _, o := range p.Namespaces() {
			if m, err := meta.Accessor(o); err == nil && m.GetName() == name {
				maps.Copy(ns.Labels, m.GetLabels())
			}
		}
	}
	if of.Platform.Fleet != nil {
		// Helm, and so Fleet, does not delete one that an earlier commit had (helm v3.22.0, pkg/kube/client.go, Update).
		ns.Annotations = map[string]string{"helm.sh/resource-policy": "keep"}
	}
	return ns
}
