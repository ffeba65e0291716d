package lint

import (
	"path"
	"strings"
)

// checkValues judges values files, and where values are taken from.
func (l *linter) checkValues() {
	for _, b := range l.bundles {
		for _, h := range l.helmsOf(b) {
			l.valuesFiles(b, h)
			l.valuesFrom(b, h)
		}
	}
}

func (l *linter) valuesFiles(b *lintBundle, h lintHelm) {
	files := h.node.get("valuesFiles").list()
	if len(files) > 0 && h.own && !readsValuesFiles(&b.YAML, h.HelmOptions) {
		l.in("values-files-ignored", b, h.node.key("valuesFiles"), "Fleet reads valuesFiles only where helm.chart or helm.repo is set: these values go nowhere")
		return
	}
	inline := h.node.get("values")
	for _, n := range files {
		name := path.Join(b.Dir, n.str())
		f := l.tree.files[name]
		switch {
		case f == nil:
			l.in("values-file-missing", b, n.at, "there is no %s", name)
		case f.syntax() != nil:
			l.add("values-file-invalid", name, f.syntax().at, "this is not YAML: %s", plainSyntax(f.syntax().what))
		case f.read && len(f.docs) > 1:
			l.add("values-file-invalid", name, lintPos{f.docs[1].line, 1}, "Fleet reads only what is above this line")
		case f.read && len(f.docs) == 1 && f.docs[0].root.kind != lintMap:
			l.add("values-file-invalid", name, f.docs[0].root.at, "values are a mapping, and this is %s", f.docs[0].root.kind)
		case f.read && len(f.docs) == 1:
			l.overridden(b, inline, f.docs[0].root, n.str(), "")
			l.duplicateKeys(name, f.docs[0].root)
		}
	}
}

// overridden finds values of fleet.yaml that a values file replaces.
func (l *linter) overridden(b *lintBundle, inline, file *lintNode, name, at string) {
	for _, f := range inline.fieldsOf() {
		over := file.get(f.name)
		switch {
		case over == nil:
		case over.kind == lintMap && f.value.kind == lintMap:
			l.overridden(b, f.value, over, name, join(at, f.name))
		case over.kind != f.value.kind || over.text != f.value.text || over.kind >= lintMap:
			l.in("values-overridden", b, f.at, "%s has %s too, and files win over helm.values", name, join(at, f.name))
		}
	}
}

func (l *linter) valuesFrom(b *lintBundle, h lintHelm) {
	copied := map[string]bool{}
	for _, r := range b.YAML.DownstreamResources {
		copied[strings.ToLower(r.Kind)+"/"+r.Name] = true
	}
	for _, n := range h.node.get("valuesFrom").list() {
		nothing := true
		for key, kind := range map[string]string{"configMapKeyRef": "configmap", "secretKeyRef": "secret"} {
			ref := n.get(key)
			if !ref.set() {
				continue
			}
			nothing = false
			if ref.get("name").str() == "" {
				l.in("values-from", b, ref.at, "%s names nothing", key)
			}
			if ns := ref.get("namespace"); ns.str() != "" && copied[kind+"/"+ref.get("name").str()] && ns.str() != b.namespace() {
				l.in("values-from", b, ns.at, "namespace %s is not looked at: downstreamResources copies it, and the copy in %q is read", ns.str(), b.namespace())
			}
		}
		if nothing {
			l.in("values-from", b, n.at, "neither configMapKeyRef nor secretKeyRef: nothing is read")
		}
	}
}
