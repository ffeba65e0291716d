// Package eighta100 has the cluster of cluster.yaml as a Go value, for programs that make clusters.
package eighta100

import (
	"net/netip"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Spec returns the cluster. It is to be completed: cluster.Complete fills in the defaults, makes
// the nodes of the pools, and checks everything, as reading the file does.
func Spec() *spec.Spec {
	return &spec.Spec{
		Name: "eight-a100",
		Proxmox: spec.Proxmox{
			Endpoint: spec.Lab, Host: "pve1",
			Hosts: []spec.Host{{Name: "pve1", Memory: spec.TiB, GPUs: 8, Storage: map[string]spec.Size{"vmdata": 2 * spec.TiB}}},
		},
		Network: spec.Network{Bridge: "vmbr0", Prefix: netip.MustParsePrefix("10.0.0.0/24"), Gateway: addr("10.0.0.1"), DNS: []netip.Addr{addr("10.0.0.1")}},
		K3s: spec.K3s{
			Version: "v1.36.5+k3s1",
			Kubernetes: spec.Kubernetes{
				VIP:     addr("10.0.0.100"),
				PodCIDR: spec.Ranges{netip.MustParsePrefix("10.42.0.0/16")}, ServiceCIDR: spec.Ranges{netip.MustParsePrefix("10.43.0.0/16")},
			},
		},
		Defaults: spec.Shape{Node: spec.Node{Storage: "vmdata"}},
		Pools: []spec.Pool{{
			Name: "cp", Count: 3, Addresses: []spec.AddressRange{{From: addr("10.0.0.11"), To: addr("10.0.0.13")}},
			Shape: spec.Shape{Node: spec.Node{Role: spec.Server, Cores: 4, Memory: 16 * spec.GiB, Disks: []spec.Disk{disk("os", 50*spec.GiB, "")}}},
		}, {
			Name: "wk-gpu", Count: 4, Addresses: []spec.AddressRange{{From: addr("10.0.0.21"), To: addr("10.0.0.24")}},
			Shape: spec.Shape{Node: spec.Node{
				Role: spec.Agent, Cores: 16, Memory: 128 * spec.GiB, GPUs: spec.GPURequest{Count: 2, Model: "A100"},
				Disks:  []spec.Disk{disk("os", 100*spec.GiB, ""), disk("scratch", 200*spec.GiB, "/scratch")},
				Labels: map[string]string{"homelab.example/pool": "gpu"},
			}},
		}},
		Platform: platform(),
	}
}

func platform() spec.Platform {
	return spec.Platform{
		Storage: spec.Storage{
			NFS:     &spec.NFS{Server: "10.0.0.30", Export: "/export/k3s", Shares: []spec.Share{{Name: "datasets", Export: "/export/datasets", ReadOnly: true}}},
			Scratch: &spec.Scratch{},
		},
		LB: &spec.LoadBalancer{
			Addresses: []spec.AddressPool{{From: addr("10.0.0.200"), To: addr("10.0.0.219")}},
			Reserved:  map[string]netip.Addr{"ingress": addr("10.0.0.200")},
		},
		TLS:        &spec.TLS{Source: spec.TLSSelfSigned},
		Rancher:    &spec.Rancher{Hostname: "rancher.lab.example"},
		Monitoring: &spec.Monitoring{Hostname: "grafana.lab.example", Retention: 30 * 24 * time.Hour},
		Hub: &spec.Hub{
			Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy},
			Profiles: []spec.HubProfile{
				{Name: "cpu", Title: "CPU", CPU: spec.CPU{Guarantee: 0.5, Limit: 2}, Memory: spec.Memory{Guarantee: 2 * spec.GiB, Limit: 4 * spec.GiB}, Pool: "wk-gpu"},
				{Name: "gpu-1", Title: "1 GPU", CPU: spec.CPU{Guarantee: 4, Limit: 8}, Memory: spec.Memory{Guarantee: 24 * spec.GiB, Limit: 60 * spec.GiB}, GPUs: 1, Pool: "wk-gpu"},
				{Name: "gpu-2", Title: "2 GPUs", CPU: spec.CPU{Guarantee: 8, Limit: 15}, Memory: spec.Memory{Guarantee: 48 * spec.GiB, Limit: 120 * spec.GiB}, GPUs: 2, Pool: "wk-gpu"},
			},
			Home: spec.HubHome{Size: 50 * spec.GiB}, Shared: []spec.HubShare{{Name: "datasets", Path: "/data"}},
			Scratch: &spec.HubScratch{Size: 200 * spec.GiB}, Cull: spec.HubCull{Idle: 2 * time.Hour},
		},
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func disk(name string, size spec.Size, mount string) spec.Disk {
	return spec.Disk{Name: name, DiskOptions: spec.DiskOptions{Size: size}, Mount: mount}
}
