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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// Record is what the cluster stores about a part that homelab installed: enough to remove
// exactly that part when it is no longer in the file. Each part has a ConfigMap, which is
// written before the part's first object.
type Record struct {
	Part      string     `json:"part"`
	Needs     []string   `json:"needs,omitempty"` // to remove parts in the right order
	Namespace string     `json:"namespace,omitempty"`
	Release   string     `json:"release,omitempty"`
	Keep      bool       `json:"keep,omitempty"`
	Classes   []string   `json:"classes,omitempty"`
	Before    []kube.Ref `json:"before,omitempty"`
	After     []kube.Ref `json:"after,omitempty"`
	Secrets   []kube.Ref `json:"secrets,omitempty"`
	FromFile  []kube.Ref `json:"fromFile,omitempty"` // the Secrets of which nothing was generated
}

const (
	recordPrefix = "homelab-part-"
	recordKey    = "part"
	recordLabel  = "homelab.cps-gpu.github.com/part"
)

// recordOf returns the record of a part.
func recordOf(p addon.Recipe) Record {
	r := Record{Part: p.Name, Needs: p.Needs, Keep: p.Keep, Classes: p.Classes, Before: refsOf(p.Before), After: refsOf(p.After)}
	if p.Release != nil {
		r.Namespace, r.Release = p.Release.Namespace, p.Release.Name
	}
	for _, s := range p.Secrets {
		r.Secrets = append(r.Secrets, s.Ref())
		if len(s.Generate) == 0 {
			r.FromFile = append(r.FromFile, s.Ref())
		}
	}
	if p.InGit() { // what is in Git is removed with the bundle
		r.Release, r.Before, r.After = "", nil, nil
		if len(r.Secrets) == 0 { // which a driver needs as long as there are volumes
			r.Classes = nil
		}
	}
	return r
}

func refsOf(objects []runtime.Object) []kube.Ref {
	var out []kube.Ref
	for _, o := range objects {
		u, err := kube.ToUnstructured(o)
		if err != nil {
			continue // applying it returns the error
		}
		out = append(out, kube.Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()})
	}
	return out
}

func (r Record) Object() *corev1.ConfigMap {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // impossible: it contains only strings and booleans
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: recordPrefix + r.Part, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{recordLabel: r.Part, "app.kubernetes.io/managed-by": "homelab"}},
		Data: map[string]string{recordKey: string(text)},
	}
}

// readRecord reads the cluster's record of a part, nil if it has none.
func readRecord(ctx context.Context, client *kube.Client, part string) (*Record, error) {
	cm := Record{Part: part}.Object()
	if err := client.Get(ctx, cm); errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return parseRecord(cm.Name, cm.Data[recordKey])
}

// RecordOf reads the cluster's record of a part, nil if it has none.
func (s *Steps) RecordOf(ctx context.Context, part string) (*Record, error) {
	client, err := s.Kube(ctx)
	if err != nil {
		return nil, err
	}
	return readRecord(ctx, client, part)
}

func parseRecord(name, text string) (*Record, error) {
	r := &Record{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("configmap %s/%s: %w: it records what belongs to a part; restore it, or delete it, and the next run writes it again",
			metav1.NamespaceSystem, name, err)
	}
	return r, nil
}

// enter records a part in the cluster before it creates anything, with everything that the part
// had in an earlier file.
func (s *Steps) enter(ctx context.Context, client *kube.Client, p addon.Recipe) error {
	have, err := readRecord(ctx, client, p.Name)
	if err != nil {
		return err
	}
	want := recordOf(p).keepClasses(have)
	if have != nil {
		want.Before = union(want.Before, have.Before)
		want.After = union(want.After, have.After)
		want.Secrets = union(want.Secrets, have.Secrets)
		want.FromFile = union(want.FromFile, have.FromFile)
	}
	_, err = client.Apply(ctx, want.Object())
	return err
}

// keepClasses is the record of a part that had another one before: its driver stays for the volumes of classes that left the file.
func (r Record) keepClasses(have *Record) Record {
	if have != nil && len(r.Classes) > 0 {
		r.Classes = union(r.Classes, have.Classes)
	}
	return r
}

func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, r := range b {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// outdatedObjects are the objects of a part that were in an earlier file and are not in this one, in
// the order in which they can be deleted.
func outdatedObjects(have *Record, want Record) []kube.Ref {
	if have == nil {
		return nil
	}
	var out []kube.Ref
	for _, list := range []struct{ have, want []kube.Ref }{
		{have.After, slices.Concat(want.After, want.Before)}, {have.Before, slices.Concat(want.Before, want.After)}, {have.Secrets, want.Secrets},
	} {
		for _, r := range slices.Backward(list.have) {
			if !slices.Contains(list.want, r) && r.Kind != "Namespace" {
				out = append(out, r)
			}
		}
	}
	return out
}

// recordDiff lists what an earlier file left in a part, and reports whether the cluster has a
// record of the part.
func (s *Steps) recordDiff(ctx context.Context, client *kube.Client, p addon.Recipe) (converge.Diff, error) {
	have, err := readRecord(ctx, client, p.Name)
	if err != nil {
		return nil, err
	}
	want := recordOf(p).keepClasses(have)
	var d converge.Diff
	for _, r := range outdatedObjects(have, want) {
		note := "no longer in the file"
		if r.Kind == classKind {
			note = classLeaves
		}
		d = append(d, converge.Field{Path: strings.Replace(r.String(), " ", "/", 1), Have: "there", Effect: converge.Remove, Note: note})
	}
	if len(d) == 0 && (have == nil || have.Object().Data[recordKey] != want.Object().Data[recordKey]) {
		d = append(d, converge.Field{Path: recordPath, Want: "what belongs to " + p.Name, Effect: converge.Update})
	}
	return d, nil
}

// recordPath is the path of a difference that is only in the record.
const recordPath = "record"

// dropRecordField removes the record from a diff that has other fields.
func dropRecordField(d converge.Diff) converge.Diff {
	if len(d) < 2 {
		return d
	}
	return slices.DeleteFunc(d, func(f converge.Field) bool { return f.Path == recordPath })
}

// closeRecord deletes objects that a part had only in an earlier file, and records the current
// state of the part.
func (s *Steps) closeRecord(ctx context.Context, client *kube.Client, p addon.Recipe) error {
	have, err := readRecord(ctx, client, p.Name)
	if err != nil {
		return err
	}
	want := recordOf(p).keepClasses(have)
	for _, r := range outdatedObjects(have, want) {
		converge.Progressf(ctx, "removing %s", r)
		if err := client.Delete(ctx, objectOf(r)); err != nil {
			return err
		}
	}
	_, err = client.Apply(ctx, want.Object())
	return err
}

func objectOf(r kube.Ref) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.Kind)
	u.SetNamespace(r.Namespace)
	u.SetName(r.Name)
	return u
}

// supersede removes parts that p replaces.
func (s *Steps) supersede(ctx context.Context, p addon.Recipe) error {
	client, err := s.Kube(ctx)
	if err != nil {
		return err
	}
	for _, name := range p.Replaces {
		old, err := readRecord(ctx, client, name)
		if err != nil {
			return err
		}
		if old != nil {
			if err := s.RetirePart(ctx, *old); err != nil {
				return err
			}
		}
	}
	return nil
}

// RetiredParts are the parts that homelab installed and that are no longer in the file, in the order
// of removal: parts that need others come first. given are the parts that homelab once applied
// and Fleet deploys now.
func (s *Steps) RetiredParts(ctx context.Context) (gone, given []Record, err error) {
	pieces, err := s.Make()
	if err != nil {
		return nil, nil, err // the parts that the file asks for are unknown
	}
	client, err := s.Kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := client.List(ctx, "v1", "ConfigMap", metav1.NamespaceSystem, recordLabel)
	if err != nil {
		return nil, nil, err
	}
	for _, cm := range all {
		text, _, _ := unstructured.NestedString(cm.Object, "data", recordKey)
		r, err := parseRecord(cm.GetName(), text)
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(pieces, func(p addon.Recipe) bool { return p.Name == r.Part })
		switch {
		case i < 0:
			gone = append(gone, *r)
		case pieces[i].InGit() && (r.Release != "" || len(r.Before)+len(r.After) > 0):
			given = append(given, *r)
		}
	}
	return inOrderOfRemoval(gone), given, nil
}

// ReleaseToFleet removes from the record of a part what Fleet owns now.
func (s *Steps) ReleaseToFleet(ctx context.Context, r Record) error {
	client, err := s.Kube(ctx)
	if err != nil {
		return err
	}
	r.Release, r.Before, r.After = "", nil, nil
	if len(r.Secrets) == 0 {
		return client.Delete(ctx, r.Object())
	}
	_, err = client.Apply(ctx, r.Object())
	return err
}

func (r Record) Diff() converge.Diff {
	what := "objects"
	if r.Release != "" {
		what = "release " + r.Namespace + "/" + r.Release
	}
	note := "no longer in the file"
	if r.Keep {
		note += "; its volumes and CRDs stay"
	}
	if len(toolsOf(r)) == 1 {
		note += "; what it deploys for others stays, and no longer follows Git"
	}
	if r.Part == addon.ExternalDNSName {
		note += "; it removes a record about a minute after its name: what leaves in the same run keeps its records"
	}
	return converge.Diff{{Path: "part/" + r.Part, Have: what, Effect: converge.Remove, Note: note}}
}

// RetirePart removes a part from the cluster. It keeps what data depends on: volumes in use keep
// their provisioner, and a part that outlives its removal keeps its definitions, and the Secrets that were generated.
func (s *Steps) RetirePart(ctx context.Context, r Record) error {
	client, charts, err := s.charts(ctx)
	if err != nil {
		return err
	}
	if err := s.CheckUnused(ctx, client, r); err != nil {
		return converge.Permanent(err)
	}
	if err := waitVolumesReleased(ctx, s.Spec, client, r); err != nil {
		return err
	}
	converge.Progressf(ctx, "removing %s", r.Part)
	remove := func(refs []kube.Ref) error { return removeObjects(ctx, client, r, refs) }
	if err := remove(r.After); err != nil {
		return err
	}
	if err := errors.Join(s.waitQueuesReleased(ctx, client, r), waitSourceReleased(ctx, s.Spec, client, r)); err != nil {
		return err
	}
	if r.Release != "" {
		uninstall := charts.Uninstall
		if r.Keep {
			uninstall = charts.UninstallKeepingKinds
		}
		if err := uninstall(ctx, r.Namespace, r.Release); err != nil {
			return err
		}
	}
	if err := remove(r.Before); err != nil {
		return err
	}
	if err := s.finishOperatorRemoval(ctx, client, r); err != nil {
		return err
	}
	secrets := r.Secrets
	if r.Keep {
		secrets = r.FromFile
	}
	if err := remove(secrets); err != nil {
		return err
	}
	return client.Delete(ctx, r.Object())
}

// InUse is the reason why a part stays.
type InUse string

func (e InUse) Error() string { return string(e) }
