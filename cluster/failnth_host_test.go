package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// refuse refuses a request as Proxmox does.
func refuse(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusForbidden, Status: "403 " + kubetest.Refusal, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(`{"data":null,"message":"` + kubetest.Refusal + `"}`))}
}

// failingHostsFile is a file whose nodes are on two hosts, and are not made yet.
const failingHostsFile = `
name: pair
proxmox: {endpoint: lab, host: HOST, hosts: {pve1: {}, pve2: {}}}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
image: {template: ubuntu}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 2, memory: 4GiB}
  wk1: {role: agent, address: 10.0.0.21, cores: 8, memory: 32GiB, gpus: 1}
`

// Every request that a host refuses fails the look that asks, and it says with what.
func TestProxmoxRefusesALook(t *testing.T) {
	for name, tt := range map[string]struct {
		host    string // where the file puts its nodes
		look    func(ctx context.Context, c inside) error
		canLose []string // requests whose refusal does not fail it
	}{
		"hosts are chosen": {host: spec.AnyHost, look: func(ctx context.Context, c inside) error {
			return kubetest.ErrOf(placement.PlaceOnce(ctx, c.spec, c.Proxmox))
		}},
		"hosts are chosen, with patience": {host: spec.AnyHost, look: func(ctx context.Context, c inside) error {
			return kubetest.ErrOf(placement.Place(ctx, c.spec, c.Proxmox))
		}},
		"templates are listed": {host: "pve1", look: func(ctx context.Context, c inside) error {
			all, err := c.templates.List(ctx)
			if err == nil && (len(all) != 1 || all[0].State != templates.Theirs || !slices.Equal(all[0].Nodes, []string{"clone"})) {
				return members.ErrNoServer
			}
			return err
		}},
		"a template is found":                 {host: "pve1", look: func(ctx context.Context, c inside) error { return c.templates.CheckSources(ctx) }},
		"a template of another host is found": {host: "pve2", look: func(ctx context.Context, c inside) error { return c.templates.CheckSources(ctx) }},
		"cards are listed":                    {host: "pve1", look: func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.GPUs(ctx)) }},
		"strays are looked for":               {host: "pve1", look: func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.Strays(ctx)) }},
		"what is no longer in the file":       {host: "pve1", look: func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.removedStep().Observe(ctx)) }},
		"what lies about": {host: "pve1", look: func(ctx context.Context, c inside) error {
			return kubetest.ErrOf(c.unneededOnHosts(ctx, c.neededByFile))
		}},
		"what lies about at the end": {host: "pve1", look: func(ctx context.Context, c inside) error {
			return kubetest.ErrOf(c.unneededOnHosts(ctx, func(context.Context, string) (neededFiles, error) { return neededFiles{nothing: true}, nil }))
		}},
		"whether all is settled": {host: "pve1", look: func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.allMachinesAsFile(ctx)) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for at := 0; ; at++ {
					c, way, closed := failingHosts(t, tt.host)
					way.On, way.At = true, at
					err := tt.look(t.Context(), c)
					closed()
					if at == 0 {
						require.NoError(t, err)
						continue
					}
					if at > len(way.Seen) {
						break
					}
					if what := fmt.Sprint(at, " ", way.Seen[at-1]); !slices.Contains(tt.canLose, what) {
						assert.ErrorContains(t, err, kubetest.Refusal, "request %s", what)
					}
				}
			})
		})
	}
}

// failingHosts is a cluster with two hosts that share a storage, on which there is a template of
// somebody's with one clone.
func failingHosts(t *testing.T, host string) (inside, *kubetest.FailNth, func()) {
	t.Helper()
	model := pvesim.TwoHosts()
	for i := range model.Hosts {
		model.Hosts[i].Storages = append(model.Hosts[i].Storages, pvesim.Storage{Name: "both", Type: "nfs", Content: []string{"images"}, Size: pvesim.TiB, Shared: true})
	}
	model.VMs = []pvesim.VM{
		{ID: 100, Node: "pve1", Name: "ubuntu", Config: map[string]string{"template": "1", "ostype": "l26", "bios": "ovmf", "scsihw": "virtio-scsi-single", "boot": "order=scsi0",
			"efidisk0": "both:100/base-100-disk-1.raw,efitype=4m,size=528K", "scsi0": "both:100/base-100-disk-0.raw,size=4G"}},
		{ID: 101, Node: "pve1", Name: "clone", Config: map[string]string{"scsi0": "both:100/base-100-disk-0.raw/101/vm-101-disk-0.qcow2,size=4G"}},
	}
	sim := pvesim.New(model, pvesim.Options{})
	way := &kubetest.FailNth{Next: sim.Client().Transport, Answer: refuse}
	id, token := sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: way}})
	require.NoError(t, err)
	file := fileOf(t, strings.ReplaceAll(failingHostsFile, "HOST", host))
	one := &site{spec: file, Backend: Backend{Proxmox: pve}} // which New refuses while a node may be on any host
	c, stop := inside{&Cluster{one.Backend, one}, &flow{machines{holdings{cards{one}}}}}, func() {}
	if host != spec.AnyHost {
		private, _, err := ssh.GenerateKey()
		require.NoError(t, err)
		signer, err := ssh.ParseSigner(private)
		require.NoError(t, err)
		cluster, err := New(file, Backend{Dir: t.TempDir(), Proxmox: pve, Signers: []ssh.Signer{signer}})
		require.NoError(t, err)
		c, stop = insideOf(cluster), cluster.Close
	}
	return c, way, func() { stop(); sim.Close() }
}
