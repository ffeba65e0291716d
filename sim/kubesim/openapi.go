package kubesim

import (
	"encoding/json"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// openAPI answers the part of OpenAPI v3 by which kubectl learns that the server checks the fields
// of what it is sent. There are no schemas in it.
func (c *Cluster) openAPI(path string) (any, bool) {
	rest, ok := strings.CutPrefix(path, "/openapi/v3")
	if !ok {
		return nil, false
	}
	of := func(k kind) string {
		if k.Group == "" {
			return "api/" + k.Version
		}
		return "apis/" + k.GroupVersion().String()
	}
	paths := map[string]any{}
	if rest = strings.Trim(rest, "/"); rest == "" {
		for _, k := range c.kinds {
			paths[of(k)] = map[string]any{"serverRelativeURL": "/openapi/v3/" + of(k)}
		}
		return map[string]any{"paths": paths}, true
	}
	for _, k := range c.kinds {
		if of(k) != rest {
			continue
		}
		at := "/" + rest + "/"
		if k.namespaced {
			at += "namespaces/{namespace}/"
		}
		paths[at+k.plural+"/{name}"] = map[string]any{"patch": map[string]any{
			"parameters":                      []any{map[string]any{"name": "fieldValidation", "in": "query", "schema": map[string]any{"type": "string"}}},
			"responses":                       map[string]any{"200": map[string]any{"description": "OK"}},
			"x-kubernetes-group-version-kind": map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind},
		}}
	}
	return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": c.cfg.Version}, "paths": paths}, len(paths) > 0
}

// reviews are what is asked about oneself and about rights: every client may everything.
var reviews = map[string]schema.GroupVersionKind{
	"selfsubjectaccessreviews":  authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
	"subjectaccessreviews":      authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
	"localsubjectaccessreviews": authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"),
	"selfsubjectreviews":        authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
}

// review answers a review; false if the path is not that of one.
func review(path, user string, body []byte) (out any, is bool, err error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	gvk, is := reviews[parts[len(parts)-1]]
	if !is || len(parts) < 4 || parts[0] != "apis" || parts[1] != gvk.Group {
		return nil, false, nil
	}
	r := map[string]any{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, true, apierrors.NewBadRequest(err.Error())
		}
	}
	r["apiVersion"], r["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if r["metadata"] == nil {
		r["metadata"] = map[string]any{}
	}
	r["status"] = map[string]any{"allowed": true}
	if gvk.Group == authenticationv1.GroupName {
		r["status"] = map[string]any{"userInfo": map[string]any{"username": user, "groups": []string{"system:masters", "system:authenticated"}}}
	}
	return r, true, nil
}

// reviewKinds are in discovery, so that clients find them.
func reviewKinds(gv schema.GroupVersion) (out []metav1.APIResource) {
	for _, plural := range []string{"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews", "subjectaccessreviews"} {
		if gvk := reviews[plural]; gvk.GroupVersion() == gv {
			out = append(out, metav1.APIResource{Name: plural, SingularName: strings.ToLower(gvk.Kind), Kind: gvk.Kind,
				Namespaced: strings.HasPrefix(plural, "local"), Verbs: metav1.Verbs{"create"}})
		}
	}
	return out
}
