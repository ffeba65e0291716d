package platform

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
)

// Check is the [spec.Check] of the platform: versions that do not work together, what Fleet cannot
// deploy, values that charts do not know, profiles without a node that has room, and everything that
// making the parts finds.
func Check(s *spec.Spec, r spec.Report) {
	c := checker{r, s, map[string]addon.Info{}}
	for _, part := range Parts(s) {
		info := part.Info()
		c.parts[info.Name] = info
	}
	c.labImages()
	c.operatorValues()
	c.versionsFit()
	c.checkFleetParts()
	if s.Platform.Hub != nil && len(s.Nodes) > 0 {
		c.profilesFit()
	}
	c.queuesApart()
	c.replacedValues()
	c.partsRender()
	c.mirrorOpen()
	c.outsideMirror()
}

type checker struct {
	spec.Report
	spec  *spec.Spec
	parts map[string]addon.Info // by name
}

// enabledParts lists the parts with a chart that the file turns on.
func (c checker) enabledParts() []string {
	var out []string
	for _, part := range Parts(c.spec) {
		if info := part.Info(); info.Chart.Chart != "" && info.On {
			out = append(out, info.Name)
		}
	}
	return out
}

// labImages warns of parts whose images the lab's real VMs cannot download.
func (c checker) labImages() {
	l := &c.spec.LabGuests
	if l.QEMU() && !l.Internet.IsOn() && (HasPlatform(c.spec) || c.spec.K3s.VIP.IsValid()) {
		c.Warn(&l.Guests, "the VMs have no internet, so only parts become ready whose images are among those of "+c.spec.K3s.AirgapDir+": kube-vip and every part of the platform need further images",
			"write internet: true in lab, or put the images into that folder's tarball")
	}
}

// operatorValues refuses keys that the GPU operator's chart ignores, and keys on which the cluster
// depends.
func (c checker) operatorValues() {
	raw := &c.spec.NVIDIA
	if raw.Stack != spec.StackOperator {
		return
	}
	for _, f := range addon.CheckGPUOperatorValues(raw.Values) {
		cure := f.Cure
		if cure == "" {
			cure = replacementText(f)
		}
		c.Wrong(c.Entry(&raw.Values, f.Path), f.What, cure)
	}
}

// replacementText says what to write instead of a key that the chart does not have.
func replacementText(f addon.ValueFault) string {
	switch key := f.Path[strings.LastIndexByte(f.Path, '.')+1:]; {
	case suggest.Nearest(key, f.Known) != "":
		return "did you mean " + suggest.Nearest(key, f.Known) + "?"
	case key == "migStrategy":
		return "remove it, and write sharing: under nvidia, in pools or nodes"
	case key == "nodeSelector":
		return "remove it: the operator finds the nodes that have GPUs"
	}
	return "remove it; helm show values of the chart gpu-operator lists all keys"
}

// versionsFit compares the versions of all parts with Kubernetes and each other.
func (c checker) versionsFit() {
	p := &c.spec.Platform
	versions, own := map[string]string{}, map[string]*string{}
	for _, name := range c.enabledParts() {
		versions[name] = p.Charts.Versions[name]
	}
	if p.Rancher != nil {
		own["rancher"] = &p.Rancher.Version
	}
	if p.Hub != nil {
		own["jupyterhub"] = &p.Hub.Version
	}
	for name, at := range own {
		versions[name] = cmp.Or(*at, versions[name])
	}
	maps.DeleteFunc(versions, func(_, v string) bool { return v != "" && !spec.IsChartVersion(v) }) // said elsewhere
	kubernetes := c.spec.K3s.Version
	if !spec.IsK3sVersion(kubernetes) {
		kubernetes = "" // said elsewhere
	}
	pins := Pins()
	for _, found := range pins.Check(kubernetes, versions) {
		at := c.versionPlace(found.Parts, own)
		if found.Warning {
			c.Warn(at, found.Problem, found.Cure)
			continue
		}
		if at == any(&c.spec.K3s.Version) && len(chart.Incompatible(pins.Check(k3s.DefaultVersion, versions))) == 0 {
			found.Cure += "; write version: " + k3s.DefaultVersion
		}
		c.Wrong(at, found.Problem, found.Cure)
	}
}

// versionPlace is the place where a version was chosen: its own key, that of Kubernetes, or
// the section of the part.
func (c checker) versionPlace(parts []string, own map[string]*string) any {
	versions := &c.spec.Platform.Charts.Versions
	for _, name := range parts {
		if _, there := (*versions)[name]; there {
			return c.Entry(versions, name)
		}
	}
	for _, name := range []string{"rancher", "jupyterhub"} {
		if at := own[name]; at != nil && c.IsSet(at) && slices.Contains(parts, name) {
			return at
		}
	}
	if c.IsSet(&c.spec.K3s.Version) {
		return &c.spec.K3s.Version
	}
	for _, name := range parts {
		if at := c.section(name); at != nil {
			return at
		}
	}
	return &c.spec.K3s.Version
}

// section is the place in the file that turns a part on; nil: nothing does.
func (c checker) section(part string) any {
	if info := c.parts[part]; info.On {
		return c.Key(info.Section)
	}
	return nil
}

// checkFleetParts checks which parts go through Git.
func (c checker) checkFleetParts() {
	raw, on := &c.spec.Platform.Charts, c.enabledParts()
	f, via := c.spec.Platform.GitOps()
	tool := fleet.Tool(via).Title()
	off := func(name string) bool { return c.parts[name].Chart.Chart != "" && !slices.Contains(on, name) }
	for _, name := range slices.Sorted(maps.Keys(raw.Via)) {
		at, why := c.Entry(&raw.Via, name), c.parts[name].Never(via)
		switch {
		case off(name):
			c.Wrong(at, fmt.Sprintf("the part %s is off, so this has no effect", name), "turn it on, or remove it here; these are on: "+cmp.Or(strings.Join(on, ", "), "none"))
		case !(addon.Recipe{Via: raw.Via[name]}).InGit() || !slices.Contains(on, name):
		case f != nil && raw.Via[name] != via:
			c.Wrong(at, fmt.Sprintf("the file has %s, not %s", via, raw.Via[name]), "write "+name+": "+via)
		case why != "":
			c.Wrong(at, fmt.Sprintf(tool+" cannot deploy %s: %s", name, why), "write "+name+": direct, or remove it here")
		default:
			c.fleetIsReady(at)
		}
	}
	if f != nil && f.Default == via {
		c.fleetIsReady(&f.Default)
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Versions)) {
		if off(name) {
			c.Warn(c.Entry(&raw.Versions, name), fmt.Sprintf("the part %s is off, so its version is not used", name), "turn it on, or remove it here")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Values)) {
		if off(name) {
			c.Warn(c.Entry(&raw.Values, name), fmt.Sprintf("the part %s is off, so its values is not used", name), "turn it on, or remove it here")
		}
	}
}

// fleetIsReady checks that there is a Fleet with a repository.
func (c checker) fleetIsReady(at any) {
	f, via := c.spec.Platform.GitOps()
	tool := fleet.Tool(via).Title()
	switch {
	case f == nil:
		c.Wrong(at, "parts are deployed through Fleet, but the file has no fleet", "write fleet: {repo: https://…} with the repository that Fleet reads")
	case f.Repo == "":
		c.Wrong(at, "parts are deployed through "+tool+", but it has no repository", "write repo: under "+via+": homelab writes to it and "+tool+" reads it")
	case f.SSHKey.IsZero() && f.Password.IsZero():
		c.Wrong(at, "homelab cannot write to the repository without a login", "write username and password, or sshKey and knownHosts, under "+via)
	}
}

// queuesApart refuses queues in the namespaces of the platform itself, whose pods must not wait. In the
// hub's only notebooks do.
func (c checker) queuesApart() {
	if len(c.spec.Platform.Queues) == 0 || len(c.spec.Nodes) == 0 {
		return
	}
	own := namespaces(c.spec)
	for i := range c.spec.Platform.Queues {
		q := &c.spec.Platform.Queues[i]
		for j, n := range q.Namespaces {
			if slices.Contains(own, n) {
				c.Wrong(&q.Namespaces[j], fmt.Sprintf("the platform itself runs in the namespace %s, and would wait for GPUs", n), "name the namespaces of people")
			}
		}
	}
}

// namespaces are those of the platform's parts and of the checks of GPUs, without the hub's.
func namespaces(s *spec.Spec) []string {
	out := []string{metav1.NamespaceSystem, nvidia.PluginName}
	pieces, err := Pieces(s, false)
	if err != nil {
		return out
	}
	for _, p := range pieces {
		if p.Release != nil && (s.Platform.Hub == nil || p.Release.Namespace != s.Platform.Hub.Namespace) {
			out = append(out, p.Release.Namespace)
		}
	}
	return out
}

// replacedValues warns of values that replace ours; those of the hub are checked by their
// meaning (chartValues).
func (c checker) replacedValues() {
	all := replacedValues(c.spec)
	for _, part := range slices.Sorted(maps.Keys(all)) {
		c.Warn(c.Entry(&c.spec.Platform.Charts.Values, part),
			fmt.Sprintf("charts.values.%s replaces what the other keys of this file set: %s", part, suggest.FirstOf(all[part])),
			"remove it, unless that is what you want")
	}
}

const seeDocs = "docs/cluster-yaml.md describes each key"

// partsRender makes the parts like the recipes do, without their secrets, and reports
// mistakes that only the parts themselves find, at the section of the part.
func (c checker) partsRender() {
	if !c.Sound() {
		return // otherwise the same mistakes would be reported twice
	}
	_, err := Pieces(c.spec, false)
	for _, err := range splitJoined(err) {
		var hub jupyterhub.Problems
		if !errors.As(err, &hub) {
			what, _, _ := strings.Cut(err.Error(), "\n")
			name, _, _ := strings.Cut(what, ":")
			c.Wrong(c.section(strings.TrimSpace(name)), what, seeDocs)
			continue
		}
		for _, p := range hub {
			c.Wrong(hubField(c.spec.Platform.Hub, p.Field), p.Text, seeDocs)
		}
	}
}

// splitJoined splits what errors.Join has joined.
func splitJoined(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
