package platform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Parts are all parts that there are, with their sections of the file, in the order of
// installation.
func Parts(s *spec.Spec) []addon.Part {
	p, operator := &s.Platform, HasGPUOperator(s)
	certificates := addon.CertManager{TLS: p.TLS, Rancher: p.Rancher != nil}
	standalone := addon.Fleet{Fleet: p.Fleet, Rancher: p.Rancher != nil}
	exporter := addon.GPUExporter{Monitoring: p.Monitoring, Operator: operator, DRA: s.NVIDIA.Stack == spec.StackDRA}
	return []addon.Part{
		addon.GatewayAPI{Ingress: p.Ingress},
		addon.Cilium{Kubernetes: s.K3s.Kubernetes, Sealed: s.Sealed, API: s.NodeAPI()},
		gpuOperator(s),
		addon.GPUGuard{Guard: s.NVIDIA.Guard},
		addon.DRADriver{NVIDIA: s.NVIDIA, Nodes: s.GPUNodes()},
		addon.NFS{NFS: p.Storage.NFS},
		addon.Longhorn{Longhorn: p.Storage.Longhorn},
		addon.CephFS{CephFS: p.Storage.CephFS},
		addon.ProxmoxCSI{ProxmoxCSI: p.Storage.Proxmox},
		addon.Scratch{Scratch: p.Storage.Scratch},
		addon.MetalLB{LoadBalancer: p.LB},
		addon.CiliumPool{LoadBalancer: p.LB},
		certificates,
		addon.Issuer{CertManager: certificates},
		addon.Ingress{Ingress: p.Ingress, Pages: p.Rancher != nil || len(hosts(p)) > 0},
		addon.Tunnel{Tunnel: p.Tunnel},
		addon.ExternalDNS{DNS: p.DNS, Cluster: s.Name},
		addon.Login{Login: p.Login, Platform: p},
		addon.LoginProvider{Login: p.Login, Platform: p},
		addon.Rancher{Rancher: p.Rancher, Platform: p, Mirrored: s.Mirror != nil},
		addon.RancherLogin{Platform: p},
		addon.FleetCRD{Fleet: standalone},
		standalone,
		addon.Flux{Fleet: p.Flux},
		addon.ArgoCD{ArgoCD: p.ArgoCD, Platform: p},
		addon.ArgoCDPages{Platform: p},
		addon.Logs{Logs: p.Logs},
		addon.LogCollector{Logs: p.Logs},
		addon.Monitoring{Monitoring: p.Monitoring, Logs: p.Logs != nil, Platform: p},
		exporter,
		addon.GPUDashboard{GPUExporter: exporter},
		addon.Velero{Backup: p.Backup},
		addon.PostgresBackup{Postgres: p.Postgres, Store: p.Backup},
		addon.Postgres{Postgres: p.Postgres, Store: p.Backup, Gateway: p.ModelGateway != nil},
		addon.Kueue{Queues: p.Queues},
		addon.Models{Models: p.Models, PoolLabel: names.PoolLabel, Gateway: p.ModelGateway != nil, Zone: s.Guest.Timezone, Queue: p.QueueOf(spec.ModelsNamespace).Name},
		hub{spec: s},
		addon.ModelGateway{ModelGateway: p.ModelGateway, Models: p.Models, Chat: p.ModelChat != nil},
		addon.ModelChat{ModelChat: p.ModelChat, Platform: p},
		gitOps{p},
	}
}

// Pins are the charts that homelab installs.
func Pins() chart.Pins {
	out := chart.Pins{}
	for _, part := range Parts(&spec.Spec{}) {
		if info := part.Info(); info.Chart.Chart != "" {
			out[info.Name] = info.Chart
		}
	}
	return out
}

func gpuOperator(s *spec.Spec) addon.GPUOperator {
	return addon.GPUOperator{NVIDIA: s.NVIDIA, Nodes: s.GPUNodes()}
}

// HasGPUOperator reports whether the file asks for NVIDIA's GPU operator.
func HasGPUOperator(s *spec.Spec) bool { return gpuOperator(s).Info().On }

// siteOf has what parts ask of the cluster. Secrets are read only if withSecrets is set.
func siteOf(s *spec.Spec, withSecrets bool) *addon.Site {
	p := &s.Platform
	site := &addon.Site{
		Nodes: s.Nodes, Proxmox: s.Proxmox, Charts: p.Charts, DefaultClass: p.Storage.Default, Balancer: p.LB, Ingress: p.Ingress, NoTraefik: slices.Contains(s.K3s.Disable, "traefik"), TLS: p.TLS, DNS: p.DNS,
		Hosts: hosts(p), GPUMetrics: p.Monitoring != nil && p.Monitoring.GPUs.IsOn(), Offered: offer.All(s), Unread: !withSecrets,
	}
	if p.Hub != nil {
		site.HubNamespace = p.Hub.Namespace
	}
	if p.Login != nil && p.Login.Provider != nil {
		site.Discover = provider{p.Issuer()}.discover
	}
	return site
}

// hosts returns the host names of the parts with web pages.
func hosts(p *spec.Platform) []string {
	var out []string
	if p.Hub != nil {
		out = append(out, p.Hub.Hostname)
	}
	if p.Monitoring != nil {
		out = append(out, p.Monitoring.Hostname)
	}
	if p.Login != nil {
		out = append(out, p.Login.Hostname)
	}
	if p.ModelGateway != nil {
		out = append(out, p.ModelGateway.Hostname)
	}
	if p.ModelChat != nil {
		out = append(out, p.ModelChat.Hostname)
	}
	if p.ArgoCDHasPages() {
		out = append(out, p.ArgoCD.Hostname)
	}
	return slices.Compact(slices.DeleteFunc(out, func(name string) bool { return name == "" }))
}

// Pieces returns the parts that the file asks for, each after those that it needs. Secrets are read
// only if withSecrets is set; otherwise stand-ins take their place.
func Pieces(s *spec.Spec, withSecrets bool) ([]addon.Recipe, error) {
	site := siteOf(s, withSecrets)
	var errs []error
	for _, part := range Parts(s) {
		info := part.Info()
		if !info.On {
			continue
		}
		p, err := part.Make(site)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if p.Name == "" { // there is nothing to install
			continue
		}
		if digest := s.Platform.Charts.Digests[p.Name]; digest != "" && p.Release != nil {
			p.Release.Digest = digest
		}
		p.Direct = info.NeverInFleet
		p.Via = viaOf(&s.Platform, p, info)
		site.Made = append(site.Made, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, p := range site.Made {
		site.Made[i].Needs = slices.DeleteFunc(slices.Clone(p.Needs), func(name string) bool { return readyLater(site.Made, p, name) })
	}
	return inOrder(site.Made)
}

// readyLater reports whether a part does not wait for one that it needs, and is only ready a little later: what Fleet depends on
// for what comes by Git; and what comes by Git for databases, which wait for kinds of monitoring that may come by Git too.
func readyLater(all []addon.Recipe, p addon.Recipe, need string) bool {
	if p.Direct != "" {
		return slices.ContainsFunc(all, func(o addon.Recipe) bool { return o.Name == need && o.InGit() })
	}
	return p.InGit() && need == addon.PostgresName
}

// viaOf says how a part is installed in the cluster.
func viaOf(p *spec.Platform, x addon.Recipe, info addon.Info) string {
	f, tool := p.GitOps()
	if info.Never(tool) != "" || f == nil || f.Repo == "" {
		return spec.ViaDirect
	}
	if via := p.Charts.Via[x.Name]; via != "" {
		return via
	}
	if f.Default != "" {
		return f.Default
	}
	return spec.ViaDirect
}

// Host is what the parts need on every node, in addition to Kubernetes.
func Host(s *spec.Spec) addon.Host {
	all := addon.Host{Files: map[string]string{}}
	for _, part := range Parts(s) {
		if info := part.Info(); info.On {
			all.Add(info.Host)
		}
	}
	return all
}

// HasPlatform reports whether the file asks for anything in addition to Kubernetes and GPUs.
func HasPlatform(s *spec.Spec) bool {
	return slices.ContainsFunc(Parts(s), func(p addon.Part) bool { return p.Info().On })
}

// inOrder sorts parts so that each comes after those that it needs. Otherwise it keeps their order.
func inOrder(all []addon.Recipe) ([]addon.Recipe, error) {
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
	}
	var out []addon.Recipe
	placed := map[string]bool{}
	for len(out) < len(all) {
		before := len(out)
		for _, p := range all {
			if placed[p.Name] || slices.ContainsFunc(p.Needs, func(n string) bool { return names[n] && !placed[n] }) {
				continue
			}
			out, placed[p.Name] = append(out, p), true
		}
		if len(out) == before {
			var rest []string
			for _, p := range all {
				if !placed[p.Name] {
					rest = append(rest, p.Name)
				}
			}
			return nil, fmt.Errorf("parts wait for each other: %s", strings.Join(rest, ", "))
		}
	}
	return out, nil
}

// Split divides the parts that we install ourselves into those that Fleet may wait for, and those
// that wait for a part that Fleet installs.
func Split(pieces []addon.Recipe) (before, after []addon.Recipe) {
	late := map[string]bool{}
	for _, p := range pieces {
		waits := slices.ContainsFunc(p.Needs, func(name string) bool { return late[name] })
		switch {
		case p.InGit():
			late[p.Name] = true
		case p.Name == GitOps: // Fleet's own steps install it
		case waits:
			late[p.Name] = true
			after = append(after, p)
		case !p.Network && !p.Offers: // the nodes, and their GPUs, waited for these
			before = append(before, p)
		}
	}
	return before, after
}
