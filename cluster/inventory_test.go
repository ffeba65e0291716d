package cluster

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

func gpus(counts map[string]int64) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	for name, n := range counts {
		list[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return list
}

// A notebook and a training hold three of a node's four GPUs.
func TestWhoHoldsTheGPUsOfAMachine(t *testing.T) {
	want := &spec.Spec{Name: "lab", Nodes: []spec.Node{{Name: "wk1", Role: spec.Agent, Host: "pve1", GPUs: spec.GPURequest{Count: 4}}}}
	vms := []proxmox.Summary{{Name: "wk1", VMID: 104, Host: "pve1", Running: true}}
	nodes := []kube.Node{{Name: "wk1", Ready: true, Version: "v1.36.5+k3s1", Allocatable: gpus(map[string]int64{"nvidia.com/gpu": 4})}}
	holders := []kube.Holder{
		{Namespace: "jupyterhub", Pod: "jupyter-teacher", User: "teacher", Node: "wk1", Resource: "nvidia.com/gpu", Count: 1},
		{Namespace: "training", Pod: "llm-0", Node: "wk1", Resource: "nvidia.com/gpu", Count: 2},
	}
	m := joinMachines(want, seenVMs(vms), nodes, holders)[0]
	assert.Equal(t, "wk1 is VM 104 on pve1: 3 of 4 GPUs held by jupyterhub/teacher, training/llm-0 (2)",
		fmt.Sprintf("%s is VM %d on %s: %d of %d %s held by %s", m.Name, m.VMID, m.Host, m.GPUs.Used, m.GPUs.Total, m.GPUs.Unit, m.GPUs.HoldersText()))
}

func TestMachinesAreJoined(t *testing.T) {
	share := spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 5}
	want := &spec.Spec{Nodes: []spec.Node{
		{Name: "cp1", Role: spec.Server, Host: "pve1", Address: netip.MustParsePrefix("10.0.0.11/24")},
		{Name: "shared", Role: spec.Agent, GPUs: spec.GPURequest{Count: 2, Sharing: share}},
		{Name: "mig", Role: spec.Agent, External: true, GPUs: spec.GPURequest{Count: 1}},
	}}
	got := joinMachines(want, seenVMs([]proxmox.Summary{{Name: "cp1", VMID: 100, Host: "pve2"}, {Name: "mig", VMID: 7}, {Name: "shared", VMID: 8, Template: true}}), []kube.Node{
		{Name: "shared", Reason: "KubeletNotReady: no runtime", Cordoned: true, Allocatable: gpus(map[string]int64{"nvidia.com/gpu": 10})},
		{Name: "mig", Ready: true, InternalIP: netip.MustParseAddr("10.0.0.9"), Allocatable: gpus(map[string]int64{"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1, "nvidia.com/gpu": 0})},
		{Name: "unknown", Ready: true},
	}, []kube.Holder{{Namespace: "a", Pod: "p", Node: "mig", Count: 1}, {Namespace: "a", Pod: "p", Node: "mig", Count: 1}, {Namespace: "a", Pod: "p", Node: "elsewhere", Count: 1}})
	if !assert.Len(t, got, 3) {
		return
	}
	assert.Equal(t, Machine{Name: "cp1", Role: spec.Server, Host: "pve2", VMID: 100, Made: true, Address: netip.MustParseAddr("10.0.0.11")}, got[0], "it was moved")
	assert.Equal(t, "shares", got[1].GPUs.Unit)
	assert.Equal(t, 10, got[1].GPUs.Total)
	assert.True(t, got[1].Joined && !got[1].Ready && got[1].Cordoned)
	assert.Zero(t, got[1].VMID, "a template is not the machine")
	assert.Zero(t, got[2].VMID, "a VM of that name is not the external machine")
	assert.Equal(t, "10.0.0.9", got[2].Address.String())
	assert.Equal(t, "1g.5gb and 3g.20gb", got[2].GPUs.Unit)
	assert.Equal(t, 3, got[2].GPUs.Total)
	assert.Equal(t, 2, got[2].GPUs.Used)
	assert.Equal(t, "a/p (2)", got[2].GPUs.HoldersText())
}
