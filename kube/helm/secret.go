package helm

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// EnsureSecret brings a Secret to what s says, and creates its namespace if it is missing.
// Existing generated keys are kept, whatever they contain. changed reports whether something
// was written.
func (c *Client) EnsureSecret(ctx context.Context, s chart.Secret) (changed bool, err error) {
	live, err := c.secret(ctx, s)
	if err != nil {
		return false, err
	}
	d, err := diffSecret(s, live)
	if err != nil || d.Empty() {
		return false, err
	}
	if err := c.ensureNamespace(ctx, s.Namespace); err != nil {
		return false, fmt.Errorf("%s: %w", s.Ref(), err)
	}
	changes, err := c.kube.Apply(ctx, secretObject(s, live))
	if err != nil {
		if errors.Is(err, kube.ErrInvalid) { // the API server may repeat what it was sent
			return false, fmt.Errorf("%s: the API server refuses it: its keys must be proper names, and its data must fit its type %q", s.Ref(), s.Type)
		}
		return false, err
	}
	return changes[0].Result != kube.Unchanged, nil
}

// SecretDiff says what [Client.EnsureSecret] would change, without any value.
func (c *Client) SecretDiff(ctx context.Context, s chart.Secret) (drift.Diff, error) {
	live, err := c.secret(ctx, s)
	if err != nil {
		return nil, err
	}
	d, err := diffSecret(s, live)
	return d.Under(s.Ref().Path()), err
}

// secret reads a Secret; nil when it is not there.
func (c *Client) secret(ctx context.Context, s chart.Secret) (*corev1.Secret, error) {
	live := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	err := c.kube.Get(ctx, live)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	return live, err
}

// diff compares a Secret with the existing one, which may be nil.
func diffSecret(s chart.Secret, live *corev1.Secret) (drift.Diff, error) {
	for k := range s.Generate {
		if _, both := s.Data[k]; both {
			return nil, fmt.Errorf("%s: key %s is both given and generated", s.Ref(), k)
		}
	}
	if live == nil {
		return drift.Missing(fmt.Sprintf("new, with %d keys", len(s.Data)+len(s.Generate))), nil
	}
	if want := kindOf(s); live.Type != want {
		return nil, fmt.Errorf("%s is of type %s, and %s is asked for: a type cannot be changed: delete it, or name another", s.Ref(), live.Type, want)
	}
	var d drift.Diff
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		d = append(d, drift.Compare("label/"+k, live.Labels[k], s.Labels[k], drift.Update)...)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		have, there := live.Data[k]
		switch {
		case !there:
			d = append(d, drift.Field{Path: k, Want: secret.Mask, Effect: drift.Update})
		case subtle.ConstantTimeCompare(have, []byte(s.Data[k].Reveal())) != 1:
			d = append(d, drift.Field{Path: k, Have: secret.Mask, Want: secret.Mask, Effect: drift.Update, Note: "another value"})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Generate)) {
		if len(live.Data[k]) == 0 {
			d = append(d, drift.Field{Path: k, Want: "generated", Effect: drift.Update})
		}
	}
	return d, nil
}

func kindOf(s chart.Secret) corev1.SecretType {
	if s.Type == "" {
		return corev1.SecretTypeOpaque
	}
	return corev1.SecretType(s.Type)
}

// object returns the Secret to apply, with the keys that were generated earlier.
func secretObject(s chart.Secret, live *corev1.Secret) *corev1.Secret {
	out := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels},
		Type:       kindOf(s), Data: map[string][]byte{},
	}
	for k, v := range s.Data {
		out.Data[k] = []byte(v.Reveal())
	}
	for k, n := range s.Generate {
		if live != nil && len(live.Data[k]) > 0 {
			out.Data[k] = live.Data[k]
			continue
		}
		b := make([]byte, n)
		_, _ = rand.Read(b) // never fails, see crypto/rand
		out.Data[k] = []byte(hex.EncodeToString(b))
	}
	return out
}
