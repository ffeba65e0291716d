package lint

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Site is a cluster as its own file describes it.
type Site struct {
	Namespaces []string         `json:"namespaces"` // that it has without the repository
	GPUTaints  [][]corev1.Taint `json:"gpuTaints"`  // of each node with GPUs
}

// siteCheck compares objects with the cluster that they are for.
type siteCheck struct{ *linter }

// check looks at manifests alone: what charts make is not rendered here. A bundle with targets may be for another cluster.
func (l siteCheck) check() {
	if l.opt.Site == nil {
		return
	}
	all := slices.Clone(l.loose)
	for _, b := range l.bundles {
		all = append(all, b.objects...)
	}
	made, known := l.namespaces(all)
	changed := slices.ContainsFunc(all, changesPods)
	for _, b := range l.bundles {
		if b.root.Get("targets").Set() || b.root.Get("targetCustomizations").Set() {
			continue
		}
		said := map[string]bool{}
		for _, o := range b.objects {
			if ns := o.scopedNamespace(); known && ns != "" && !made[ns] && !said[ns] && !strings.HasPrefix(ns, "cattle-") && !lintMade.MatchString(ns) {
				said[ns] = true
				l.add("namespace-missing", o.file.name, o.doc, "%s is in the namespace %s, which neither the repository nor the cluster's file makes", o, ns)
			}
			if !changed {
				l.tolerates(o)
			}
		}
	}
}

// makesNamespace finds a Namespace in text that is not read as YAML: templates.
var makesNamespace = regexp.MustCompile(`(?m)^kind:\s*["']?Namespace["']?\s*$`)

// namespaces are those of the cluster and of the repository; not known, if something makes others that cannot be read here.
func (l siteCheck) namespaces(objects []*lintObject) (made map[string]bool, known bool) {
	made = map[string]bool{"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": true}
	for _, name := range l.opt.Site.Namespaces {
		made[name] = true
	}
	for _, name := range l.opt.Releases {
		namespace, _, _ := strings.Cut(name, "/")
		made[namespace] = true
	}
	for _, b := range l.bundles {
		if slices.ContainsFunc(b.built, func(k lintBuilt) bool { return k.opaque != "" || k.refused != nil }) {
			return nil, false
		}
		// internal/helmdeployer/install.go: Helm makes the namespace of the release.
		if ns := b.namespace(); ns != "" && b.root.Get("createNamespace").Str() != "false" {
			made[ns] = true
		}
	}
	for _, o := range objects {
		switch {
		case o.kind == "Namespace":
			made[o.name] = true
		case o.kind == "GitRepo" && o.node.Get("spec", "targetNamespace").Str() != "", slices.Contains([]string{"hnc.x-k8s.io", "capsule.clastix.io"}, o.group()):
			return nil, false
		case slices.Contains([]string{"helm.toolkit.fluxcd.io", "argoproj.io", "helm.cattle.io", "fleet.cattle.io"}, o.group()):
			for _, at := range [][]string{{"targetNamespace"}, {"destination", "namespace"}, {"namespace"}, {"defaultNamespace"}} {
				made[o.node.Get(append([]string{"spec"}, at...)...).Str()] = true
			}
		}
	}
	for _, f := range l.tree.files {
		if len(f.bad) > 0 || !f.read && bytes.Contains(f.data, []byte("Namespace")) && makesNamespace.Match(f.data) {
			return nil, false
		}
	}
	return made, true
}

// changesPods reports whether an object may give pods tolerations that their manifests do not have.
func changesPods(o *lintObject) bool {
	return slices.Contains([]string{"kyverno.io", "policies.kyverno.io", "mutations.gatekeeper.sh"}, o.group()) ||
		slices.Contains([]string{"MutatingWebhookConfiguration", "MutatingAdmissionPolicy"}, o.kind)
}

// tolerates: a pod with GPUs goes to nodes that have them, and stays Pending if each has a taint that it does not tolerate.
// Kueue adds the tolerations of its flavours to the jobs of its queues.
func (l siteCheck) tolerates(o *lintObject) {
	spec := podSpec(o)
	at := gpuOf(spec)
	if at == nil || o.node.Get("metadata", "labels", "kueue.x-k8s.io/queue-name").Str() != "" || spec.Get("nodeName").Str() != "" {
		return
	}
	var tolerations []corev1.Toleration
	for _, n := range spec.Get("tolerations").List() {
		tolerations = append(tolerations, corev1.Toleration{Key: n.Get("key").Str(), Operator: corev1.TolerationOperator(n.Get("operator").Str()),
			Value: n.Get("value").Str(), Effect: corev1.TaintEffect(n.Get("effect").Str())})
	}
	var first string
	for _, taints := range l.opt.Site.GPUTaints {
		i := slices.IndexFunc(taints, func(t corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(own corev1.Toleration) bool {
				return suits(own, t)
			})
		})
		if i < 0 {
			return
		}
		if first == "" {
			first = taints[i].ToString()
		}
	}
	if first != "" {
		l.add("gpu-untolerated", o.file.name, at.At, "%s requests %s, and does not tolerate the taint of the nodes that have them, %s: its pods stay Pending", o, at.Name, first)
	}
}

// suits reports whether a toleration is for a taint (k8s.io/api core/v1 toleration.go ToleratesTaint).
func suits(own corev1.Toleration, t corev1.Taint) bool {
	return (own.Effect == "" || own.Effect == t.Effect) && (own.Key == "" || own.Key == t.Key) &&
		(own.Operator == corev1.TolerationOpExists || own.Value == t.Value && (own.Operator == "" || own.Operator == corev1.TolerationOpEqual))
}

// gpuOf is the request for NVIDIA's GPUs, or parts of them, of the first container that has one.
func gpuOf(spec *yamlnode.Node) *yamlnode.Field {
	for _, key := range []string{"containers", "initContainers"} {
		for _, c := range spec.Get(key).List() {
			for _, f := range c.Get("resources", "limits").Entries() {
				if strings.HasPrefix(f.Name, "nvidia.com/") && f.Value.Str() != "0" {
					return &f
				}
			}
		}
	}
	return nil
}
