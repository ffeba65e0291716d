package lint

import (
	"path"
	"strings"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkValues checks values files, and the sources of values.
func (l chartCheck) checkValues() {
	for _, b := range l.bundles {
		for _, h := range l.helmsOf(b) {
			l.valuesFiles(b, h)
			l.valuesFrom(b, h)
		}
	}
}

func (l chartCheck) valuesFiles(b *lintBundle, h lintHelm) {
	files := h.node.Get("valuesFiles").List()
	if len(files) > 0 && h.own && !readsValuesFiles(&b.YAML, h.HelmOptions) {
		l.report("values-files-ignored", b, h.node.Key("valuesFiles"),
			"Fleet reads valuesFiles only where helm.chart or helm.repo is set: these values are not used")
		return
	}
	inline := h.node.Get("values")
	for _, n := range files {
		name := path.Join(b.Dir, n.Str())
		f := l.tree.files[name]
		switch {
		case f == nil:
			l.report("values-file-missing", b, n.At, "there is no %s", name)
		case f.syntax() != nil:
			l.add("values-file-invalid", name, f.syntax().At, "this is not YAML: %s", plainSyntax(f.syntax().What))
		case f.read && len(f.docs) > 1:
			l.add("values-file-invalid", name, yamlnode.Pos{Line: f.docs[1].Line, Col: 1}, "Fleet reads only what is above this line")
		case f.read && len(f.docs) == 1 && f.docs[0].Root.Kind != yamlnode.Map:
			l.add("values-file-invalid", name, f.docs[0].Root.At, "values must be a mapping, and this is %s", f.docs[0].Root.Kind)
		case f.read && len(f.docs) == 1:
			l.overridden(b, inline, f.docs[0].Root, n.Str(), "")
			l.duplicateKeys(name, f.docs[0].Root)
		}
	}
}

// overridden finds values of fleet.yaml that a values file replaces.
func (l chartCheck) overridden(b *lintBundle, inline, file *yamlnode.Node, name, at string) {
	for _, f := range inline.Entries() {
		over := file.Get(f.Name)
		switch {
		case over == nil:
		case over.Kind == yamlnode.Map && f.Value.Kind == yamlnode.Map:
			l.overridden(b, f.Value, over, name, manifest.Join(at, f.Name))
		case over.Kind != f.Value.Kind || over.Text != f.Value.Text || over.Kind >= yamlnode.Map:
			l.report("values-overridden", b, f.At, "%s also has %s, and files win over helm.values", name, manifest.Join(at, f.Name))
		}
	}
}

func (l chartCheck) valuesFrom(b *lintBundle, h lintHelm) {
	copied := map[string]bool{}
	for _, r := range b.YAML.DownstreamResources {
		copied[strings.ToLower(r.Kind)+"/"+r.Name] = true
	}
	for _, n := range h.node.Get("valuesFrom").List() {
		nothing := true
		for key, kind := range map[string]string{"configMapKeyRef": "configmap", "secretKeyRef": "secret"} {
			ref := n.Get(key)
			if !ref.Set() {
				continue
			}
			nothing = false
			if ref.Get("name").Str() == "" {
				l.report("values-from", b, ref.At, "%s names nothing", key)
			}
			if ns := ref.Get("namespace"); ns.Str() != "" && copied[kind+"/"+ref.Get("name").Str()] && ns.Str() != b.namespace() {
				l.report("values-from", b, ns.At, "namespace %s is ignored: downstreamResources copies it, and the copy in %q is read", ns.Str(),
					b.namespace())
			}
		}
		if nothing {
			l.report("values-from", b, n.At, "neither configMapKeyRef nor secretKeyRef: nothing is read")
		}
	}
}
