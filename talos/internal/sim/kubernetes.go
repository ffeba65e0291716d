package sim

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cps-gpu/homelab/sim/guest"
)

// form makes the control plane that begins with this server's etcd, with what was saved. The world is locked.
func (m *Machine) form(ctx context.Context, saved *guest.PlaneSaved) error {
	if m.world.Kubernetes == nil {
		return nil
	}
	c := m.config.Cluster()
	cfg := guest.PlaneConfig{Saved: saved, DNSDomain: c.Network().DNSDomain(), Version: m.kubelet(), TLSSANs: append(c.CertSANs(), c.Endpoint().Hostname(), m.address),
		Disable: []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server", "runtimes"}}
	for i, r := range []struct {
		of []string
		to *netip.Prefix
	}{{c.Network().ServiceCIDRs(), &cfg.ServiceCIDR}, {c.Network().PodCIDRs(), &cfg.PodCIDR}} {
		for j, text := range r.of {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return status.Error(codes.Internal, err.Error())
			}
			if *r.to = p; j > 0 {
				cfg.SecondCIDRs[i] = p
			}
		}
	}
	p, err := m.world.Kubernetes.Form(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	m.world.planes[c.ID()] = p
	return nil
}

// plane is the control plane of the machine's cluster; nil: none. The world is locked.
func (m *Machine) plane() guest.Plane {
	if m.config == nil {
		return nil
	}
	return m.world.planes[m.config.Cluster().ID()]
}

func (m *Machine) name() string { return m.config.NetworkHostnameConfig().Hostname() }

// kubelet is the version of its kubelet.
func (m *Machine) kubelet() string {
	_, version, _ := strings.Cut(m.config.Machine().Kubelet().Image(), ":")
	return version
}

// holdVIP gives the cluster's address to a server whose etcd decides, if nobody has it.
func (m *Machine) holdVIP() {
	if m.board == nil || !m.isMember() || !m.decides() {
		return
	}
	for _, v := range m.config.NetworkVirtualIPConfigs() {
		if m.board.Network.Host(v.VIP()) == nil {
			m.board.Network.Register(v.VIP(), host{m})
		}
	}
}

// settle lets servers join the etcd of their cluster, and kubelets its control plane. The world is locked.
func (w *World) settle() {
	for _, address := range slices.Sorted(maps.Keys(w.machines)) {
		m := w.machines[address]
		m.join()
		p := m.plane()
		if p == nil {
			continue
		}
		m.holdVIP()
		if m.joined {
			continue
		}
		k := m.config.Machine().Kubelet()
		n := guest.Node{Name: m.name(), Role: "agent", Version: m.kubelet(), InternalIP: netip.MustParseAddr(address), BootID: fmt.Sprint("talos-", address, "-", m.boots), CPUs: 4, Memory: 8 << 30}
		if m.board != nil {
			n.CPUs, n.Memory = m.board.CPUs, m.board.Memory
		}
		if m.pods != nil {
			n.Run = m.pods.Container
		}
		if m.loadDriver() {
			n.GPUs = m.pods.GPUs
		}
		if m.isServer("etcd") == nil {
			n.Role = "server"
		}
		if ids := k.ExtraArgs()["provider-id"]; len(ids) > 0 {
			n.ProviderID = ids[0]
		}
		if labels := k.ExtraArgs()["node-labels"]; len(labels) > 0 {
			n.Labels = map[string]string{}
			for l := range strings.SplitSeq(labels[0], ",") {
				key, value, _ := strings.Cut(l, "=")
				n.Labels[key] = value
			}
		}
		taints, _ := k.ExtraConfig()["registerWithTaints"].([]any)
		for _, t := range taints {
			if t, ok := t.(map[string]any); ok {
				value, _ := t["value"].(string)
				n.Taints = append(n.Taints, t["key"].(string)+"="+value+":"+t["effect"].(string))
			}
		}
		m.joined = p.Join(context.Background(), n) == nil //nolint:forbidigo // a machine joins by itself, after the request that began it
	}
}
