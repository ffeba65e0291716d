package parts

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// secretsStep keeps the Secrets of a part, in the cluster and nowhere else. Generated values
// never change.
func (s *Steps) secretsStep(p addon.Recipe) *converge.Resource[converge.Diff] {
	return &converge.Resource[converge.Diff]{
		ID: "secrets/" + p.Name,
		Observe: func(ctx context.Context) (converge.Diff, error) {
			client, err := s.Kube(ctx)
			if err != nil {
				return nil, err
			}
			p, err := p.Resolve(ctx, client)
			if err != nil {
				return nil, err
			}
			objects, missing, err := secretObjects(ctx, client, p.Secrets, false)
			if err != nil {
				return nil, err
			}
			d, err := client.Diff(ctx, append(s.namespacesOf(p), objects...)...)
			return append(dropOwnerOnlyFields(d), missing...), err
		},
		Diff: func(d converge.Diff) converge.Diff { return d },
		// Its other steps, which remove these, come later, and a plan does not look at them yet.
		Costs: func(ctx context.Context, _ converge.Diff, _ converge.Diff) []converge.Cost {
			return s.costsOfReplaced(ctx, p)
		},
		Apply: func(ctx context.Context, _ converge.Diff) error {
			client, err := s.Kube(ctx)
			if err != nil {
				return err
			}
			p, err := p.Resolve(ctx, client)
			if err != nil {
				return err
			}
			if err := s.enter(ctx, client, p); err != nil {
				return err
			}
			objects, _, err := secretObjects(ctx, client, p.Secrets, true)
			if err != nil {
				return err
			}
			changes, err := client.Apply(ctx, append(s.namespacesOf(p), objects...)...)
			if err != nil {
				return err
			}
			return renew(ctx, client, changes)
		},
	}
}

// renew restarts the workloads that have read a Secret which has changed.
func renew(ctx context.Context, client *kube.Client, changes []kube.Change) error {
	other := map[string][]string{} // by namespace
	for _, ch := range changes {
		if ch.Ref.Kind == "Secret" && ch.Result == kube.Configured {
			other[ch.Ref.Namespace] = append(other[ch.Ref.Namespace], ch.Ref.Name)
		}
	}
	for namespace, names := range other {
		restarted, err := client.RestartSecretUsers(ctx, namespace, names...)
		if err != nil {
			return err
		}
		for _, r := range restarted {
			converge.Progressf(ctx, "restarting %s, which uses the changed secrets", r)
		}
	}
	return nil
}

// dropOwnerOnlyFields removes Secrets from a diff of which only the owner differs: hooks of charts
// recreate some with the same contents (Rancher's bootstrap-secret), which is allowed.
func dropOwnerOnlyFields(d converge.Diff) converge.Diff {
	return slices.DeleteFunc(d, func(f converge.Field) bool {
		return strings.HasPrefix(f.Path, "secret/") && strings.HasSuffix(f.Path, "/fields")
	})
}

// secretObjects are the wanted Secrets: given values, and existing values of what was generated.
// With generate it makes missing values; otherwise it only lists them in missing.
func secretObjects(ctx context.Context, client *kube.Client, all []chart.Secret, generate bool) (objects []runtime.Object, missing converge.Diff, err error) {
	for _, s := range all {
		live := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
		err := client.Get(ctx, live)
		there := !errors.Is(err, kube.ErrNotFound)
		if err != nil && there {
			return nil, nil, err
		}
		want := &corev1.Secret{TypeMeta: live.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels},
			Type:       corev1.SecretType(s.Type), Data: map[string][]byte{}}
		if want.Type == "" {
			want.Type = corev1.SecretTypeOpaque
		}
		for key, value := range s.Data {
			want.Data[key] = []byte(value.Reveal())
		}
		for _, key := range slices.Sorted(maps.Keys(s.Generate)) {
			switch kept := live.Data[key]; {
			case len(kept) > 0:
				want.Data[key] = kept
			case generate:
				value, err := random(s.Generate[key])
				if err != nil {
					return nil, nil, err
				}
				want.Data[key] = append([]byte(s.Prefix), value...)
			case there: // otherwise the whole Secret is missing
				missing = append(missing, converge.Field{Path: fmt.Sprintf("secret/%s/%s/data.%s", s.Namespace, s.Name, key), Want: "generated", Effect: converge.Update})
			}
		}
		objects = append(objects, want)
	}
	return objects, missing, nil
}

// random returns n random bytes as hexadecimal digits.
func random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	return []byte(hex.EncodeToString(b)), nil
}
