package lint

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/kube/chart"
)

// templateRoot has the fields of values' templates (target/builder.go preprocessHelmValues).
var templateRoot = [...]string{"ClusterName", "ClusterNamespace", "ClusterLabels", "ClusterAnnotations", "ClusterValues"}

// clusterLabelPrefix is the prefix of a value that is replaced with a label of the cluster
// (target/target.go).
const clusterLabelPrefix = "global.fleet.clusterLabels."

// checkTemplates: Fleet treats all values, including those of values files, as one Go template
// with the delimiters ${ and }; a shell variable stops the bundle on every cluster.
func (l chartCheck) checkTemplates() {
	for _, b := range l.bundles {
		for _, h := range l.helmsOf(b) {
			t := &lintTemplates{linter: l.linter, funcs: templateFuncs(), off: h.DisablePreProcess || b.YAML.Helm != nil && b.YAML.Helm.DisablePreProcess}
			values, _ := manifest.Data(h.node.Get("values")).(map[string]any)
			if values == nil {
				values = map[string]any{}
			}
			var files []*lintFile
			for _, n := range h.node.Get("valuesFiles").List() {
				if f := l.tree.files[path.Join(b.Dir, n.Str())]; f != nil && f.read && len(f.docs) > 0 && readsValuesFiles(&b.YAML, h.HelmOptions) {
					files = append(files, f)
					if more, ok := manifest.Data(f.docs[0].Root).(map[string]any); ok {
						chart.Merge(values, more)
					}
				}
			}
			var whole error
			if mayTemplate(append(files, b.file)) {
				whole = t.checkCombined(values)
			}
			before := len(l.found)
			t.walk(b.File, h.node.Get("values"), "")
			for _, f := range files {
				t.walk(f.name, f.docs[0].Root, "")
			}
			if whole != nil && len(l.found) == before {
				l.report("values-template", b, h.node.Get("values").Place(), "written as YAML, these values are not a valid template: %s",
					lintTemplateWhere.ReplaceAllString(whole.Error(), ""))
			}
			t.wholeFits = false
			t.walk(b.File, h.node.Get("templateValues"), "")
		}
	}
}

// mayTemplate says whether the files contain the start of a template. Few do.
func mayTemplate(files []*lintFile) bool {
	return slices.ContainsFunc(files, func(f *lintFile) bool { return f != nil && bytes.Contains(f.data, []byte("${")) })
}

// lintTemplates are the templates in one set of values.
type lintTemplates struct {
	*linter
	funcs     template.FuncMap
	off       bool // disablePreProcess
	wholeFits bool // together they are a template, even if none is alone
}

// checkCombined checks all values as Fleet does, written as one YAML document (target/builder.go
// processTemplateValues).
func (t *lintTemplates) checkCombined(values map[string]any) error {
	text, err := yaml.Marshal(values)
	if err != nil || t.off {
		return nil //nolint:nilerr // other rules report values that cannot be written
	}
	_, err = t.parse(string(text))
	t.wholeFits = err == nil
	return err
}

func (t *lintTemplates) parse(text string) (*template.Template, error) {
	return template.New("values").Funcs(t.funcs).Option("missingkey=error").Delims("${", "}").Parse(text)
}

// templateFuncs are the functions of values' templates: sprig's, without those that use the
// environment or network (target/builder.go tplFuncMap).
func templateFuncs() template.FuncMap {
	f := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "include", "tpl", "getHostByName"} {
		delete(f, name)
	}
	return f
}

func (t *lintTemplates) walk(file string, n *yamlnode.Node, at string) {
	if n == nil {
		return
	}
	for _, f := range n.Fields {
		if !t.off && strings.Contains(f.Name, "${") {
			t.checkText(file, f.At, f.Name)
		}
		t.walk(file, f.Value, manifest.Join(at, f.Name))
	}
	for _, item := range n.Items {
		t.walk(file, item, at)
	}
	if n.Kind != yamlnode.Text {
		return
	}
	if label, ok := strings.CutPrefix(n.Text, clusterLabelPrefix); ok {
		for _, c := range t.opt.Clusters {
			if _, has := c.Labels[label]; !has && c.Labels != nil {
				t.add("cluster-label", file, n.At, "cluster %s has no label %s: %s becomes empty there", c.Name, label, at)
			}
		}
	}
	if !t.off && strings.Contains(n.Text, "${") {
		t.checkText(file, n.At, n.Text)
	}
}

var lintTemplateWhere = regexp.MustCompile(`^template: values:\d+(:\d+)?: (executing "values" at )?`)

// lintHeavy are functions with which a foreign repository could use up time or memory.
var lintHeavy = regexp.MustCompile(`until|repeat|seq|gen[A-Z]|derive|bcrypt|htpasswd|range|template|define|block`)

func (t *lintTemplates) checkText(file string, at yamlnode.Pos, text string) {
	parsed, err := t.parse(text)
	if err != nil {
		if !t.wholeFits {
			t.add("values-template", file, at, "Fleet treats ${…} as a template, and this is not a valid one: %s", lintTemplateWhere.ReplaceAllString(err.Error(), ""))
		}
		return
	}
	if parsed.Tree == nil {
		return
	}
	if name := unknownField(parsed.Root); name != "" {
		t.add("values-template", file, at, "templates of values have no .%s%s", name, didYouMean(name, templateRoot[:]))
		return
	}
	for _, c := range t.opt.Clusters {
		labels := map[string]any{}
		for k, v := range c.Labels {
			labels[k] = v
		}
		if len(labels) == 0 || lintHeavy.MatchString(text) || strings.Contains(text, ".ClusterValues") || strings.Contains(text, ".ClusterAnnotations") {
			continue // Fleet skips values for a cluster without labels; the rest is in the cluster
		}
		data := map[string]any{"ClusterName": c.Name, "ClusterNamespace": "", "ClusterLabels": labels, "ClusterAnnotations": map[string]any{}, "ClusterValues": map[string]any{}}
		if err := execute(parsed, data); err != nil {
			t.add("values-template", file, at, "for cluster %s it fails: %s", c.Name, lintTemplateWhere.ReplaceAllString(err.Error(), ""))
			return
		}
	}
}

// execute runs a template of the repository, with a limit for its output.
func execute(t *template.Template, data map[string]any) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	if err = t.Execute(&limitedWriter{left: 1 << 20}, maps.Clone(data)); errors.Is(err, io.ErrShortWrite) {
		err = nil
	}
	return err
}

type limitedWriter struct{ left int }

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// unknownField returns the first field of the root that templates do not have. The contents of
// range and with have another root, and are not checked.
func unknownField(n parse.Node) string {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return ""
		}
		for _, sub := range n.Nodes {
			if name := unknownField(sub); name != "" {
				return name
			}
		}
	case *parse.ActionNode:
		return unknownInPipe(n.Pipe)
	case *parse.IfNode:
		if name := unknownInPipe(n.Pipe); name != "" {
			return name
		}
		if name := unknownField(n.List); name != "" {
			return name
		}
		return unknownField(n.ElseList)
	case *parse.RangeNode:
		return unknownInPipe(n.Pipe)
	case *parse.WithNode:
		return unknownInPipe(n.Pipe)
	}
	return ""
}

func unknownInPipe(p *parse.PipeNode) string {
	if p == nil {
		return ""
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			var name string
			switch arg := arg.(type) {
			case *parse.FieldNode:
				name = arg.Ident[0]
			case *parse.VariableNode:
				if len(arg.Ident) > 1 && arg.Ident[0] == "$" {
					name = arg.Ident[1]
				}
			case *parse.PipeNode:
				if sub := unknownInPipe(arg); sub != "" {
					return sub
				}
			}
			if name != "" && !slices.Contains(templateRoot[:], name) {
				return name
			}
		}
	}
	return ""
}
