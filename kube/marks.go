package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/converge"
)

// Annotations in which a node remembers what [Client.Mark] set, so that it can be
// removed when it is no longer asked for, and nothing else ever is.
//
// Server-side apply would do that for labels, but not for taints: to it they are
// one value, whose owner owns node.kubernetes.io/unreachable too.
const (
	ownedLabels = "homelab.cps-gpu.github.com/owned-labels"
	ownedTaints = "homelab.cps-gpu.github.com/owned-taints"
)

// Marks are the labels and taints that a node should have, besides those that
// Kubernetes, K3s and others give it.
type Marks struct {
	Labels map[string]string
	Taints []Taint
}

// Check says everything that is wrong with m.
func (m Marks) Check() error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		for _, why := range slices.Concat(validation.IsQualifiedName(k), validation.IsValidLabelValue(m.Labels[k])) {
			errs = append(errs, fmt.Errorf("label %s=%s: %s", k, m.Labels[k], why))
		}
		if who := keeper(k); who != "" {
			errs = append(errs, fmt.Errorf("label %s: %s sets it and would overwrite the change", k, who))
		}
	}
	ids := map[string]bool{}
	for _, t := range m.Taints {
		if err := t.check(); err != nil {
			errs = append(errs, fmt.Errorf("taint %s: %w", t, err))
		}
		if ids[t.id()] {
			errs = append(errs, fmt.Errorf("taint %s: a taint with this key and effect exists already", t))
		}
		ids[t.id()] = true
	}
	return errors.Join(errs...)
}

func (t Taint) check() error {
	var errs []error
	for _, why := range slices.Concat(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)) {
		errs = append(errs, errors.New(why))
	}
	if !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect) {
		errs = append(errs, fmt.Errorf("effect %q: write NoSchedule, PreferNoSchedule or NoExecute", t.Effect))
	}
	for _, prefix := range []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"} {
		if strings.HasPrefix(t.Key, prefix) {
			errs = append(errs, errors.New("Kubernetes sets and clears those of "+prefix))
		}
	}
	return errors.Join(errs...)
}

// keeper returns the program that manages a label; empty if none does.
func keeper(label string) string {
	prefix, name, _ := strings.Cut(label, "/")
	switch {
	case prefix == "kubernetes.io" && slices.Contains([]string{"hostname", "arch", "os"}, name),
		prefix == "beta.kubernetes.io":
		return "the kubelet"
	case prefix == "node-role.kubernetes.io" && slices.Contains([]string{"control-plane", "master", "etcd"}, name),
		strings.HasSuffix(prefix, "k3s.io"), strings.HasSuffix(prefix, "k3s.cattle.io"):
		return "K3s"
	}
	return ""
}

// Diff says how n differs from m. Labels and taints that are neither in m nor ours are
// ignored; those that are there by another's hand: [Marks.MissingRecord].
func (m Marks) Diff(n Node) converge.Diff {
	var d converge.Diff
	add := func(path, have string, there bool, want string) {
		switch {
		case !there:
			d = append(d, converge.Field{Path: path, Want: quote(want), Effect: converge.Update})
		case have != want:
			d = append(d, converge.Field{Path: path, Have: quote(have), Want: quote(want), Effect: converge.Update})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		have, there := n.Labels[k]
		add("label/"+k, have, there, m.Labels[k])
	}
	for _, k := range n.OwnedLabels {
		if _, asked := m.Labels[k]; !asked {
			d = append(d, converge.Field{Path: "label/" + k, Have: quote(n.Labels[k]), Effect: converge.Update})
		}
	}
	have := taintsByID(n.Taints)
	want := taintsByID(m.Taints)
	for _, t := range m.Taints {
		h, there := have[t.id()]
		add("taint/"+t.Key, h.String(), there, t.String())
	}
	for _, id := range n.OwnedTaints {
		if _, asked := want[id]; !asked {
			d = append(d, converge.Field{Path: "taint/" + strings.TrimSuffix(id, ":"+id[strings.LastIndexByte(id, ':')+1:]), Have: idText(have, id), Effect: converge.Update})
		}
	}
	return d
}

// MissingRecord are the labels and taints of m that n has already, but not by [Client.Mark], e.g. from its
// registration, as "label/pool". Mark records them; from then on it removes them when they are no longer asked for.
func (m Marks) MissingRecord(n Node) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		if have, there := n.Labels[k]; there && have == m.Labels[k] && !slices.Contains(n.OwnedLabels, k) {
			out = append(out, "label/"+k)
		}
	}
	for _, t := range m.Taints {
		if slices.Contains(n.Taints, t) && !slices.Contains(n.OwnedTaints, t.id()) {
			out = append(out, "taint/"+t.Key)
		}
	}
	return out
}

func quote(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

func idText(have map[string]Taint, id string) string {
	if t, ok := have[id]; ok {
		return t.String()
	}
	return id
}

func taintsByID(taints []Taint) map[string]Taint {
	m := make(map[string]Taint, len(taints))
	for _, t := range taints {
		m[t.id()] = t
	}
	return m
}

// maxConflicts is how often a node is read again because another changed it in
// between: kubelets report often.
const maxConflicts = 8

// Mark sets the labels and taints of m on a node and removes those that it set earlier and m
// no longer has. It writes nothing if nothing differs.
func (c *Client) Mark(ctx context.Context, name string, m Marks) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("mark node %s: %w", name, err)
	}
	var err error
	for range maxConflicts {
		var n Node
		if n, err = c.Node(ctx, name); err != nil {
			return err
		}
		if m.Diff(n).Empty() && len(m.MissingRecord(n)) == 0 {
			return nil
		}
		err = c.patchNode(ctx, "mark node "+name, name, m.patch(n))
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return err
}

// patch is the merge patch from n to m. Naming the version that was read makes the
// API server refuse it if anything changed in between, which matters for taints:
// they are replaced as a whole.
func (m Marks) patch(n Node) map[string]any {
	labels := map[string]any{}
	for _, k := range n.OwnedLabels {
		labels[k] = nil
	}
	for k, v := range m.Labels {
		labels[k] = v
	}
	want := taintsByID(m.Taints)
	taints := []Taint{}
	for _, t := range n.Taints {
		if _, asked := want[t.id()]; !asked && !slices.Contains(n.OwnedTaints, t.id()) {
			taints = append(taints, t)
		}
	}
	taints = append(taints, m.Taints...)
	ids := slices.Sorted(maps.Keys(want))
	return map[string]any{
		"metadata": map[string]any{
			"resourceVersion": n.resourceVersion,
			"labels":          labels,
			"annotations": map[string]any{
				ownedLabels: orNil(slices.Sorted(maps.Keys(m.Labels))),
				ownedTaints: orNil(ids),
			},
		},
		"spec": map[string]any{"taints": taints},
	}
}

// orNil joins a list for an annotation; an empty one removes the annotation.
func orNil(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return strings.Join(list, ",")
}

func listOf(annotation string) []string {
	if annotation == "" {
		return nil
	}
	return strings.Split(annotation, ",")
}
