package helm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	helmchart "helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// noteApplied is an annotation of definitions of kinds that we applied: a digest of their
// text. Those of kube-prometheus-stack have 4 MiB; reading them, here and from the API server,
// would take longer than everything else.
const noteApplied = "homelab.cps-gpu.github.com/applied"

// definition is a definition of a kind in a chart's crds folder.
type definition struct {
	ref    kube.Ref
	file   string
	text   []byte
	digest string
}

// definitions returns what a chart has in its crds folders, and those of the charts
// inside it.
func definitions(ch *helmchart.Chart) ([]definition, error) {
	var out []definition
	for _, crd := range ch.CRDObjects() {
		for _, doc := range bytes.Split(crd.File.Data, []byte("\n---")) {
			d := definition{file: crd.Filename, text: doc}
			h := sha256.New()
			_, _ = h.Write(doc)
			d.digest = sum(h)
			ref, ok := head(doc)
			if !ok {
				objs, err := objects(string(doc))
				if err != nil {
					return nil, fmt.Errorf("chart %s: %s: %w", nameAndVersion(ch), d.file, err)
				}
				if len(objs) == 0 {
					continue
				}
				ref = kube.RefOf(objs[0])
				if len(objs) > 1 { // a List, which nobody writes
					return nil, fmt.Errorf("chart %s: %s: more than one definition in a document", nameAndVersion(ch), d.file)
				}
			}
			d.ref = ref
			out = append(out, d)
		}
	}
	return out, nil
}

// head reads kind and name of a plainly written document without parsing the rest. It answers
// only if it is sure.
func head(doc []byte) (ref kube.Ref, ok bool) {
	inMetadata := false
	for line := range bytes.Lines(doc) {
		text := strings.TrimRight(string(line), "\r\n")
		if strings.HasPrefix(text, "\t") || strings.ContainsAny(text, "{}&*|>") && !strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "#") {
			return ref, false
		}
		k, v, isKey := strings.Cut(text, ":")
		v = strings.TrimSpace(v)
		var field *string
		switch {
		case !isKey || strings.HasPrefix(text, "#"):
			continue
		case k == "apiVersion":
			field = &ref.APIVersion
		case k == "kind":
			field = &ref.Kind
		case k == "  name" && inMetadata:
			field = &ref.Name
		}
		if !strings.HasPrefix(text, " ") {
			inMetadata = k == "metadata" && v == ""
		}
		if field == nil {
			continue
		}
		if *field != "" || !isName(v) {
			return ref, false
		}
		*field = v
	}
	return ref, ref.Kind == "CustomResourceDefinition" && ref.APIVersion == "apiextensions.k8s.io/v1" && strings.Contains(ref.Name, ".")
}

// isName reports whether a value is a plain word, of letters, digits, dots, dashes
// and slashes.
func isName(v string) bool {
	for i, r := range v {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		inner := i > 0 && (r >= '0' && r <= '9' || r == '.' || r == '-' || r == '/')
		if !letter && !inner {
			return false
		}
	}
	return v != "" && v != "true" && v != "false" && v != "null"
}

// object reads the whole definition.
func (d definition) object() (*unstructured.Unstructured, error) {
	objs, err := objects(string(d.text))
	if err == nil && len(objs) != 1 {
		err = errors.New("it is not one object")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.file, err)
	}
	return objs[0], nil
}

// observeDefinition observes a definition of a kind. It does not read one that we applied and nobody else
// has changed since.
func (c cluster) observeDefinition(ctx context.Context, d definition) (l objectState, applied bool, err error) {
	meta, err := c.kube.Metadata(ctx, d.ref)
	if errors.Is(err, kube.ErrNotFound) {
		return objectState{diff: converge.Missing("new").WithPrefix(d.ref.Path())}, false, nil
	}
	if err != nil {
		return objectState{}, false, err
	}
	if meta.GetAnnotations()[noteApplied] == d.digest && !isForeignManaged(meta) {
		return objectState{live: meta}, true, nil
	}
	want, err := d.object()
	if err != nil {
		return objectState{}, false, err
	}
	if have := meta.GetAnnotations()[noteApplied]; have != "" {
		note(want, have) // this difference alone does not matter
	}
	l, err = c.observe(ctx, want, true)
	return l, false, err
}

// note annotates a definition with the digest of its text.
func note(u *unstructured.Unstructured, digest string) {
	notes := u.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[noteApplied] = digest
	u.SetAnnotations(notes)
}

// isForeignManaged reports whether another manager has set fields of a definition of a kind.
func isForeignManaged(meta *unstructured.Unstructured) bool {
	for _, e := range meta.GetManagedFields() {
		applied := e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply
		if e.Subresource == "" && !applied && managesField(e, []string{"f:spec"}) {
			return true
		}
	}
	return false
}

// define applies the definitions of a chart's crds folders and waits until their kinds are
// served. Helm would only create missing ones, and upgrade none.
func (c cluster) define(ctx context.Context, crds []definition) error {
	written := make([]*unstructured.Unstructured, len(crds))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelChanges)
	for i, d := range crds {
		g.Go(func() (err error) { written[i], err = c.defineOne(gctx, d); return err })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.awaitReady(ctx, slices.DeleteFunc(written, func(u *unstructured.Unstructured) bool { return u == nil }))
}

// defineOne returns what it wrote; nil if the definition is up to date.
func (c cluster) defineOne(ctx context.Context, d definition) (*unstructured.Unstructured, error) {
	l, applied, err := c.observeDefinition(ctx, d)
	if err != nil || applied {
		return nil, err
	}
	want := l.want
	if want == nil {
		if want, err = d.object(); err != nil {
			return nil, err
		}
	}
	note(want, d.digest)
	converge.Progressf(ctx, "applying %s", d.ref)
	if err := c.adopt(ctx, l.live); err != nil {
		return nil, err
	}
	return want, c.write(ctx, want)
}
