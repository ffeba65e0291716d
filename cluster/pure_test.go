package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// People are told where to go, and which passwords were made for them.
func TestEntrancesAndPasswords(t *testing.T) {
	base := "name: lab\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\npools:\n  cp: {role: server, count: 1, addresses: [10.0.0.11], memory: 16GiB}\n"
	for more, want := range map[string]string{
		"": "[] []", "monitoring: {}": "[] [monitoring/grafana-admin/admin-password]", "monitoring: {hostname: g.lab.example}": "[monitoring=http://g.lab.example] [monitoring/grafana-admin/admin-password]",
		"monitoring: {hostname: g.lab.example}\ntls: {}":                          "[monitoring=https://g.lab.example] [monitoring/grafana-admin/admin-password]",
		"rancher: {hostname: r.lab.example}":                                      "[rancher=https://r.lab.example] [cattle-system/bootstrap-secret/bootstrapPassword]",
		"rancher: {hostname: r.lab.example, bootstrapPassword: env:P}":            "[rancher=https://r.lab.example] []",
		"hub: {hostname: h.lab.example, auth: {kind: native, admins: [teacher]}}": "[jupyterhub=http://h.lab.example] []",
		"hub: {hostname: h.lab.example, auth: dummy}\ntls: {}":                    "[jupyterhub=https://h.lab.example] [jupyterhub/hub-homelab/user-password jupyterhub/hub-homelab/admin-password]",
	} {
		c := &Cluster{site: &site{spec: fileOf(t, base+more)}}
		in, out := []string{}, []string{}
		for _, e := range c.Endpoints() {
			in = append(in, e.Part+"="+e.URL)
		}
		for _, p := range Passwords(c.site.spec) {
			out = append(out, p.Namespace+"/"+p.Name+"/"+p.Key)
		}
		assert.Equal(t, want, fmt.Sprint(in, " ", out), more)
		_, on := c.Hub()
		assert.Equal(t, strings.HasPrefix(more, "hub"), on)
	}
}

func TestSmallWords(t *testing.T) {
	for want, o := range map[string]GPUOwner{"104 win11, stopped": {VMID: 104, Name: "win11"}, "104 win11": {VMID: 104, Name: "win11", Running: true}, "104 win11, perhaps": {VMID: 104, Name: "win11", Running: true, Pooled: true}} {
		assert.Equal(t, want, o.String())
	}
}

// The one pool with GPUs, and whether an agent takes what bears no taint.
func TestPoolsOfTheFile(t *testing.T) {
	gpu := func(name, pool string, count int) spec.Node {
		return spec.Node{Name: name, Pool: pool, Role: spec.Agent, GPUs: spec.GPURequest{Count: count}}
	}
	for want, nodes := range map[string][]spec.Node{
		"a": {gpu("1", "a", 1), gpu("2", "a", 1), gpu("3", "b", 0)}, "": {gpu("1", "a", 1), gpu("2", "b", 1)}, "x": {gpu("x", "", 1)},
	} {
		assert.Equal(t, want, (&spec.Spec{Nodes: nodes}).OnlyGPUPool())
	}
	taint := func(effect string) []spec.Taint { return []spec.Taint{{Key: "a", Effect: effect}} }
	for _, tt := range []struct {
		node spec.Node
		want bool
	}{
		{spec.Node{Role: spec.Agent}, true}, {spec.Node{Role: spec.Server}, false}, {spec.Node{Role: spec.Agent, Taints: taint("NoSchedule")}, false}, {spec.Node{Role: spec.Agent, Taints: taint("NoExecute")}, false}, {spec.Node{Role: spec.Agent, Taints: taint("PreferNoSchedule")}, true},
	} {
		assert.Equal(t, tt.want, (&spec.Spec{Nodes: []spec.Node{tt.node}}).OpenAgents(), "%+v", tt.node)
	}
}

// Whose a card is: a VM's that has it or may get it, a node's that has no VM yet, or another
// cluster's.
func TestWhoseACardIs(t *testing.T) {
	c := &cards{&site{spec: &spec.Spec{Name: "lab"}}}
	mapping := func(id, description string) pci.MappingState {
		return pci.MappingState{Mapping: pci.Mapping{ID: id, Description: description}}
	}
	ledger := &pci.Ledger{Mappings: []pci.MappingState{mapping("lab_wk1", names.MappingNotePrefix+"lab"), mapping("lab_wk2", names.MappingNotePrefix+"other"), mapping("their_wk1", names.MappingNotePrefix+"their"), mapping("byhand", "mine")}}
	one, two := []proxmox.PCIAddress{{Bus: 1}}, []proxmox.PCIAddress{{Bus: 2}}
	claim := func(id int, slot, mapping string, running, template bool, choices ...[]proxmox.PCIAddress) pci.Claim {
		return pci.Claim{VMID: id, Name: fmt.Sprint("vm", id), Slot: slot, Mapping: mapping, Running: running, Template: template, Choices: choices}
	}
	for _, tt := range []struct {
		name string
		card pci.Card
		want GPUInfo
		vms  string
	}{
		{"nobody's", pci.Card{}, GPUInfo{}, ""},
		{"a node's without a VM", pci.Card{Mappings: []string{"lab_wk1"}}, GPUInfo{State: GPUOurs, Node: "wk1"}, ""},
		{"another cluster's of our name", pci.Card{Mappings: []string{"lab_wk2"}}, GPUInfo{State: GPUTaken}, ""},
		{"another cluster's", pci.Card{Mappings: []string{"their_wk1"}}, GPUInfo{State: GPUTaken}, ""},
		{"a mapping by hand", pci.Card{Mappings: []string{"byhand"}}, GPUInfo{}, ""},
		{"two mappings", pci.Card{Mappings: []string{"byhand", "lab_wk1"}}, GPUInfo{State: GPUOurs, Node: "wk1"}, ""},
		{"a template's", pci.Card{Claims: []pci.Claim{claim(104, "hostpci0", "", true, true, one), claim(105, "hostpci0", "", false, false, one)}}, GPUInfo{State: GPUTaken}, "105 vm105, stopped"},
		{"a VM's that runs", pci.Card{Claims: []pci.Claim{claim(104, "hostpci0", "", true, false, one)}}, GPUInfo{State: GPUTaken, Driver: vfio}, "104 vm104"},
		{"perhaps a VM's", pci.Card{Claims: []pci.Claim{claim(104, "hostpci0", "m", true, false, one, two), claim(104, "hostpci1", "m", true, false, one, two), claim(105, "hostpci0", "m", false, false, one, two)}},
			GPUInfo{State: GPUTaken}, "104 vm104, perhaps; 105 vm105, perhaps"},
		{"ours", pci.Card{Claims: []pci.Claim{claim(100, "hostpci0", "lab_vm100", true, false, one, two)}}, GPUInfo{State: GPUOurs, Node: "vm100", Driver: vfio}, "100 vm100"},
		{"ours, of a pool", pci.Card{Claims: []pci.Claim{claim(100, "hostpci0", "pool", true, false, one, two)}}, GPUInfo{State: GPUOurs, Node: "vm100"}, "100 vm100, perhaps"},
	} {
		var info GPUInfo
		c.enterOwners(&info, tt.card, ledger, map[int]bool{100: true})
		var who []string
		for _, o := range info.Owners {
			who = append(who, o.String())
		}
		assert.Equal(t, tt.vms, strings.Join(who, "; "), tt.name)
		assert.Len(t, info.VMs, len(who), tt.name)
		assert.Equal(t, tt.want, GPUInfo{State: info.State, Node: info.Node, Driver: info.Driver}, tt.name)
	}
}

func TestLocalEndpoints(t *testing.T) {
	for endpoint, want := range map[string]bool{"127.0.0.1:8006": true, "[::1]:8006": true, "localhost:41001": true, "10.0.0.5:8006": false, "pve1:8006": false, "": false} {
		assert.Equal(t, want, local(endpoint), endpoint)
	}
}
