package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// charts returns the client that installs releases: one for each connection, so that
// what it has read once it reads once for all steps.
func (c *Cluster) charts(ctx context.Context) (*kube.Client, *chart.Client, error) {
	client, err := c.kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if c.api.charts == nil || c.api.chartsOf != client {
		c.api.charts, c.api.chartsOf = chart.NewClient(client, c.chartSource()), client
	}
	return client, c.api.charts, nil
}

// chartSource is where charts come from: what the session says counts more than what
// the file says.
func (c *Cluster) chartSource() chart.Source {
	s := c.Charts
	if s.Folder == "" {
		s.Folder = c.spec.Platform.Charts.Folder
	}
	s.Offline = s.Offline || c.spec.Platform.Charts.Offline
	s.Digests = c.spec.Platform.Charts.digests()
	return s
}

// chartSeen is a release, the objects that go before it, and what was asked of both.
type chartSeen struct {
	part    piece
	around  drift.Diff
	release chart.State
	theirs  map[string]any // charts.values of the part
}

func (s chartSeen) diff() drift.Diff {
	return plainly(slices.Concat(s.around, yours(s.part.Release.Diff(s.release), s.theirs)))
}

// releaseTime is how long a release may take when it does not say.
const releaseTime = 10 * time.Minute

// chartStep keeps a part's release, with the namespace and the objects before it.
func (c *Cluster) chartStep(p piece) *converge.Resource[chartSeen] {
	settle := p.Release.Timeout
	if settle == 0 {
		settle = releaseTime
	}
	return &converge.Resource[chartSeen]{
		ID:      "chart/" + p.Name,
		Observe: func(ctx context.Context) (chartSeen, error) { return c.lookAtChart(ctx, p) },
		Diff:    chartSeen.diff,
		Costs:   c.costsOfChart,
		Apply:   c.bringChart,
		Settle:  settle,
		Poll:    lookEvery,
		Hint:    "kubectl -n " + p.Release.Namespace + " get pods,events shows more; run it again and it goes on from here",
	}
}

func (c *Cluster) lookAtChart(ctx context.Context, p piece) (seen chartSeen, err error) {
	client, charts, err := c.charts(ctx)
	if err != nil {
		return seen, err
	}
	if seen.part, err = p.now(ctx, client); err != nil {
		return seen, err
	}
	if seen.around, err = client.Diff(ctx, c.around(seen.part)...); err != nil {
		return seen, err
	}
	if !p.objectsApart() {
		left, err := c.recordDiff(ctx, client, seen.part)
		if err != nil {
			return seen, err
		}
		seen.around = append(seen.around, left...)
	}
	seen.release, err = charts.Observe(ctx, *seen.part.Release)
	seen.theirs = c.spec.Platform.Charts.Values[p.Name]
	return seen, err
}

func (c *Cluster) bringChart(ctx context.Context, seen chartSeen) error {
	client, charts, err := c.charts(ctx)
	if err != nil {
		return err
	}
	p := seen.part
	if err := c.supersede(ctx, p); err != nil {
		return err
	}
	if err := errors.Join(c.oneFleet(ctx, p), c.stillFleets(ctx, client, p)); err != nil {
		return err
	}
	if err := c.enter(ctx, client, p); err != nil {
		return err
	}
	if _, err := client.Apply(ctx, c.around(p)...); err != nil {
		return err
	}
	if err := charts.Apply(ctx, *p.Release, seen.release); err != nil || p.objectsApart() {
		return err
	}
	return c.closeRecord(ctx, client, p)
}

// around are the objects of a part that are there before its release: its namespace
// first.
func (c *Cluster) around(p piece) []runtime.Object {
	return append(c.namespaceOf(p), p.Before...)
}

// namespaceOf is the namespace of a part's release. It may be that of several parts,
// of which each has a word in its labels.
func (c *Cluster) namespaceOf(p piece) []runtime.Object {
	if p.Release == nil {
		return nil
	}
	switch name := p.Release.Namespace; name {
	case "", metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return nil
	default:
		labels := map[string]string{}
		for _, other := range c.pieces() {
			if other.Release != nil && other.Release.Namespace == name {
				for k, v := range other.NamespaceLabels {
					labels[k] = v
				}
			}
		}
		return []runtime.Object{&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		}}
	}
}

// objects are what a part has beside its release: kinds that the release has brought,
// or all of a part that has none.
func (p piece) objects() []runtime.Object {
	if p.Release == nil {
		return append(append([]runtime.Object(nil), p.Before...), p.After...)
	}
	return p.After
}

// objectsSeen is what a part has beside its release.
type objectsSeen struct {
	part piece
	diff drift.Diff
}

// objectsStep keeps the objects beside a release, until they say that they work.
func (c *Cluster) objectsStep(p piece) *converge.Resource[objectsSeen] {
	return &converge.Resource[objectsSeen]{
		ID:      "objects/" + p.Name,
		Observe: func(ctx context.Context) (objectsSeen, error) { return c.lookAtObjects(ctx, p) },
		Diff:    func(s objectsSeen) drift.Diff { return s.diff },
		Costs:   func(ctx context.Context, _ objectsSeen, d drift.Diff) []converge.Cost { return c.costsOfClaims(ctx, d) },
		Apply: func(ctx context.Context, seen objectsSeen) error {
			client, err := c.kube(ctx)
			if err != nil {
				return err
			}
			if err := c.enter(ctx, client, seen.part); err != nil {
				return err
			}
			if err := c.applyPatiently(ctx, client, seen.part.objects()); err != nil {
				return err
			}
			return c.closeRecord(ctx, client, seen.part)
		},
		Poll: lookEvery,
	}
}

func (c *Cluster) lookAtObjects(ctx context.Context, p piece) (seen objectsSeen, err error) {
	client, err := c.kube(ctx)
	if err != nil {
		return seen, err
	}
	if seen.part, err = p.now(ctx, client); err != nil {
		return seen, err
	}
	objects := seen.part.objects()
	if seen.diff, err = client.Diff(ctx, objects...); err != nil {
		return seen, err
	}
	left, err := c.recordDiff(ctx, client, seen.part)
	if err != nil {
		return seen, err
	}
	seen.diff = plainly(append(seen.diff, left...))
	for i := 0; i < len(objects) && len(seen.diff) == 0; i++ {
		reason, ok, err := client.Ready(ctx, objects[i])
		if err != nil {
			return seen, err
		}
		if !ok {
			seen.diff = append(seen.diff, drift.Field{Have: reason, Want: "ready", Effect: drift.Update})
		}
	}
	return seen, nil
}

// webhookTime is how long objects are tried again after their release is ready: its
// webhooks answer a little later than its pods are ready, and their certificates are
// made and injected after that.
const webhookTime = 2 * time.Minute

// applyPatiently applies objects whose admission may not be ready to judge them yet.
// Storage classes that cannot be changed are made anew, which leaves their volumes
// alone.
func (c *Cluster) applyPatiently(ctx context.Context, client *kube.Client, objects []runtime.Object) error {
	var refused error
	err := c.until(ctx, wait.Rule{What: "waiting", Limit: webhookTime}, func(ctx context.Context) (string, error) {
		_, err := client.Apply(ctx, objects...)
		var noKind *kube.NoKindError
		if errors.As(err, &noKind) || errors.Is(err, kube.ErrWebhook) {
			return "", err
		}
		refused = err
		return "", nil
	})
	if errors.Is(refused, kube.ErrInvalid) {
		return applyClasses(ctx, client, objects, refused)
	}
	if err == nil {
		err = refused
	}
	return err
}

// applyClasses makes storage classes anew, and applies the rest once more. why is the
// error that led here.
func applyClasses(ctx context.Context, client *kube.Client, objects []runtime.Object, why error) error {
	var rest []runtime.Object
	for _, o := range objects {
		if _, isClass := o.(*storagev1.StorageClass); !isClass {
			rest = append(rest, o)
			continue
		}
		if _, err := client.ApplyAnew(ctx, o); err != nil {
			return err
		}
	}
	if len(rest) == len(objects) {
		return why
	}
	_, err := client.Apply(ctx, rest...)
	return err
}
