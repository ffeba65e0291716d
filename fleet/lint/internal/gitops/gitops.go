// Package gitops checks the objects by which Flux and Argo CD deploy: what their API servers refuse, and what floats.
package gitops

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Finding is a breach of a rule of package lint.
type Finding struct {
	Rule, Text string
	At         yamlnode.Pos
}

// fluxTime is the rule of Flux' definitions (kustomization_types.go).
var fluxTime = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)

// exact is one version of a chart; everything else is a range, and takes the newest in it.
var exact = regexp.MustCompile(`^[v=]?[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*$`)

// Check checks one object of a group and kind.
func Check(group, kind string, o *yamlnode.Node) []Finding {
	c := &check{spec: o.Get("spec")}
	if !c.spec.Set() {
		return nil
	}
	if strings.HasSuffix(group, ".toolkit.fluxcd.io") {
		for _, key := range []string{"interval", "retryInterval", "timeout"} {
			if n := c.spec.Get(key); n.Set() && n.Kind < yamlnode.Map && !fluxTime.MatchString(n.Text) {
				c.add("flux-time", n.At, "%s %q is not a time: write 30s, 10m, 1h30m (no days, no bare numbers)", key, n.Text)
			}
		}
	}
	switch group + "/" + kind {
	case "kustomize.toolkit.fluxcd.io/Kustomization":
		c.requireKeys("interval", "prune", "sourceRef")
	case "helm.toolkit.fluxcd.io/HelmRelease":
		c.requireKeys("interval")
		c.release()
	case "source.toolkit.fluxcd.io/OCIRepository":
		c.artifact()
	case "argoproj.io/Application":
		c.application()
	}
	return c.found
}

type check struct {
	spec  *yamlnode.Node
	found []Finding
}

func (c *check) add(rule string, at yamlnode.Pos, format string, args ...any) {
	c.found = append(c.found, Finding{Rule: rule, At: at, Text: fmt.Sprintf(format, args...)})
}

func (c *check) requireKeys(keys ...string) {
	for _, key := range keys {
		if !c.spec.Get(key).Set() {
			c.add("flux-required", c.spec.Place(), "it has no spec.%s", key)
		}
	}
}

// release: helmrelease_types.go HelmReleaseSpec, HelmChartTemplateSpec.
func (c *check) release() {
	chart, ref := c.spec.Get("chart"), c.spec.Get("chartRef")
	if chart.Set() == ref.Set() {
		c.add("flux-chart", c.spec.Place(), "it needs one of spec.chart and spec.chartRef")
		return
	}
	// A chart in a Git repository or a bucket has the version that is there.
	from, version := chart.Get("spec", "sourceRef", "kind"), chart.Get("spec", "version")
	if from.Str() == "HelmRepository" {
		c.floats(chart.Get("spec", "chart").Str(), version, from.Place())
	}
}

func (c *check) floats(chart string, version *yamlnode.Node, at yamlnode.Pos) {
	switch {
	case !version.Set():
		c.add("chart-floats", at, "chart %s has no version", chart)
	case !exact.MatchString(version.Text):
		c.add("chart-floats", version.At, "chart %s has the versions %q", chart, version.Text)
	}
}

// artifact: without a reference it is the tag latest; a digest wins over the others, a range over a tag.
func (c *check) artifact() {
	ref := c.spec.Get("ref")
	tag, semver := ref.Get("tag"), ref.Get("semver")
	switch {
	case ref.Get("digest").Str() != "":
	case semver.Set():
		if !exact.MatchString(semver.Text) {
			c.add("chart-floats", semver.At, "it takes the versions %q", semver.Text)
		}
	case !tag.Set() || tag.Str() == "latest":
		c.add("chart-floats", c.spec.Place(), "it has no version, so the tag latest")
	}
}

// application: reposerver/repository of Argo CD.
func (c *check) application() {
	sources := c.spec.Get("sources").List()
	refs := map[string]bool{}
	for _, s := range sources {
		if name := s.Get("ref").Str(); name != "" {
			refs["$"+name] = true
		}
	}
	for _, s := range sources {
		for _, file := range s.Get("helm", "valueFiles").List() {
			if name, _, _ := strings.Cut(file.Str(), "/"); strings.HasPrefix(name, "$") && !refs[name] {
				c.add("application-ref", file.At, "valueFiles names %s, and no source has ref: %s", name, strings.TrimPrefix(name, "$"))
			}
		}
	}
	for _, s := range append(sources, c.spec.Get("source")) {
		if chart := s.Get("chart"); chart.Str() != "" {
			c.floats(chart.Str(), s.Get("targetRevision"), chart.At)
		}
	}
}
