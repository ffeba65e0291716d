package kubesim

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// shortNames are what people type in place of a resource.
var shortNames = map[string][]string{
	"namespaces": {"ns"}, "nodes": {"no"}, "persistentvolumes": {"pv"}, "pods": {"po"}, "configmaps": {"cm"}, "services": {"svc"},
	"serviceaccounts": {"sa"}, "events": {"ev"}, "endpoints": {"ep"}, "persistentvolumeclaims": {"pvc"}, "resourcequotas": {"quota"},
	"limitranges": {"limits"}, "daemonsets": {"ds"}, "deployments": {"deploy"}, "statefulsets": {"sts"}, "replicasets": {"rs"},
	"cronjobs": {"cj"}, "horizontalpodautoscalers": {"hpa"}, "poddisruptionbudgets": {"pdb"}, "priorityclasses": {"pc"},
	"storageclasses": {"sc"}, "ingresses": {"ing"}, "networkpolicies": {"netpol"}, "customresourcedefinitions": {"crd", "crds"},
}

// inAll are the resources that kubectl get all shows.
var inAll = []string{"pods", "services", "daemonsets", "deployments", "statefulsets", "replicasets", "jobs", "cronjobs", "horizontalpodautoscalers"}

// parts are the subresources of a control plane alone, with the group and kind of what is sent there.
var parts = map[string][]metav1.APIResource{
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

// discovery lists the kinds of a group and version.
func (c *Cluster) discovery(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String()}
	for _, k := range c.kinds {
		if k.GroupVersion() != gv {
			continue
		}
		r := metav1.APIResource{Name: k.plural, SingularName: k.singular, Kind: k.Kind, Namespaced: k.namespaced, ShortNames: k.short,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}}
		if k.plural == "namespaces" {
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == "deletecollection" })
		}
		if !k.custom || k.singular == "" {
			r.SingularName = strings.ToLower(k.Kind)
		}
		if len(r.ShortNames) == 0 && (!k.custom || k.Kind == "CustomResourceDefinition") {
			r.ShortNames = shortNames[k.plural]
		}
		if !k.custom && slices.Contains(inAll, k.plural) {
			r.Categories = []string{"all"}
		}
		list.APIResources = append(list.APIResources, r)
		if !c.bare() {
			continue
		}
		if c.hasStatus(k) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.plural + "/status", Kind: k.Kind, Namespaced: k.namespaced,
				Verbs: metav1.Verbs{"get", "patch", "update"}})
		}
		if k.custom {
			continue
		}
		for _, p := range parts[k.plural] {
			p.Name, p.Namespaced = k.plural+"/"+p.Name, k.namespaced
			list.APIResources = append(list.APIResources, p)
		}
	}
	if c.bare() {
		list.APIResources = append(list.APIResources, reviewKinds(gv)...)
	}
	return list
}

// groups lists the groups and their versions. A group's first version is preferred.
func (c *Cluster) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for _, k := range c.kinds {
		if k.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		i := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		switch {
		case i < 0:
			list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		case c.bare() && !slices.Contains(list.Groups[i].Versions, v):
			list.Groups[i].Versions = append(list.Groups[i].Versions, v)
		}
	}
	if c.bare() {
		for _, gv := range []schema.GroupVersion{authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
	}
	for i := range list.Groups { // as the API server: stable before beta, and the highest first
		g := &list.Groups[i]
		slices.SortStableFunc(g.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return -apiversion.CompareKubeAwareVersionStrings(a.Version, b.Version)
		})
		if c.bare() {
			g.PreferredVersion = g.Versions[0]
		}
	}
	return list
}
