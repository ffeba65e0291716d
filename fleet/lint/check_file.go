package lint

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkSyntax: one manifest that is not YAML stops its bundle, and with it the GitRepo.
func (l fileCheck) checkSyntax() {
	said := map[string]bool{}
	for _, b := range l.bundles {
		var files []*lintFile
		if b.file != nil {
			files = append(files, b.file)
		}
		if b.raw() {
			files = append(files, l.manifests(b)...)
		}
		for _, f := range files {
			if bad := f.syntax(); bad != nil && !said[f.name] {
				l.add("yaml-syntax", f.name, bad.At, "this is not YAML: %s", plainSyntax(bad.What))
				said[f.name] = true
			}
		}
	}
}

// checkUnread names what is not checked, so that no finding does not look like no mistake.
func (l fileCheck) checkUnread() {
	for _, name := range slices.Sorted(maps.Keys(l.tree.files)) {
		for _, bad := range l.tree.files[name].bad {
			if bad.Unread {
				l.add("unread", name, bad.At, "this document is not checked: %s", bad.What)
			}
		}
	}
}

// syntax is the first document of a file that is not YAML, or nil.
func (f *lintFile) syntax() *manifest.Syntax {
	for i := range f.bad {
		if !f.bad[i].Unread {
			return &f.bad[i]
		}
	}
	return nil
}

func plainSyntax(what string) string {
	if strings.Contains(what, "'\t'") {
		return "a tab is not allowed here"
	}
	return what
}

// newerKeys are keys of Fleet 0.16.1 that the types of 0.16.0 lack.
var newerKeys = map[string]reflect.Type{"createNamespace": reflect.TypeFor[bool]()}

// fleetYAMLSchema is the schema of a fleet.yaml. Fleet reads it twice: as FleetYAML, and as
// metadata (bundlereader/read.go readMetadata), which is an embedded struct. A key of both
// must satisfy the stricter one.
func fleetYAMLSchema(m manifest.Schemas) *manifest.Schema {
	s := m.SchemaOf(reflect.TypeFor[v1alpha1.FleetYAML]())
	meta := m.SchemaOf(reflect.TypeFor[metav1.ObjectMeta]())
	s.Fields["annotations"] = meta.Fields["annotations"]
	for _, both := range []string{"annotations", "labels", "name"} {
		s.Promoted[both] = true
	}
	for key, t := range newerKeys {
		s.Fields[key] = m.SchemaOf(t)
		m.SchemaOf(reflect.TypeFor[v1alpha1.BundleTarget]()).Fields[key] = m.SchemaOf(t)
	}
	return s
}

func (l fileCheck) checkFleetYAMLs() {
	schemas := manifest.Schemas{}
	schema := fleetYAMLSchema(schemas)
	for _, b := range l.bundles {
		if b.file == nil {
			continue
		}
		if len(b.file.docs) > 1 {
			l.report("second-document", b, yamlnode.Pos{Line: b.file.docs[1].Line, Col: 1}, "Fleet reads only what is above this line")
		}
		if second := path.Join(b.Dir, "fleet.yml"); path.Base(b.File) == "fleet.yaml" && l.tree.files[second] != nil {
			l.add("two-fleet-yamls", second, yamlnode.Pos{}, "Fleet reads fleet.yaml beside it, and not this file")
		}
		walk := &manifest.Walk{Loose: true}
		walk.Walk(b.root, schema, "", true)
		typed := false
		for _, m := range walk.Out {
			typed = typed || m.What == manifest.WrongType
			l.reportMisfit(b.File, m, "fleet.yaml")
		}
		if b.Err != nil && !typed && strings.HasPrefix(b.Err.Error(), "reading fleet.yaml: ") && b.file.syntax() == nil {
			l.report("wrong-type", b, b.root.At, "Fleet cannot read it: %s", strings.TrimPrefix(b.Err.Error(), "reading fleet.yaml: "))
		}
		if len(b.YAML.ImageScans) > 0 {
			l.report("images-off", b, b.root.Key("imageScans"), "Fleet refuses imageScans unless its chart's imagescan.enabled is true")
		}
		l.duplicateKeys(b.File, b.root)
		l.inertKeys(b)
		l.labels(b)
	}
}

func (l *linter) reportMisfit(file string, m manifest.Misfit, of string) {
	where := ""
	if m.Path != "" {
		where = " in " + m.Path
	}
	switch m.What {
	case manifest.Unknown:
		if m.Name == "createNamespace" && path.Ext("."+m.Path) == ".helm" {
			l.reportWithCure("unknown-key", file, m.At, "remove it", "%s knows no key %q%s: the namespace is created anyway", of, m.Name, where)
			l.found[len(l.found)-1].Severity = Warning
			return
		}
		if m.Name == "targetNamespace" && m.Path == "" {
			l.reportWithCure("unknown-key", file, m.At, "write namespace",
				"%s knows no key targetNamespace, which is a GitRepo's: it is dropped silently", of)
			return
		}
		hint := ""
		if m.Near != "" {
			hint = fmt.Sprintf("; did you mean %q?", m.Near)
		}
		l.add("unknown-key", file, m.At, "%s knows no key %q%s: it is dropped silently%s", of, m.Name, where, hint)
	case manifest.WrongCase:
		l.reportWithCure("key-case", file, m.At, fmt.Sprintf("write %s", m.Near), "the key %q%s is written %q", m.Name, where, m.Near)
	case manifest.WrongType:
		if m.Want.Kind == yamlnode.Text && m.Kind < yamlnode.Text {
			l.reportWithCure("wrong-type", file, m.At, fmt.Sprintf("write %q, in quotes", m.Have.Text), "%s is %s and must be text", m.Path, m.Kind)
			return
		}
		l.add("wrong-type", file, m.At, "%s is %s and must be %s", m.Path, m.Kind, m.Want.Kind)
	case manifest.LosesText:
		l.reportWithCure("lossy-text", file, m.At, fmt.Sprintf("write %q, in quotes", m.Have.Text),
			"%s is text, and without quotes YAML makes %q of %s", m.Path, manifest.LossyAs(m.Have.Text), m.Have.Text)
	}
}

// duplicateKeys finds keys that occur twice in a mapping, at any depth.
func (l *linter) duplicateKeys(file string, n *yamlnode.Node) {
	for _, f := range n.Twice {
		l.add("duplicate-key", file, f.At, "the key %q comes again in line %d, and that one wins", f.Name, n.Key(f.Name).Line)
	}
	for _, f := range n.Fields {
		l.duplicateKeys(file, f.Value)
	}
	for _, item := range n.Items {
		l.duplicateKeys(file, item)
	}
}

// inert are keys of a fleet.yaml that Fleet sets itself, whatever their value.
var inert = map[string]string{
	"resources":                      "Fleet fills it with the files of the folder (bundlereader/read.go)",
	"forceSyncGeneration":            "the GitRepo's value replaces it (bundlereader/read.go)",
	"valuesHash":                     "Fleet computes it (cli/apply/apply.go writeBundle)",
	"contentsId":                     "Fleet computes it (cli/apply/apply.go saveOCIBundle)",
	"helmOpOptions":                  "it makes the bundle a HelmOp's, which a GitRepo refuses to update (cli/apply/apply.go save)",
	"targetRestrictions":             "it belongs to Fleet: the GitRepo's targets are added to it, and Fleet distinguishes customizations from targets by its length (matcher/bundlematch.go)",
	"allowedTargetNamespaceSelector": "a GitRepoRestriction sets it (target/builder.go)",
	"overwrites":                     "Fleet computes it (cli/apply/apply.go)",
}

// inertTarget are keys of a target that do not reach its clusters: all that options.Merge does
// not name.
var inertTarget = map[string]bool{
	"deleteNamespace": true, "deleteCRDResources": true, "ignore": true, "createNamespace": true,
	"overwrites": true, "allowedTargetNamespaceSelector": true,
}

var inertTargetHelm = map[string]bool{"maxHistory": true, "skipSchemaValidation": true, "disableDependencyUpdate": true}

func (l fileCheck) inertKeys(b *lintBundle) {
	for _, f := range b.root.Fields {
		if why, ok := inert[f.Name]; ok {
			l.report("inert-key", b, f.At, "%s has no place in a fleet.yaml: %s", f.Name, why)
		}
	}
	for _, t := range l.targets(b) {
		for _, f := range t.node.Fields {
			if inertTarget[f.Name] {
				l.report("inert-target-key", b, f.At, "%s in a target is dropped: Fleet's merge ignores it", f.Name)
			}
			if f.Name == "namespaceLabels" || f.Name == "namespaceAnnotations" {
				l.report("target-namespace-labels", b, f.At, "%s of one target goes to the namespace in every cluster, matched by the target or not",
					f.Name)
			}
		}
		for _, f := range t.node.Get("helm").Entries() {
			if inertTargetHelm[f.Name] {
				l.report("inert-target-key", b, f.At, "helm.%s in a target is dropped: Fleet's merge ignores it", f.Name)
			}
		}
		for _, key := range []string{"defaultNamespace", "namespace", "serviceAccount"} {
			if n := t.node.Get(key); n.Str() == "-" {
				l.report("dash-clears-nothing", b, n.At, `%s: "-" does not clear the value: Fleet uses "-" itself`, key)
			}
		}
	}
}

// labels of a bundle become labels of an object: Kubernetes refuses invalid ones.
func (l fileCheck) labels(b *lintBundle) {
	for _, f := range b.root.Get("labels").Entries() {
		if len(validation.IsQualifiedName(f.Name)) > 0 {
			l.report("bad-label", b, f.At, "%q cannot be the name of a label", f.Name)
		}
		if f.Value.Kind == yamlnode.Text && len(validation.IsValidLabelValue(f.Value.Text)) > 0 {
			l.report("bad-label", b, f.Value.At, "%q cannot be the value of a label", f.Value.Text)
		}
	}
}

// checkIgnoreFiles checks .fleetignore, whose patterns differ from those of .gitignore.
func (l fileCheck) checkIgnoreFiles() {
	for _, name := range slices.Sorted(maps.Keys(l.tree.files)) {
		if path.Base(name) != ".fleetignore" {
			continue
		}
		for _, p := range readIgnore(l.tree.files[name].data) {
			at := yamlnode.Pos{Line: p.line, Col: 1}
			folder := strings.HasSuffix(p.text, "/*") && !strings.Contains(strings.TrimSuffix(p.text, "/*"), "/")
			_, err := path.Match(p.text, "")
			switch {
			case err != nil:
				l.add("ignore-glob", name, at, "%q is not a valid pattern: Fleet stops here", p.text)
			case strings.HasPrefix(p.text, "!"):
				l.add("ignore-pattern", name, at, "%q includes nothing again: a leading ! has no meaning here", p.text)
			case strings.Contains(p.text, "/") && !folder:
				l.add("ignore-pattern", name, at, "%q matches nothing: patterns are compared with the last part of a path, which has no slash", p.text)
			}
		}
	}
}

// lintTarget is an entry of targets, targetCustomizations or overrideTargets.
type lintTarget struct {
	key  string
	node *yamlnode.Node
}

func (t lintTarget) name() string {
	if n := t.node.Get("name").Str(); n != "" {
		return t.key + " " + n
	}
	return "this entry of " + t.key
}

// targets are the customizations of a bundle, in the order in which Fleet tries them.
func (l *linter) targets(b *lintBundle) (out []lintTarget) {
	for _, key := range []string{"targets", "targetCustomizations"} {
		for _, n := range b.root.Get(key).List() {
			out = append(out, lintTarget{key, n})
		}
	}
	return out
}
