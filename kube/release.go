package kube

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/cps-gpu/homelab/converge"
)

// This file has what package kube/helm needs in addition to [Client.Apply]: single steps,
// under a field manager of its own, so that it can read all objects of a release before it
// writes any.

// WithFieldManager returns a client of the same cluster, with the same connections, that applies under
// another field manager. Fields of "homelab" stay its own.
func (c *Client) WithFieldManager(manager string) *Client {
	other := *c
	other.manager = manager
	return &other
}

// ServerSideApply applies obj by one server-side apply, without reading it first, and returns the result.
func (c *Client) ServerSideApply(ctx context.Context, obj runtime.Object) (*unstructured.Unstructured, error) {
	return c.serverSideApply(ctx, obj, false)
}

// DryRunApply returns what [Client.ServerSideApply] would make of obj, by a dry run.
func (c *Client) DryRunApply(ctx context.Context, obj runtime.Object) (*unstructured.Unstructured, error) {
	return c.serverSideApply(ctx, obj, true)
}

func (c *api) serverSideApply(ctx context.Context, obj runtime.Object, dryRun bool) (*unstructured.Unstructured, error) {
	u, err := plain(obj)
	if err != nil {
		return nil, err
	}
	p, err := c.place(ctx, u)
	if err != nil {
		return nil, namingObject("apply", u, err)
	}
	return c.ssa(ctx, p, u, dryRun)
}

// Create creates an object. The error is [ErrConflict] if it exists.
func (c *Client) Create(ctx context.Context, obj runtime.Object) error {
	u, err := plain(obj)
	if err != nil {
		return err
	}
	p, err := c.place(ctx, u)
	if err != nil {
		return namingObject("create", u, err)
	}
	return c.do(ctx, request{doing: "create " + refOf(u).String(), verb: http.MethodPost, path: p[:strings.LastIndexByte(p, '/')],
		query: url.Values{"fieldManager": {c.manager}}, body: u.Object}, nil)
}

// Adopt takes over the fields of live that others set by plain updates, as if we had applied
// them, so that they are removed when they are no longer wanted. from are their field
// managers. Nothing happens if they have set none.
func (c *Client) Adopt(ctx context.Context, live *unstructured.Unstructured, from ...string) error {
	theirs := func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" && slices.Contains(from, e.Manager)
	}
	if !slices.ContainsFunc(live.GetManagedFields(), theirs) {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(from...), c.manager)
	if err != nil || patch == nil {
		return namingObject("take over", live, errors.Join(err))
	}
	u := live.DeepCopy()
	p, err := c.place(ctx, u)
	if err != nil {
		return namingObject("take over", live, err)
	}
	return c.do(ctx, request{doing: "take over " + refOf(live).String(), verb: http.MethodPatch, path: p,
		kind: string(types.JSONPatchType), body: patch}, nil)
}

// DiffObjects lists the fields in which two states of an object differ, except those that change
// by themselves: its status and versions. Values of Secrets are masked.
func DiffObjects(before, after *unstructured.Unstructured) converge.Diff {
	var d converge.Diff
	fields(&d, "", stableFields(before), stableFields(after))
	if before.GetKind() == "Secret" {
		mask(d)
	}
	return d.WithPrefix(refOf(before).path())
}

// Metadata reads only an object's metadata, which saves transferring large objects.
func (c *Client) Metadata(ctx context.Context, r Ref) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.Kind)
	u.SetNamespace(r.Namespace)
	u.SetName(r.Name)
	p, err := c.place(ctx, u)
	if err != nil {
		return nil, namingObject("read", u, err)
	}
	out := &unstructured.Unstructured{}
	err = c.do(ctx, request{doing: "read " + r.String(), path: p,
		accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"}, &out.Object)
	return out, err
}

// RefOf names an object.
func RefOf(u *unstructured.Unstructured) Ref { return refOf(u) }

// Path returns r for the path of a difference: "daemonset/kube-system/kube-vip-ds".
func (r Ref) Path() string { return r.path() }

// Namespaced reports whether objects of a kind live in namespaces. A kind that the
// API server does not serve is a [*NoKindError].
func (c *Client) Namespaced(ctx context.Context, apiVersion, kind string) (bool, error) {
	res, err := c.resource(ctx, schema.FromAPIVersionAndKind(apiVersion, kind))
	return res.Namespaced, err
}

// NotReadyReason says what an object lacks to be ready, in words that fit after "waiting: "; nothing
// if it is ready.
func NotReadyReason(live *unstructured.Unstructured) (reason string, err error) {
	return unreadyReason(live)
}

// LastWarning returns the last warning among an object's events, if any. If a controller may not
// create a pod, only an event says so.
func (c *Client) LastWarning(ctx context.Context, r Ref) (string, error) {
	return c.complaint(ctx, r.Namespace, r.Kind, r.Name)
}

// APIs returns what the API server serves: every group and version ("apps/v1"), and
// every kind in it ("apps/v1/Deployment"), sorted.
func (c *Client) APIs(ctx context.Context) ([]string, error) {
	var out []string
	for _, p := range []string{"/api", "/apis"} {
		some, err := c.apis(ctx, p)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// aggregated asks for all groups with their kinds at once; servers before
// Kubernetes 1.30 answer with the groups only (KEP-3352).
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

func (c *api) apis(ctx context.Context, p string) ([]string, error) {
	var answer struct {
		Items []struct { // APIGroupDiscoveryList
			Metadata metav1.ObjectMeta `json:"metadata"`
			Versions []struct {
				Version   string `json:"version"`
				Resources []struct {
					ResponseKind struct {
						Kind string `json:"kind"`
					} `json:"responseKind"`
				} `json:"resources"`
			} `json:"versions"`
		} `json:"items"`
		Groups   []metav1.APIGroup `json:"groups"`   // APIGroupList
		Versions []string          `json:"versions"` // APIVersions
	}
	err := c.do(ctx, request{doing: "ask for all kinds", path: p, accept: aggregated}, &answer)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range answer.Items {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Metadata.Name, Version: v.Version}.String()
			out = append(out, gv)
			for _, r := range v.Resources {
				out = append(out, gv+"/"+r.ResponseKind.Kind)
			}
		}
	}
	groups := answer.Versions
	for _, g := range answer.Groups {
		for _, v := range g.Versions {
			groups = append(groups, v.GroupVersion)
		}
	}
	for _, g := range groups {
		gv, err := schema.ParseGroupVersion(g)
		if err != nil {
			return nil, err
		}
		list, err := c.resources(ctx, gv, true)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
		for _, r := range list {
			if !strings.Contains(r.Name, "/") {
				out = append(out, g+"/"+r.Kind)
			}
		}
	}
	return out, nil
}
