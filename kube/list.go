package kube

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// page is how many objects are asked for at a time, as kubectl does.
const page = 500

// List returns the objects of a kind, as the API server orders them: those of one
// namespace, or of all where namespace is empty, that a label selector such as
// "app=hub" chooses; an empty one chooses all. A kind that is not served is a
// [*NoKindError].
func (c *Client) List(ctx context.Context, apiVersion, kind, namespace, selector string) ([]unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	res, err := c.resource(ctx, gv.WithKind(kind))
	if err != nil {
		return nil, err
	}
	if !res.Namespaced {
		namespace = ""
	}
	r := request{doing: "list " + strings.ToLower(kind) + "s", path: path(gv, namespace, res.Name, ""),
		query: url.Values{"limit": {strconv.Itoa(page)}}}
	if namespace != "" {
		r.doing += " of namespace " + namespace
	}
	if selector != "" {
		r.query.Set("labelSelector", selector)
	}
	var all []unstructured.Unstructured
	for {
		var answer struct {
			Metadata metav1.ListMeta  `json:"metadata"`
			Items    []map[string]any `json:"items"`
		}
		if err := c.do(ctx, r, &answer); err != nil {
			if errors.Is(err, ErrNotFound) { // the kind went away in between
				return nil, &NoKindError{APIVersion: apiVersion, Kind: kind}
			}
			return nil, err
		}
		for _, item := range answer.Items {
			// Items in a list of a built-in kind do not name their kind.
			u := unstructured.Unstructured{Object: item}
			u.SetAPIVersion(apiVersion)
			u.SetKind(kind)
			all = append(all, u)
		}
		if answer.Metadata.Continue == "" {
			return all, nil
		}
		r.query.Set("continue", answer.Metadata.Continue)
	}
}

// Count returns how many objects of a kind there are in all namespaces. A kind that is not
// served is a [*NoKindError]. It reads one object; the API server says how many remain.
func (c *Client) Count(ctx context.Context, apiVersion, kind string) (int, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return 0, err
	}
	res, err := c.resource(ctx, gv.WithKind(kind))
	if err != nil {
		return 0, err
	}
	var answer metav1.PartialObjectMetadataList
	r := request{doing: "count " + strings.ToLower(kind) + "s", path: path(gv, "", res.Name, ""), query: url.Values{"limit": {"1"}}}
	if err := c.do(ctx, r, &answer); err != nil {
		return 0, err
	}
	n := len(answer.Items)
	if more := answer.RemainingItemCount; more != nil {
		n += int(*more)
	}
	return n, nil
}

// ToUnstructured returns o as the mapping that [Client.Apply] sends to the API server: with its kind,
// and without what typed objects add: a status and empty times.
func ToUnstructured(o runtime.Object) (*unstructured.Unstructured, error) { return plain(o) }

// ListAs is [Client.List] with the objects as Kubernetes' own type for the kind, e.g. corev1.Pod.
func ListAs[T any](ctx context.Context, c *Client, apiVersion, kind, namespace, selector string) ([]T, error) {
	list, err := c.List(ctx, apiVersion, kind, namespace, selector)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(list))
	for i := range list {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].Object, &out[i]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", strings.ToLower(kind), list[i].GetName(), err)
		}
	}
	return out, nil
}
