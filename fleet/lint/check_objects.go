package lint

import (
	"bytes"
	"path"
	"reflect"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// kubernetesTypes are the kinds whose fields are known.
var kubernetesTypes = map[string]reflect.Type{
	"v1/ConfigMap": reflect.TypeFor[corev1.ConfigMap](), "v1/Secret": reflect.TypeFor[corev1.Secret](), "v1/Service": reflect.TypeFor[corev1.Service](),
	"v1/Pod": reflect.TypeFor[corev1.Pod](), "v1/PersistentVolumeClaim": reflect.TypeFor[corev1.PersistentVolumeClaim](),
	"v1/PersistentVolume": reflect.TypeFor[corev1.PersistentVolume](), "v1/Namespace": reflect.TypeFor[corev1.Namespace](),
	"v1/ServiceAccount": reflect.TypeFor[corev1.ServiceAccount](), "v1/ResourceQuota": reflect.TypeFor[corev1.ResourceQuota](), "v1/LimitRange": reflect.TypeFor[corev1.LimitRange](),
	"apps/v1/Deployment": reflect.TypeFor[appsv1.Deployment](), "apps/v1/StatefulSet": reflect.TypeFor[appsv1.StatefulSet](), "apps/v1/DaemonSet": reflect.TypeFor[appsv1.DaemonSet](),
	"batch/v1/Job": reflect.TypeFor[batchv1.Job](), "batch/v1/CronJob": reflect.TypeFor[batchv1.CronJob](),
	"networking.k8s.io/v1/Ingress": reflect.TypeFor[networkingv1.Ingress](), "networking.k8s.io/v1/NetworkPolicy": reflect.TypeFor[networkingv1.NetworkPolicy](),
	"networking.k8s.io/v1/IngressClass": reflect.TypeFor[networkingv1.IngressClass](), "policy/v1/PodDisruptionBudget": reflect.TypeFor[policyv1.PodDisruptionBudget](),
	"rbac.authorization.k8s.io/v1/Role": reflect.TypeFor[rbacv1.Role](), "rbac.authorization.k8s.io/v1/RoleBinding": reflect.TypeFor[rbacv1.RoleBinding](),
	"rbac.authorization.k8s.io/v1/ClusterRole": reflect.TypeFor[rbacv1.ClusterRole](), "rbac.authorization.k8s.io/v1/ClusterRoleBinding": reflect.TypeFor[rbacv1.ClusterRoleBinding](),
	"scheduling.k8s.io/v1/PriorityClass": reflect.TypeFor[schedulingv1.PriorityClass](), "storage.k8s.io/v1/StorageClass": reflect.TypeFor[storagev1.StorageClass](),
	"autoscaling/v2/HorizontalPodAutoscaler": reflect.TypeFor[autoscalingv2.HorizontalPodAutoscaler](),
}

func (l objectCheck) checkObjects() {
	schemas := manifest.Schemas{}
	for _, b := range l.bundles {
		if b.raw() {
			for _, f := range l.manifests(b) {
				l.checkKindless(f)
				l.checkUntemplated(f)
			}
		}
		l.definitions(b)
		for _, o := range b.objects {
			l.hook(o)
			l.managedBy(o)
			if t, ok := kubernetesTypes[o.apiVersion+"/"+o.kind]; ok {
				walk := &manifest.Walk{}
				walk.Walk(o.node, schemas.SchemaOf(t), "", false)
				for _, m := range walk.Out {
					l.field(o, m)
				}
			}
			l.duplicateKeys(o.file.name, o.node)
		}
	}
}

func (l objectCheck) field(o *lintObject, m manifest.Misfit) {
	switch m.What {
	case manifest.WrongType:
		l.add("unknown-field", o.file.name, m.At, "%s: %s is %s and must be %s", o, m.Path, m.Kind, m.Want.Kind)
	case manifest.Unknown:
		hint := ""
		if m.Near != "" {
			hint = "; did you mean " + m.Near + "?"
		}
		where := ""
		if m.Path != "" {
			where = " in " + m.Path
		}
		l.add("unknown-field", o.file.name, m.At, "%s has no field %s%s%s", o, m.Name, where, hint)
	case manifest.WrongCase, manifest.LosesText:
	}
}

// checkKindless finds documents without a kind: because of one, Fleet silently skips the whole file
// (helmdeployer/rawyaml/resources.go ToObjects).
func (l objectCheck) checkKindless(f *lintFile) {
	if strings.HasPrefix(path.Base(f.name), "kustomization.") {
		return // kustomization-name reports it
	}
	object, missing := false, (*yamlnode.Node)(nil)
	for _, d := range f.docs {
		switch {
		case d.Root.Kind == yamlnode.List && len(d.Root.Items) > 0 || d.Root.Kind == yamlnode.Text && path.Ext(f.name) != ".json":
			l.add("manifest-dropped", f.name, d.Root.At, "a manifest is a mapping, and this is %s: Fleet refuses the bundle", d.Root.Kind)
		case d.Root.Get("kind").Str() != "" && d.Root.Get("apiVersion").Str() != "":
			object = true
		case d.Root.Kind == yamlnode.Map && len(d.Root.Fields) > 0 && missing == nil:
			missing = d.Root
		}
	}
	if missing == nil || !object && !resembles(missing) {
		return
	}
	key := "kind"
	if missing.Get("kind").Str() != "" {
		key = "apiVersion"
	}
	l.add("manifest-dropped", f.name, missing.At, "this document has no %s: Fleet silently leaves out %s", key, map[string]string{"kind": "the whole file", "apiVersion": "the object"}[key])
}

// resembles says that a document is an object with a missing key, not just data.
func resembles(n *yamlnode.Node) bool {
	for _, f := range n.Fields {
		if name := strings.ToLower(f.Name); name == "kind" || name == "apiversion" {
			return true
		}
	}
	return n.Get("metadata", "name") != nil && n.Get("spec") != nil
}

var lintHelmTemplate = regexp.MustCompile(`\{\{-?\s*[^}]*\.(Values|Release|Chart|Capabilities)\b`)

// checkUntemplated: manifests of a bundle without a chart are applied unchanged; only templates/ is
// rendered by Helm (helmdeployer/render/helm.go manifests).
func (l objectCheck) checkUntemplated(f *lintFile) {
	for _, at := range lintHelmTemplate.FindAllIndex(f.data, -1) {
		line := f.data[bytes.LastIndexByte(f.data[:at[0]], '\n')+1 : at[0]]
		if bytes.Contains(line, []byte("#")) {
			continue // a comment
		}
		l.add("template-in-manifest", f.name, placeOf(f.data, at[0]), "this is not rendered: the bundle has no chart, and Fleet applies the file unchanged")
		return
	}
}

// placeOf turns an offset into a place.
func placeOf(data []byte, offset int) yamlnode.Pos {
	before := string(data[:offset])
	return yamlnode.Pos{Line: 1 + strings.Count(before, "\n"), Col: offset - strings.LastIndexByte(before, '\n')}
}

// hook: Helm's hook annotations do not work in plain manifests: Fleet adds the manifests after
// Helm has separated hooks (helmdeployer/postrender.go).
func (l objectCheck) hook(o *lintObject) {
	n := o.node.Get("metadata", "annotations", "helm.sh/hook")
	switch {
	case n == nil:
	case strings.HasPrefix(n.Str(), "test"):
		l.add("test-pod", o.file.name, n.At, "%s is a Helm test: in a plain manifest it is deployed and runs each time, and the bundle waits for it", o)
	default:
		l.add("hook-in-manifest", o.file.name, n.At, "%s is not a hook here: Helm does not see annotations of plain manifests, so it is deployed with the rest", o)
	}
}

// managedBy: Helm sets its own label and annotations on what it installs, but the release's
// manifest, with which Fleet compares, keeps the others.
func (l objectCheck) managedBy(o *lintObject) {
	if n := o.node.Get("metadata", "labels", "app.kubernetes.io/managed-by"); n.Str() != "" && n.Str() != "Helm" {
		l.add("managed-by", o.file.name, n.At, "%s names %s as its manager: Helm changes that to Helm, and Fleet reports it as Modified forever", o, n.Str())
	}
	for key, other := range map[string]func(string) bool{
		"meta.helm.sh/release-name":      func(name string) bool { return l.isOtherRelease(o.bundle, name) },
		"meta.helm.sh/release-namespace": func(ns string) bool { return ns != o.bundle.namespace() },
	} {
		if n := o.node.Get("metadata", "annotations", key); n.Str() != "" && other(n.Str()) {
			l.add("managed-by", o.file.name, n.At, "%s has the annotation %s of another release: Helm replaces it, and Fleet reports it as Modified forever", o, key)
		}
	}
}

// isOtherRelease says that the bundle's release cannot have this name, though only the end of its
// own may be known.
func (l objectCheck) isOtherRelease(b *lintBundle, name string) bool {
	if l.isNameKnown(b) || b.YAML.Helm != nil && b.YAML.Helm.ReleaseName != "" {
		return name != b.release()
	}
	return b.Dir != "." && !mayBeGeneratedFrom(name, b)
}

// definitions: Helm asks the API server about every kind before it creates anything.
func (l objectCheck) definitions(b *lintBundle) {
	defined := map[string]*lintObject{}
	for _, o := range b.objects {
		if o.kind == "CustomResourceDefinition" {
			defined[o.node.Get("spec", "group").Str()+"/"+o.node.Get("spec", "names", "kind").Str()] = o
		}
	}
	said := map[string]bool{}
	for _, o := range b.objects {
		key := o.group() + "/" + o.kind
		if crd := defined[key]; crd != nil && !said[key] {
			said[key] = true
			l.add("crd-with-objects", o.file.name, o.doc, "%s needs %s of the same bundle, which does not exist yet when Helm checks", o, crd)
		}
	}
}

// checkDuplicates: an object belongs to one release; Helm refuses to install another one with
// it (helmdeployer/install.go: TakeOwnership only on request).
func (l objectCheck) checkDuplicates() {
	type key struct{ group, kind, namespace, name string }
	seen := map[key]*lintObject{}
	for _, b := range l.bundles {
		for _, o := range b.objects {
			if o.name == "" {
				continue
			}
			k := key{o.group(), o.kind, o.scopedNamespace(), o.name}
			first := seen[k]
			if first == nil {
				seen[k] = o
				continue
			}
			if first.bundle == b {
				l.add("duplicate-object", o.file.name, o.doc, "%s is in this bundle twice: first in %s line %d", o, first.file.name, first.doc.Line)
				continue
			}
			l.add("duplicate-object", o.file.name, o.doc, "%s is also in the bundle of %s (%s line %d)", o, first.bundle.Dir, first.file.name, first.doc.Line)
			if l.isOneGitRepo() && b.YAML.OverrideTargets == nil && first.bundle.YAML.OverrideTargets == nil {
				l.found[len(l.found)-1].Severity = Failure // they have the same clusters
			}
		}
	}
}

// checkState checks what is deleted with a bundle.
func (l objectCheck) checkState() {
	byNamespace := map[string][]*lintBundle{}
	for _, b := range l.bundles {
		byNamespace[b.namespace()] = append(byNamespace[b.namespace()], b)
	}
	for _, b := range l.bundles {
		if n := b.root.Get("deleteCRDResources"); n.Str() == "true" {
			l.report("delete-crds", b, n.At, "deleting the bundle deletes its CustomResourceDefinitions, and every object of their kinds")
		}
		if n := b.root.Get("deleteNamespace"); n.Str() == "true" {
			l.deletesNamespace(b, n.At, byNamespace[b.namespace()])
		}
		for _, o := range b.objects {
			l.volume(b, o)
		}
	}
}

// deletesNamespace: when the GitRepo is deleted, Fleet picks any one of its bundles and
// deletes the namespace of that bundle (cmd/controller/finalize/finalize.go).
func (l objectCheck) deletesNamespace(b *lintBundle, at yamlnode.Pos, together []*lintBundle) {
	ns := b.YAML.TargetNamespace
	switch {
	case b.YAML.KeepResources:
		l.report("delete-namespace", b, at, "deleteNamespace does nothing beside keepResources")
		return
	case ns == "":
		l.report("delete-namespace", b, at, "deleteNamespace does nothing without namespace: the default namespace is never deleted")
		return
	case ns == "default", strings.HasPrefix(ns, "kube-"), strings.HasPrefix(ns, "fleet-"), strings.HasPrefix(ns, "cattle-"):
		l.report("delete-namespace", b, at, "the namespace %s does not belong to this bundle alone", ns)
		return
	}
	for _, other := range together {
		if other != b {
			l.report("delete-namespace", b, at, "the bundle of %s is also in the namespace %s: it is deleted with this one", other.Dir, ns)
			return
		}
	}
	for _, o := range b.objects {
		if o.kind == "StatefulSet" || o.kind == "PersistentVolumeClaim" {
			l.report("delete-namespace", b, at, "%s keeps data in the namespace %s: it is deleted with the bundle", o, ns)
			return
		}
	}
}

func (l objectCheck) volume(b *lintBundle, o *lintObject) {
	kept := b.YAML.KeepResources || o.node.Get("metadata", "annotations", "helm.sh/resource-policy").Str() == "keep"
	switch o.kind {
	case "PersistentVolumeClaim":
		if !kept {
			l.add("claim-deleted", o.file.name, o.doc, "%s is deleted with the bundle, including its data", o)
		}
	case "PersistentVolume":
		if n := o.node.Get("spec", "persistentVolumeReclaimPolicy"); n.Str() == "Delete" {
			l.add("reclaim-delete", o.file.name, n.At, "%s is deleted with its claim", o)
		}
	case "StorageClass":
		n := o.node.Get("reclaimPolicy")
		if o.node.Get("metadata", "annotations", "storageclass.kubernetes.io/is-default-class").Str() == "true" && n.Str() != "Retain" {
			l.add("reclaim-delete", o.file.name, o.doc, "%s is the default for all data, and deletes it with its claim", o)
		}
	}
}
