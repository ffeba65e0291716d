package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Update replaces exactly the object that was read, of which u is a changed copy: the error is [ErrConflict] if
// anybody has changed it since, and [ErrNotFound] if it is gone. u becomes the result.
func (c *Client) Update(ctx context.Context, u *unstructured.Unstructured) error {
	if u.GetResourceVersion() == "" {
		return fmt.Errorf("update %s: it was not read before", refOf(u))
	}
	p, err := c.place(ctx, u)
	if err != nil {
		return namingObject("update", u, err)
	}
	var after map[string]any
	if err := c.do(ctx, request{doing: "update " + refOf(u).String(), verb: http.MethodPut, path: p,
		query: map[string][]string{"fieldManager": {c.manager}}, body: u.Object}, &after); err != nil {
		return err
	}
	u.Object = after
	return nil
}

// DeleteExact deletes an object that was read, if it is still the same one (by its UID), and afterwards what it
// owns. A missing object is not an error; the error is [ErrConflict] if another has its name. It does not wait
// until it is gone. With unchanged, it must not have been changed since it was read, either.
func (c *Client) DeleteExact(ctx context.Context, u *unstructured.Unstructured, unchanged bool) error {
	if u.GetUID() == "" {
		return fmt.Errorf("delete %s: it was not read before", refOf(u))
	}
	p, err := c.place(ctx, u)
	if err != nil {
		return namingObject("delete", u, err)
	}
	uid, background := types.UID(u.GetUID()), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}}
	if version := u.GetResourceVersion(); unchanged {
		options.Preconditions.ResourceVersion = &version
	}
	err = c.do(ctx, request{doing: "delete " + refOf(u).String(), verb: http.MethodDelete, path: p, body: options}, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Right is something that may be done with objects of a resource.
type Right struct {
	Verb, Group, Resource string
	Subresource           string
	Namespace             string // empty: of the whole cluster
}

// May asks the API server whether these credentials may do something. It says no more than yes or no: why not is
// a matter of the cluster's own rules.
func (c *Client) May(ctx context.Context, r Right) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource}},
	}
	err := c.do(ctx, request{doing: "ask what may be done", verb: http.MethodPost,
		path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: review}, &review)
	return review.Status.Allowed, err
}
