package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

	"github.com/cps-gpu/homelab/kube/chart"
)

// hookTime is the time limit of a chart's hooks, if it has any: that of a release that is
// applied directly.
const hookTime = 10 * time.Minute

// fleetYAML writes the file that makes a directory a bundle. It has what differs from Fleet's
// defaults, with the reason where that is not obvious.
func (b Bundle) fleetYAML(o Options) []byte {
	var d document
	d.comment("%s. Generated from %s: change it there; README.md says how.", b.title(), o.Source)
	d.field("name", b.Name)
	d.field("labels", map[string]string{PartLabel: b.Part})
	d.field("defaultNamespace", b.Namespace)
	if labels := b.fleetLabels(); len(labels) > 0 {
		d.comment("Fleet removes every other label of the namespace, except pod-security.kubernetes.io/*.")
		d.field("namespaceLabels", labels)
	}
	d.section("helm", func() { b.helm(&d) })
	if len(b.DependsOn) > 0 {
		d.comment("Drift in its dependencies (Modified) does not block it.")
		d.section("dependsOn", func() {
			for _, name := range b.DependsOn {
				d.item("name", name)
				d.line("acceptedStates: [Ready, Modified]")
			}
		})
	}
	if b.Keep {
		d.comment("It holds data: when the bundle is removed, its objects stay.")
		d.field("keepResources", true)
	}
	if b.Release != nil {
		if h := quirksOf(b.Release.Chart); len(h.patches) > 0 {
			d.comment("Not drift: %s.", h.why)
			d.section("diff", func() { d.section("comparePatches", func() { patches(&d, h.patches) }) })
		}
	}
	return d.bytes()
}

func patches(d *document, all []api.ComparePatch) {
	for _, p := range all {
		d.item("apiVersion", p.APIVersion)
		d.indent += "  "
		d.field("kind", p.Kind)
		d.field("jsonPointers", p.JsonPointers)
		d.indent = d.indent[2:]
	}
}

// title describes the bundle in one line. It names no version, so that a new version changes
// only one line.
func (b Bundle) title() string {
	if r := b.Release; r != nil {
		return fmt.Sprintf("Chart %s as release %s in namespace %s", r.Chart, r.Name, r.Namespace)
	}
	switch {
	case strings.HasSuffix(b.Name, "-before"):
		return "Before the chart of " + b.Part + ": " + b.contents()
	case strings.HasSuffix(b.Name, "-after"):
		return "After the chart of " + b.Part + ": " + b.contents()
	}
	return b.contents()
}

// contents names the objects of a bundle.
func (b Bundle) contents() string {
	const few = 4
	var names []string
	for _, o := range b.Objects {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	if len(names) > few {
		return fmt.Sprintf("%s and %d more objects", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

func (b Bundle) helm(d *document) {
	r := b.Release
	if r == nil {
		d.field("releaseName", b.Name)
		d.comment("Existing objects, deployed directly or by hand, are taken over.")
		d.field("takeOwnership", true)
		return
	}
	if strings.HasPrefix(r.Repo, "oci://") {
		// The whole name of the chart, because Fleet adds nothing to it
		// (internal/bundlereader/ charturl.go, isOCIChart), and helm.chart is deprecated for
		// OCI.
		d.field("repo", ociName(*r))
	} else {
		d.field("repo", r.Repo)
		d.field("chart", r.Chart)
	}
	d.field("version", r.Version)
	d.field("releaseName", r.Name)
	if len(r.Values) > 0 {
		d.field("valuesFiles", []string{"values.yaml"})
	}
	if templated(r.Values) {
		d.comment("The values contain ${…} that is not for Fleet, which would fail to render it as a template.")
		d.field("disablePreProcess", true)
	}
	// Without hooks no time limit is set: Fleet would report slow objects as failed, such as a
	// volume that is bound when its first pod starts, and it detects readiness by itself.
	if h := quirksOf(r.Chart); h.hooks != "" {
		d.comment("For its hooks: %s. Helm gives them 30 s where no time is set.", h.hooks)
		d.field("timeoutSeconds", int(cmp.Or(r.Timeout, hookTime).Seconds()))
	}
}

func ociName(r chart.Release) string {
	repo := strings.TrimSuffix(r.Repo, "/")
	if strings.HasSuffix(repo, "/"+r.Chart) {
		return repo
	}
	return repo + "/" + r.Chart
}

var errTemplated = errors.New("templated")

// templated reports whether values contain what Fleet treats as a template: its delimiters are
// ${ and } (internal/cmd/controller/target/builder.go).
func templated(values map[string]any) bool {
	return eachString(values, func(s string) error {
		if strings.Contains(s, "${") {
			return errTemplated
		}
		return nil
	}) != nil
}
