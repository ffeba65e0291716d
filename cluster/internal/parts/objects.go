package parts

import (
	"context"
	"errors"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// objectsState is the state of a part's objects beside its release.
type objectsState struct {
	part    addon.Recipe
	objects []runtime.Object // without those that stay as they are
	diff    converge.Diff
}

// objectsStep keeps the objects beside a release up to date, and waits until they are healthy.
func (s *Steps) objectsStep(p addon.Recipe) *converge.Resource[objectsState] {
	return &converge.Resource[objectsState]{
		ID:      "objects/" + p.Name,
		Observe: func(ctx context.Context) (objectsState, error) { return s.observeObjects(ctx, p) },
		Diff:    func(s objectsState) converge.Diff { return s.diff },
		Costs: func(ctx context.Context, seen objectsState, d converge.Diff) []converge.Cost {
			out := append(s.costsOfClaims(ctx, d), costsOfProvider(d)...)
			if p.Release == nil { // else its step did this
				out = append(out, s.costsOfReplaced(ctx, seen.part)...)
			}
			return out
		},
		Apply: func(ctx context.Context, seen objectsState) error {
			client, err := s.Kube(ctx)
			if err != nil {
				return err
			}
			if p.Release == nil {
				if err := s.supersede(ctx, seen.part); err != nil {
					return err
				}
			}
			if err := s.enter(ctx, client, seen.part); err != nil {
				return err
			}
			if err := s.applyPatiently(ctx, client, seen.objects); err != nil {
				return err
			}
			return s.closeRecord(ctx, client, seen.part)
		},
		Settle: p.Settle,
		Poll:   run.PollInterval,
	}
}

func (s *Steps) observeObjects(ctx context.Context, p addon.Recipe) (seen objectsState, err error) {
	client, err := s.Kube(ctx)
	if err != nil {
		return seen, err
	}
	if seen.part, err = p.Resolve(ctx, client); err != nil {
		return seen, err
	}
	for _, o := range agreedNamespaces(s.Spec, s.Pieces(), seen.part.Objects()) {
		stays := false
		if p.Stays != nil {
			if stays, err = p.Stays(ctx, client, o); err != nil {
				return seen, err
			}
		}
		if !stays {
			seen.objects = append(seen.objects, o)
		}
	}
	if seen.diff, err = client.Diff(ctx, seen.objects...); err != nil {
		return seen, err
	}
	left, err := s.recordDiff(ctx, client, seen.part)
	if err != nil {
		return seen, err
	}
	seen.diff = dropRecordField(append(seen.diff, left...))
	for i := 0; i < len(seen.objects) && len(seen.diff) == 0; i++ {
		reason, ok, err := client.Ready(ctx, seen.objects[i])
		if err != nil {
			return seen, err
		}
		if !ok {
			seen.diff = append(seen.diff, converge.Field{Have: reason, Want: "ready", Effect: converge.Update})
		}
	}
	return seen, nil
}

// webhookTime is how long objects are retried after their release is ready: its webhooks answer a
// little later than its pods are ready, and after that their certificates are still to be issued
// and injected.
const webhookTime = 2 * time.Minute

// applyPatiently applies objects, and waits for admission webhooks that are not ready. It
// recreates storage classes that cannot be changed, which does not affect their volumes, and doors
// to another queue, which does not affect pods that run.
func (s *Steps) applyPatiently(ctx context.Context, client *kube.Client, objects []runtime.Object) error {
	var refused error
	err := run.Until(ctx, s.Spec, converge.WaitRule{What: "waiting", Limit: webhookTime}, func(ctx context.Context) (string, error) {
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

// applyClasses recreates storage classes and Kueue's LocalQueues and applies the other objects
// again. why is the error that made it necessary.
func applyClasses(ctx context.Context, client *kube.Client, objects []runtime.Object, why error) error {
	var rest []runtime.Object
	for _, o := range objects {
		if _, isClass := o.(*storagev1.StorageClass); !isClass && o.GetObjectKind().GroupVersionKind().Kind != "LocalQueue" {
			rest = append(rest, o)
			continue
		}
		if _, err := client.ApplyOrRecreate(ctx, o); err != nil {
			return err
		}
	}
	if len(rest) == len(objects) {
		return why
	}
	_, err := client.Apply(ctx, rest...)
	return err
}
