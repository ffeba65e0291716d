package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart/pins"
)

// versionsFit compares the versions of all parts with Kubernetes and each other.
func (r *resolver) versionsFit() {
	p := r.spec.Platform
	versions := map[string]string{}
	for _, name := range platform.PartsOn(r.spec) {
		versions[name] = p.Charts.Versions[name]
	}
	if p.Rancher != nil && p.Rancher.Version != "" {
		versions["rancher"] = p.Rancher.Version
	}
	if p.Hub != nil && p.Hub.Version != "" {
		versions["jupyterhub"] = p.Hub.Version
	}
	for _, at := range []struct {
		here *string
		name string
	}{{r.rancherVersion(), "rancher"}, {r.hubVersion(), "jupyterhub"}} {
		if there := p.Charts.Versions[at.name]; at.here != nil && *at.here != "" && there != "" && there != *at.here {
			r.Wrong(at.here, fmt.Sprintf("this is version %s of %s, and charts.versions says %s", *at.here, at.name, there), "keep one of them")
		}
	}
	for name, v := range versions {
		if v != "" && !matches(chartVersion, v) {
			delete(versions, name) // said elsewhere
		}
	}
	kubernetes := r.spec.K3s.Version
	if !k3sSyntax.MatchString(kubernetes) {
		kubernetes = "" // said elsewhere
	}
	for _, c := range pins.Check(kubernetes, versions) {
		at := r.versionPlace(c.Parts)
		if c.Warning {
			r.Warn(at, c.Problem, c.Cure)
			continue
		}
		if at == any(&r.spec.K3s.Version) && len(pins.Refused(pins.Check(k3s.DefaultVersion, versions))) == 0 {
			c.Cure += "; write version: " + k3s.DefaultVersion
		}
		r.Wrong(at, c.Problem, c.Cure)
	}
}

func (r *resolver) rancherVersion() *string {
	if r.spec.Platform.Rancher == nil {
		return nil
	}
	return &r.spec.Platform.Rancher.Version
}

func (r *resolver) hubVersion() *string {
	if r.spec.Platform.Hub == nil {
		return nil
	}
	return &r.spec.Platform.Hub.Version
}

// versionPlace is the place where a version was chosen: its own key, that of Kubernetes, or
// the section of the part.
func (r *resolver) versionPlace(parts []string) any {
	for _, name := range parts {
		if r.HasMember(&r.spec.Platform.Charts.Versions, name) {
			return r.MemberAt(&r.spec.Platform.Charts.Versions, name)
		}
	}
	for _, own := range []struct {
		part string
		at   *string
	}{{"rancher", r.rancherVersion()}, {"jupyterhub", r.hubVersion()}} {
		if own.at != nil && r.IsSet(own.at) && slices.Contains(parts, own.part) {
			return own.at
		}
	}
	if r.IsSet(&r.spec.K3s.Version) {
		return &r.spec.K3s.Version
	}
	for _, name := range parts {
		if at := r.section(name); at != nil {
			return at
		}
	}
	return &r.spec.K3s.Version
}

// section is the place in the file that turns a part on.
func (r *resolver) section(part string) any {
	p := &r.spec.Platform
	switch {
	case part == addon.KueueName && len(p.Queues) > 0:
		return &p.Queues[0]
	case part == "cert-manager" && p.TLS != nil:
		return p.TLS
	}
	return map[string]any{
		"rancher": p.Rancher, "fleet": p.Fleet, "fleet-crd": p.Fleet, "jupyterhub": r.spec.Platform.Hub, "velero": p.Backup,
		"monitoring": p.Monitoring, "dcgm-exporter": p.Monitoring, addon.GPUOperatorName: &r.spec.NVIDIA.Stack,
		"nfs": p.Storage.NFS, "longhorn": p.Storage.Longhorn, "cephfs": p.Storage.CephFS, "scratch": p.Storage.Scratch,
		"metallb": p.LB, "cilium": &r.spec.K3s.CNI, "cert-manager": p.Rancher,
	}[part]
}

// viaFleet checks which parts go through Git.
func (r *resolver) viaFleet() {
	p, raw := r.spec.Platform, &r.spec.Platform.Charts
	on := platform.PartsOn(r.spec)
	for _, name := range sortedNames(raw.Via) {
		at := r.MemberAt(&raw.Via, name)
		if !slices.Contains(partNames(), name) {
			continue // said
		}
		if !slices.Contains(on, name) {
			r.Wrong(at, fmt.Sprintf("the part %s is off, so this has no effect", name), "turn it on, or remove it here; these are on: "+cmp.Or(strings.Join(on, ", "), "none"))
			continue
		}
		if raw.Via[name] != spec.ViaFleet {
			continue
		}
		if why := platform.NeverInFleet(r.spec, name); why != "" {
			r.Wrong(at, fmt.Sprintf("Fleet cannot deploy %s: %s", name, why), "write "+name+": direct, or remove it here")
		} else {
			r.fleetIsReady(at)
		}
	}
	if p.Fleet != nil && p.Fleet.Default == spec.ViaFleet {
		r.fleetIsReady(r.Place(&r.spec.Platform.Fleet.Default))
	}
	for _, list := range []struct {
		what string
		of   []string
		at   any
	}{{"version", sortedNames(raw.Versions), &raw.Versions}, {"values", sortedNames(raw.Values), &raw.Values}} {
		for _, name := range list.of {
			if slices.Contains(partNames(), name) && !slices.Contains(on, name) {
				r.Warn(r.MemberAt(list.at, name), fmt.Sprintf("the part %s is off, so its %s is not used", name, list.what), "turn it on, or remove it here")
			}
		}
	}
}

// fleetIsReady checks that there is a Fleet with a repository.
func (r *resolver) fleetIsReady(at any) {
	switch f := r.spec.Platform.Fleet; {
	case f == nil:
		r.Wrong(at, "parts are deployed through Fleet, but the file has no fleet", "write fleet: {repo: https://…} with the repository that Fleet reads")
	case f.Repo == "":
		r.Wrong(at, "parts are deployed through Fleet, but it has no repository", "write repo: under fleet: homelab writes to it and Fleet reads it")
	case f.SSHKey.IsZero() && f.Password.IsZero():
		r.Wrong(at, "homelab cannot write to the repository without a login", "write username and password, or sshKey and knownHosts, under fleet")
	}
}
