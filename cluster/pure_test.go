package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/spec"
)

// Two machines of one template that was not sealed are told apart, in whatever order.
func TestTwinsAreMet(t *testing.T) {
	for _, tt := range []struct {
		a, b identity
		want string
	}{
		{identity{"1", "x"}, identity{"2", "y"}, ""}, {identity{"", ""}, identity{"", ""}, ""}, {identity{"1", ""}, identity{"", ""}, ""}, {identity{"", "x"}, identity{"1", ""}, ""},
		{identity{"1", "x"}, identity{"1", "y"}, "a and b have the same machine-id, 1: "}, {identity{"1", "x"}, identity{"2", "x"}, "a and b have the same SSH host key: "}, {identity{"1", "x"}, identity{"1", "x"}, "machine-id"},
	} {
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			var all identities
			require.NoError(t, all.addNode(names[0], tt.a))
			require.NoError(t, all.addNode(names[0], tt.a), "it is itself")
			err := all.addNode(names[1], tt.b)
			assert.Equal(t, tt.want == "", err == nil, "%v", err)
			if err != nil {
				assert.Contains(t, err.Error(), tt.want)
			}
			assert.Equal(t, err == nil, all.known(names[1]))
		}
	}
}

// People are told where to go, and which passwords were made for them.
func TestEntrancesAndPasswords(t *testing.T) {
	base := "name: lab\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\npools:\n  cp: {role: server, count: 1, addresses: [10.0.0.11], memory: 16GiB}\n"
	for more, want := range map[string]string{
		"": "[] []", "monitoring: {}": "[] [monitoring/grafana-admin/admin-password]", "monitoring: {hostname: g.lab.example}": "[monitoring=http://g.lab.example] [monitoring/grafana-admin/admin-password]",
		"monitoring: {hostname: g.lab.example}\ntls: {}":                      "[monitoring=https://g.lab.example] [monitoring/grafana-admin/admin-password]",
		"rancher: {hostname: r.lab.example}":                                  "[rancher=https://r.lab.example] [cattle-system/bootstrap-secret/bootstrapPassword]",
		"rancher: {hostname: r.lab.example, bootstrapPassword: env:P}":        "[rancher=https://r.lab.example] []",
		"hub: {hostname: h.lab.example, auth: {kind: native, admins: [ada]}}": "[jupyterhub=http://h.lab.example] []",
		"hub: {hostname: h.lab.example, auth: dummy}\ntls: {}":                "[jupyterhub=https://h.lab.example] [jupyterhub/hub-homelab/user-password jupyterhub/hub-homelab/admin-password]",
	} {
		c := &Cluster{spec: fileOf(t, base+more)}
		in, out := []string{}, []string{}
		for _, e := range c.Entrances() {
			in = append(in, e.Part+"="+e.URL)
		}
		for _, p := range c.Passwords() {
			out = append(out, p.Namespace+"/"+p.Name+"/"+p.Key)
		}
		assert.Equal(t, want, fmt.Sprint(in, " ", out), more)
		_, on := c.Hub()
		assert.Equal(t, strings.HasPrefix(more, "hub"), on)
	}
}

func TestSmallWords(t *testing.T) {
	assert.Equal(t, "az09azx", lower("AZ09az-_/x{`@[:"))
	for want, c := range map[string]contents{
		"": {}, "x.img": {Image: "x.img"}, "K3s v1": {K3s: "v1"}, "K3s v1, driver 580, toolkit 1, on x.img": {Image: "x.img", K3s: "v1", Driver: "580", Toolkit: "1"},
	} {
		assert.Equal(t, want, c.String())
		if want != "" {
			said := readContents(fmt.Sprintf("- image: %s\n- K3s: no\nk3s: %s\n - driver: %s\ntoolkit: %s", c.Image, c.K3s, c.Driver, c.Toolkit))
			c.Packages = []string{}
			assert.Equal(t, c, said)
		}
	}
	for want, o := range map[string]GPUOwner{"104 win11, stopped": {VMID: 104, Name: "win11"}, "104 win11": {VMID: 104, Name: "win11", Running: true}, "104 win11, perhaps": {VMID: 104, Name: "win11", Running: true, Pooled: true}} {
		assert.Equal(t, want, o.String())
	}
	own := &spec.Spec{NVIDIA: spec.NVIDIA{Sharing: spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 4}}}
	for want, s := range map[string]spec.Sharing{asCluster: {Strategy: spec.SharingTimeSlicing, Replicas: 4}, "time-slicing-2": {Strategy: spec.SharingTimeSlicing, Replicas: 2}, "mps-4": {Strategy: spec.SharingMPS, Replicas: 4}, "none": {Strategy: spec.SharingNone}, "mps": {Strategy: spec.SharingMPS, Replicas: 1}} {
		assert.Equal(t, want, sharingName(own, s))
	}
	assert.Equal(t, nvidia.MPS, pluginOptions(own, spec.Sharing{Strategy: spec.SharingMPS, Replicas: 3}, "mps-3").Sharing)
	assert.Equal(t, nvidia.PluginName+"-mps-3", pluginOptions(own, spec.Sharing{Strategy: spec.SharingMPS, Replicas: 3}, "mps-3").Name)
	assert.Empty(t, pluginOptions(own, spec.Sharing{}, asCluster).Name)
	for in, want := range map[string]map[string]diskSeen{
		"a absent": {"a": {}}, "a present ext4 /a kept small\nb present - - no ok": {"a": {present: true, fs: "ext4", at: "/a", kept: true, small: true}, "b": {present: true}}, "a here": nil, "a present ext4": nil, "a b c d e f": nil, "a absent x": nil,
	} {
		got, err := parseDisks(in)
		assert.Equal(t, want != nil, err == nil, in)
		assert.Equal(t, want, got, in)
	}
	for in, want := range map[string][]string{"lab_wk1-0123-4567.iso": {"wk1", "0123-4567"}, "x_0123.iso": {"0123", ""}, "local:iso/a_b_c-d.iso": {"c", "d"}} {
		content, keys := seedParts(in)
		assert.Equal(t, want, []string{content, keys}, in)
	}
}

// A machine that becomes a template is as large as the host's largest node, and no larger
// than that takes.
func TestHowLargeABakeIs(t *testing.T) {
	node := func(host string, cores int, memory spec.Size, external bool) spec.Node {
		return spec.Node{Name: "n", Host: host, Cores: cores, Memory: memory, External: external}
	}
	s := &spec.Spec{Nodes: []spec.Node{node("pve1", 2, 2*spec.GiB, false), node("pve1", 1, 3*spec.GiB, false), node("pve2", 64, 64*spec.GiB, false), node("pve1", 64, 64*spec.GiB, true), node("", 64, 64*spec.GiB, true)}}
	cores, memory := bakeShape(s, "pve1")
	assert.Equal(t, []any{2, 3 * spec.GiB}, []any{cores, memory})
	cores, memory = bakeShape(s, "pve2")
	assert.Equal(t, []any{bakeCores, bakeMemory}, []any{cores, memory})
	assert.Equal(t, 4*spec.GiB, bakeMemory)
}

// The one pool with GPUs, and whether an agent takes what bears no taint.
func TestPoolsOfTheFile(t *testing.T) {
	gpu := func(name, pool string, count int) spec.Node {
		return spec.Node{Name: name, Pool: pool, Role: spec.Agent, GPUs: spec.GPURequest{Count: count}}
	}
	for want, nodes := range map[string][]spec.Node{
		"a": {gpu("1", "a", 1), gpu("2", "a", 1), gpu("3", "b", 0)}, "": {gpu("1", "a", 1), gpu("2", "b", 1)}, "x": {gpu("x", "", 1)},
	} {
		assert.Equal(t, want, platform.OnlyGPUPool((&spec.Spec{Nodes: nodes})))
	}
	taint := func(effect string) []spec.Taint { return []spec.Taint{{Key: "a", Effect: effect}} }
	for _, tt := range []struct {
		node spec.Node
		want bool
	}{
		{spec.Node{Role: spec.Agent}, true}, {spec.Node{Role: spec.Server}, false}, {spec.Node{Role: spec.Agent, Taints: taint("NoSchedule")}, false}, {spec.Node{Role: spec.Agent, Taints: taint("NoExecute")}, false}, {spec.Node{Role: spec.Agent, Taints: taint("PreferNoSchedule")}, true},
	} {
		assert.Equal(t, tt.want, platform.OpenAgents((&spec.Spec{Nodes: []spec.Node{tt.node}})), "%+v", tt.node)
	}
}

// A part whose volumes are in use stays, and whose they are is said.
func TestVolumesThatHoldAPart(t *testing.T) {
	volume := func(class, phase, claim string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"storageClassName": class, "claimRef": map[string]any{"namespace": "hub", "name": claim}}, "status": map[string]any{"phase": phase},
		}}
	}
	r := record{Part: "nfs", Classes: []string{"nfs", "fast"}}
	require.NoError(t, r.heldBy(nil))
	require.NoError(t, r.heldBy([]unstructured.Unstructured{volume("other", "Bound", "a"), volume("nfs", "Released", "b"), volume("fast", "Available", "c")}))
	var all []unstructured.Unstructured
	for i := range 6 {
		all = append(all, volume("other", "Bound", "x"), volume([]string{"nfs", "fast"}[i%2], "Bound", fmt.Sprint("c", i)))
	}
	for n, want := range map[int]string{2: "hub/c0: move", 10: "hub/c0, hub/c1, hub/c2, hub/c3, hub/c4: move", 12: "hub/c0, hub/c1, hub/c2, hub/c3, hub/c4 and 1 more: move"} {
		err := r.heldBy(all[:n])
		require.ErrorAs(t, err, new(inUse))
		assert.ErrorContains(t, err, "part nfs is no longer in the file but stays: volumes of nfs, fast are in use and could not be mounted without it: "+want)
	}
}

// Whose a card is: a VM's that has it or may get it, a node's that has no VM yet, or another
// cluster's.
func TestWhoseACardIs(t *testing.T) {
	c := &Cluster{spec: &spec.Spec{Name: "lab"}}
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
