package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/proxmox"
)

// Parts come after those that they need, and else in their order; those that need each
// other are named.
func TestOrderOfParts(t *testing.T) {
	part := func(name string, needs ...string) piece {
		return piece{Part: chart.Part{Name: name, Needs: needs}}
	}
	for _, c := range []struct {
		all  []piece
		want string
	}{
		{nil, ""}, {[]piece{part("b"), part("a")}, "b a"}, {[]piece{part("b", "a"), part("a")}, "a b"}, {[]piece{part("c", "b"), part("b", "a"), part("a"), part("d")}, "a d b c"},
		{[]piece{part("b", "nobody"), part("a")}, "b a"}, {[]piece{part("c", "a", "b"), part("a"), part("b")}, "a b c"},
		{[]piece{part("a", "b"), part("c"), part("b", "a")}, "parts wait for each other: a, b"}, {[]piece{part("a", "a")}, "parts wait for each other: a"},
	} {
		out, err := inOrder(c.all)
		if err != nil {
			assert.EqualError(t, err, c.want)
			continue
		}
		names := make([]string, len(out))
		for i, p := range out {
			names[i] = p.Name
		}
		assert.Equal(t, c.want, strings.Join(names, " "))
	}
}

// A node that wants GPUs goes where a mapping of ours has cards for it.
func TestMappingsThatAreThereChooseTheHost(t *testing.T) {
	for want, change := range map[string]func(n *Node, m *proxmox.MappingState){
		"pve2":        func(*Node, *proxmox.MappingState) {},
		AnyHost:       func(n *Node, _ *proxmox.MappingState) { n.GPUs.Count = 0 },
		AnyHost + "+": func(_ *Node, m *proxmox.MappingState) { m.Description = "somebody's" },
		AnyHost + "-": func(_ *Node, m *proxmox.MappingState) { m.Devices = nil },
		AnyHost + "=": func(_ *Node, m *proxmox.MappingState) { m.ID = "lab_other" },
		AnyHost + "*": func(_ *Node, m *proxmox.MappingState) { m.Devices[0].Host = "pve3" },
		"pve1":        func(n *Node, _ *proxmox.MappingState) { n.Host = "pve1" },
	} {
		s := &Spec{Name: "lab", Nodes: []Node{{Name: "other", Host: "pve1"}, {Name: "wk1", Host: AnyHost, GPUs: GPURequest{Count: 1}}}}
		m := proxmox.MappingState{Mapping: proxmox.Mapping{ID: "lab_wk1", Description: s.ourMapping(), Devices: []proxmox.MappedDevice{{Host: "pve2"}}}}
		change(&s.Nodes[1], &m)
		p := &placing{spec: s, rooms: []*room{{host: "pve1"}, {host: "pve2"}}}
		p.mapped(&proxmox.Ledger{Mappings: []proxmox.MappingState{m}})
		assert.Equal(t, strings.TrimRight(want, "+-=*"), s.Nodes[1].Host, want)
		assert.Equal(t, "pve1", s.Nodes[0].Host)
	}
}

// Of the charts, those count whose parts the file asks for.
func TestPartsThatAFileAsksFor(t *testing.T) {
	base := func(more string) []string { return parsed(t, fmt.Sprintf(edgeBase, "", ", gpus: 1", more)).partsOn() }
	none := base("")
	for more, want := range map[string]string{
		"storage: {nfs: 'srv:/a'}": "nfs", "storage: {longhorn: {replicas: 2}}": "longhorn", "monitoring: {gpus: false}": "monitoring",
		"storage: {cephfs: {clusterID: 01234567-0123-0123-0123-0123456789ab, fsName: a, user: b, key: env:K, monitors: ['10.0.0.41:6789']}}": "cephfs",
		"tls: {}": "cert-manager", "fleet: {standalone: true}": "fleet fleet-crd", "loadBalancer: {kind: metallb, addresses: [10.0.0.200-10.0.0.209]}": "metallb",
		"k3s: {cni: cilium}": "cilium", "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [ada]}}": "jupyterhub",
	} {
		assert.Equal(t, want, strings.Join(slices.DeleteFunc(base(more), func(p string) bool { return slices.Contains(none, p) }), " "), more)
	}
}

// A template that is half-made is told, and whether it is merely switched off.
func TestHalfMadeTemplatesAreTold(t *testing.T) {
	c, err := New(parsed(t, fmt.Sprintf(edgeBase, "", "", "")), Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	step, ok := c.templateStep("pve1").(*converge.Resource[templateSeen])
	require.True(t, ok)
	const off = "it is off"
	for _, tt := range []struct {
		template, running, begun, wanted bool
		says                             string
	}{
		{false, false, true, true, off}, {false, false, false, true, "half-made"}, {false, true, true, true, "half-made"}, {false, true, false, false, "half-made"}, {true, false, true, true, ""}, {true, false, false, false, ""},
	} {
		d := step.Diff(templateSeen{vm: &proxmox.Summary{Template: tt.template, Running: tt.running}, begun: tt.begun, wanted: tt.wanted}).String()
		assert.Equal(t, tt.says == off, strings.Contains(d, off), "%+v: %s", tt, d)
		assert.Equal(t, tt.says == "", d == "", "%+v: %s", tt, d)
	}
	assert.Empty(t, step.Diff(templateSeen{}))
	assert.NotEmpty(t, step.Diff(templateSeen{wanted: true}))
}
