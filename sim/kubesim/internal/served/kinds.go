// Package served says what an API server serves beside its objects: short names, subresources,
// and reviews of who may do what.
package served

import (
	"encoding/json"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ShortNames are what people type in place of a resource.
var ShortNames = map[string][]string{
	"namespaces": {"ns"}, "nodes": {"no"}, "persistentvolumes": {"pv"}, "pods": {"po"}, "configmaps": {"cm"}, "services": {"svc"},
	"serviceaccounts": {"sa"}, "events": {"ev"}, "endpoints": {"ep"}, "persistentvolumeclaims": {"pvc"}, "resourcequotas": {"quota"},
	"limitranges": {"limits"}, "daemonsets": {"ds"}, "deployments": {"deploy"}, "statefulsets": {"sts"}, "replicasets": {"rs"},
	"cronjobs": {"cj"}, "horizontalpodautoscalers": {"hpa"}, "poddisruptionbudgets": {"pdb"}, "priorityclasses": {"pc"},
	"storageclasses": {"sc"}, "ingresses": {"ing"}, "networkpolicies": {"netpol"}, "customresourcedefinitions": {"crd", "crds"},
}

// InAll are the resources that kubectl get all shows.
var InAll = []string{"pods", "services", "daemonsets", "deployments", "statefulsets", "replicasets", "jobs", "cronjobs", "horizontalpodautoscalers"}

// Parts are the subresources of a control plane alone, with the group and kind of what is sent there.
var Parts = map[string][]metav1.APIResource{
	"pods": {
		{Name: "attach", Kind: "PodAttachOptions", Verbs: metav1.Verbs{"create", "get"}},
		{Name: "binding", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
		{Name: "eviction", Group: "policy", Version: "v1", Kind: "Eviction", Verbs: metav1.Verbs{"create"}},
		{Name: "exec", Kind: "PodExecOptions", Verbs: metav1.Verbs{"create", "get"}},
		{Name: "log", Kind: "Pod", Verbs: metav1.Verbs{"get"}},
		{Name: "portforward", Kind: "PodPortForwardOptions", Verbs: metav1.Verbs{"create", "get"}},
		{Name: "proxy", Kind: "PodProxyOptions", Verbs: metav1.Verbs{"create", "delete", "get", "patch", "update"}},
	},
	"services":        {{Name: "proxy", Kind: "ServiceProxyOptions", Verbs: metav1.Verbs{"create", "delete", "get", "patch", "update"}}},
	"serviceaccounts": {{Name: "token", Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", Verbs: metav1.Verbs{"create"}}},
	"namespaces":      {{Name: "finalize", Kind: "Namespace", Verbs: metav1.Verbs{"update"}}},
	"deployments":     scales, "replicasets": scales, "statefulsets": scales,
}

var scales = []metav1.APIResource{{Name: "scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: metav1.Verbs{"get", "patch", "update"}}}

// reviews are what is asked about oneself and about rights: every client may everything.
var reviews = map[string]schema.GroupVersionKind{
	"selfsubjectaccessreviews":  authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
	"subjectaccessreviews":      authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
	"localsubjectaccessreviews": authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"),
	"selfsubjectreviews":        authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
}

// Review answers a review; false if the path is not that of one.
func Review(path, user string, body []byte) (out any, is bool, err error) {
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

// ReviewKinds are in discovery, so that clients find them.
func ReviewKinds(gv schema.GroupVersion) (out []metav1.APIResource) {
	for _, plural := range []string{"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews", "subjectaccessreviews"} {
		if gvk := reviews[plural]; gvk.GroupVersion() == gv {
			out = append(out, metav1.APIResource{Name: plural, SingularName: strings.ToLower(gvk.Kind), Kind: gvk.Kind,
				Namespaced: strings.HasPrefix(plural, "local"), Verbs: metav1.Verbs{"create"}})
		}
	}
	return out
}
