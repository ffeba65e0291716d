package kubesim

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/served"
)

// discovery lists the kinds of a group and version.
func (c *objectStore) discovery(gv schema.GroupVersion) *metav1.APIResourceList {
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
			r.ShortNames = served.ShortNames[k.plural]
		}
		if !k.custom && slices.Contains(served.InAll, k.plural) {
			r.Categories = []string{"all"}
		}
		list.APIResources = append(list.APIResources, r)
		if c.hasStatus(k) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.plural + "/status", Kind: k.Kind, Namespaced: k.namespaced,
				Verbs: metav1.Verbs{"get", "patch", "update"}})
		}
		if k.custom {
			continue
		}
		for _, p := range served.Parts[k.plural] {
			p.Name, p.Namespaced = k.plural+"/"+p.Name, k.namespaced
			list.APIResources = append(list.APIResources, p)
		}
	}
	list.APIResources = append(list.APIResources, served.ReviewKinds(gv)...)
	return list
}

// groups lists the groups and their versions. A group's first version is preferred.
func (c *objectStore) groups() *metav1.APIGroupList {
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
		case !slices.Contains(list.Groups[i].Versions, v):
			list.Groups[i].Versions = append(list.Groups[i].Versions, v)
		}
	}
	for _, gv := range []schema.GroupVersion{authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	for i := range list.Groups { // as the API server: stable before beta, and the highest first
		g := &list.Groups[i]
		slices.SortStableFunc(g.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return -apiversion.CompareKubeAwareVersionStrings(a.Version, b.Version)
		})
		g.PreferredVersion = g.Versions[0]
	}
	return list
}
