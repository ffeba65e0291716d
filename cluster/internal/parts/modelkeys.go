package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/secret"
)

// modelKey is a key of the file.
type modelKey struct {
	name   string
	limits modelserver.Limits
	secret [3]string    // namespace, name and key of its Secret
	value  secret.Value // zero: the Secret is not there yet
}

// modelKeysState are the keys of the file and those of the gateway.
type modelKeysState struct {
	gateway *modelserver.Gateway // nil: it was not installed yet
	away    error                // why it does not answer
	want    []modelKey
	have    []modelserver.Key
	hub     string            // namespace of the hub, whose notebooks have copies of people's keys; "": there is none
	copies  map[string][]byte // by name
	kube    *kube.Client
}

// modelKeysStep keeps the keys of the file at the gateway of models. It changes no others.
func (s *Steps) modelKeysStep() *converge.Resource[modelKeysState] {
	return &converge.Resource[modelKeysState]{
		ID: "keys/" + addon.ModelGatewayName, Observe: s.observeModelKeys, Diff: modelKeysState.diff,
		Apply: func(ctx context.Context, seen modelKeysState) error { return seen.apply(ctx) }, Poll: run.PollInterval,
	}
}

// wantedModelKeys are the keys of the file, the one of the chat, and the one of the hub's notebooks.
func wantedModelKeys(p *spec.Platform) []modelKey {
	var out []modelKey
	for _, k := range p.ModelGateway.Keys {
		limits := modelserver.Limits{Models: slices.Sorted(slices.Values(k.Models)), Requests: k.Requests, Tokens: k.Tokens}
		out = append(out, modelKey{name: k.Name, limits: limits, secret: [3]string{modelserver.Namespace, modelserver.KeysSecret, k.Name}})
	}
	if p.ModelChat != nil {
		var all []string
		for _, m := range p.Models {
			all = append(all, m.Name)
		}
		slices.Sort(all)
		out = append(out, modelKey{name: spec.ChatKey, limits: modelserver.Limits{Models: all}, secret: [3]string{modelserver.Namespace, modelserver.ChatSecret, modelserver.ChatKey}})
	}
	if p.Hub != nil {
		out = append(out, modelKey{name: spec.NotebooksKey, secret: [3]string{p.Hub.Namespace, modelserver.NotebooksSecret, modelserver.NotebooksKey}})
	}
	return out
}

func (s *Steps) observeModelKeys(ctx context.Context) (modelKeysState, error) {
	seen := modelKeysState{want: wantedModelKeys(&s.Spec.Platform)}
	client, err := s.Kube(ctx)
	if err != nil {
		return seen, err
	}
	if seen.gateway, err = modelserver.FindGateway(ctx, client); err != nil || seen.gateway == nil {
		return seen, err
	}
	read := map[string]map[string][]byte{} // those of the file are in one Secret
	for i, k := range seen.want {
		at := k.secret[0] + "/" + k.secret[1]
		data, known := read[at]
		if !known {
			if data, err = client.SecretData(ctx, k.secret[0], k.secret[1]); err != nil && !errors.Is(err, kube.ErrNotFound) {
				return seen, err
			}
			read[at] = data
		}
		seen.want[i].value = secret.New(string(data[k.secret[2]]))
	}
	if h := s.Spec.Platform.Hub; h != nil {
		seen.hub, seen.kube = h.Namespace, client
		if seen.copies, err = client.SecretData(ctx, seen.hub, modelserver.PeopleSecret); err != nil && !errors.Is(err, kube.ErrNotFound) {
			return seen, err
		}
	}
	seen.have, err = seen.gateway.Keys(ctx)
	// A plan is made while it does not run, too; and while its pod starts, something else may answer.
	if errors.As(err, new(*kube.Error)) || errors.As(err, new(*json.SyntaxError)) {
		seen.away, err = err, nil
	}
	return seen, err
}

// ownKey is the key of the gateway with a name that homelab made.
func (m modelKeysState) ownKey(name string) *modelserver.Key {
	for i, k := range m.have {
		if k.Ours && k.Name == name {
			return &m.have[i]
		}
	}
	return nil
}

// leaving are keys that homelab made for names that are no longer in the file.
func (m modelKeysState) leaving() []modelserver.Key {
	return slices.DeleteFunc(slices.Clone(m.have), func(k modelserver.Key) bool {
		return !k.Ours || slices.ContainsFunc(m.want, func(w modelKey) bool { return w.name == k.Name })
	})
}

func (m modelKeysState) diff() converge.Diff {
	if m.away != nil {
		return converge.Diff{{Path: "gateway", Have: "does not answer", Want: "answers", Effect: converge.Update, Note: m.away.Error()}}
	}
	var d converge.Diff
	for _, w := range m.want {
		switch have := m.ownKey(w.name); {
		case have == nil:
			d = append(d, converge.Field{Path: "key/" + w.name, Want: limitsText(w.limits), Effect: converge.Create})
		case w.value.IsZero() || have.Hash != modelserver.KeyHash(w.value):
			d = append(d, converge.Field{Path: "key/" + w.name, Have: "another key", Want: "the one of its Secret", Effect: converge.Replace, Note: "the old one is refused from then on"})
		case limitsText(have.Limits) != limitsText(w.limits):
			d = append(d, converge.Field{Path: "key/" + w.name, Have: limitsText(have.Limits), Want: limitsText(w.limits), Effect: converge.Update})
		}
	}
	for _, w := range m.stale() {
		d = append(d, converge.Field{Path: "notebooks/" + w.name, Have: "another key", Want: "key " + w.name, Effect: converge.Update, Note: "the person's notebooks have it at their next start"})
	}
	for _, k := range m.leaving() {
		d = append(d, converge.Field{Path: "key/" + k.Name, Have: limitsText(k.Limits), Effect: converge.Remove, Note: "no longer in the file: it is refused from then on"})
	}
	return d
}

// people are the keys of the file, which their owners' notebooks have.
func (m modelKeysState) people() []modelKey {
	return slices.DeleteFunc(slices.Clone(m.want), func(w modelKey) bool {
		return m.hub == "" || w.secret[1] != modelserver.KeysSecret || w.value.IsZero()
	})
}

// stale are the people's keys of which notebooks have no copy.
func (m modelKeysState) stale() []modelKey {
	return slices.DeleteFunc(m.people(), func(w modelKey) bool { return string(m.copies[w.name]) == w.value.Reveal() })
}

// copyKeys brings people's keys to the hub, whose part owns the Secret.
func (m modelKeysState) copyKeys(ctx context.Context) error {
	if len(m.stale()) == 0 {
		return nil
	}
	its := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: m.hub, Name: modelserver.PeopleSecret},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for _, w := range m.people() {
		its.Data[w.name] = []byte(w.value.Reveal())
	}
	_, err := m.kube.Apply(ctx, its)
	return err
}

// limitsText says what a key may do.
func limitsText(l modelserver.Limits) string {
	text := "all models"
	if len(l.Models) > 0 {
		text = strings.Join(l.Models, ", ")
	}
	if l.Requests > 0 {
		text += fmt.Sprintf(", %d requests a minute", l.Requests)
	}
	if l.Tokens > 0 {
		text += fmt.Sprintf(", %d tokens a minute", l.Tokens)
	}
	return text
}

func (m modelKeysState) apply(ctx context.Context) error {
	if m.gateway == nil || m.away != nil {
		return nil // the next observation says so again, until the time is over
	}
	for _, k := range m.leaving() {
		if err := m.gateway.Revoke(ctx, k.Hash); err != nil {
			return fmt.Errorf("key %s: %w", k.Name, err)
		}
	}
	for _, w := range m.want {
		if err := m.bring(ctx, w); err != nil {
			return fmt.Errorf("key %s: %w", w.name, err)
		}
	}
	return m.copyKeys(ctx)
}

// bring makes a key what the file says.
func (m modelKeysState) bring(ctx context.Context, w modelKey) error {
	if w.value.IsZero() {
		return fmt.Errorf("its Secret %s/%s has no %s yet", w.secret[0], w.secret[1], w.secret[2])
	}
	have := m.ownKey(w.name)
	if have != nil && have.Hash == modelserver.KeyHash(w.value) {
		if limitsText(have.Limits) == limitsText(w.limits) {
			return nil
		}
		return m.gateway.Limit(ctx, have.Hash, w.limits)
	}
	if have != nil {
		if err := m.gateway.Revoke(ctx, have.Hash); err != nil {
			return err
		}
	} else if slices.ContainsFunc(m.have, func(k modelserver.Key) bool { return k.Name == w.name }) {
		return errors.New("the gateway has a key of this name that homelab did not make: delete it on the gateway's page, or write another name")
	}
	return m.gateway.Add(ctx, w.name, w.value, w.limits)
}
