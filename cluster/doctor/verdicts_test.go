package doctor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
	"github.com/cps-gpu/homelab/proxmox"
)

// TestVerdicts: what is seen, and all that is said about it.
func TestVerdicts(t *testing.T) {
	pod := func(meta, spec, status string) func(*doctor.Evidence) {
		return func(e *doctor.Evidence) {
			e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", "metadata: {namespace: team, "+meta+"}\nspec: {"+spec+"}\nstatus: "+status+"\n"))
		}
	}
	storage := func(s proxmox.Storage) func(*doctor.Evidence) {
		return func(e *doctor.Evidence) { e.Hosts[0].Storages = []proxmox.Storage{s} }
	}
	pending := func(message string) string {
		return `{phase: Pending, conditions: [{type: PodScheduled, status: "False", message: "` + message + `"}]}`
	}
	waiting := func(image, reason, message string) string {
		return "{phase: Pending, containerStatuses: [{name: c, image: \"" + image + "\", state: {waiting: {reason: " + reason + ", message: \"" + message + "\"}}}]}"
	}
	const (
		plain  = "containers: [{name: c, image: i}]"
		onGPU  = "nodeName: gpu1, " + plain
		full   = ": a VM pauses when its storage has no room [remove what is not needed from vmdata, for example old backups, or let discarded blocks go: fstrim -a in the VMs]"
		crash  = "error pod-crashing of pod team/p: container c "
		asks   = "containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]"
		cannot = "error gpus-not-offered of node gpu1: it offers 0 of 2 nvidia.com/gpu [is the device plugin on it? kubectl -n "
		toler  = " get pods -o wide; it needs the driver, the toolkit, and a toleration for the node's taints]"
	)
	attach := func(proxmox bool, message string) func(*doctor.Evidence) {
		return func(e *doctor.Evidence) {
			pod("name: p", onGPU, "{phase: Pending}")(e)
			for i, said := range []string{"reason: FailedAttachVolume\nmessage: '" + message + "'", "reason: FailedMount\nmessage: timed out"} {
				e.Objects["Event"] = append(e.Objects["Event"], object("Event", fmt.Sprintf("metadata: {name: e%d, namespace: team}\ntype: Warning\nlastTimestamp: '2026-11-23T19:5%d:00Z'\n", i, i)+said+"\ninvolvedObject: {kind: Pod, namespace: team, name: p}\n"))
			}
			if proxmox {
				e.Spec.Platform.Storage.Proxmox = &spec.ProxmoxCSI{Storage: "vmdata", TokenID: "homelab@pve!csi"}
			}
		}
	}
	const unattached = "error attach of pod team/p: its volume is not attached to gpu1: "
	lost := errors.New("lost")
	two := func(e *doctor.Evidence) {
		e.Machines[1].GPUs.Count, e.Machines[1].Driver.SMI.GPUs = 2, make([]nvidia.SMIGPU, 2)
	}
	for _, x := range []struct {
		name string
		harm func(*doctor.Evidence)
		want []string
	}{
		{"a storage that is switched off", storage(proxmox.Storage{Name: "vmdata"}), nil},
		{"a storage without a size", storage(proxmox.Storage{Name: "vmdata", Enabled: true, Active: true}), nil},
		{"a storage that fills", storage(proxmox.Storage{Name: "vmdata", Enabled: true, Active: true, Total: 100 << 30, Free: 10 << 30}), []string{"warning storage-full of host pve1: storage vmdata is 90 % full" + full}},
		{"a storage that is full", storage(proxmox.Storage{Name: "vmdata", Enabled: true, Active: true, Total: 100 << 30, Free: 5 << 30}), []string{"error storage-full of host pve1: storage vmdata is 95 % full" + full}},
		{"a storage with room", storage(proxmox.Storage{Name: "vmdata", Enabled: true, Active: true, Total: 100 << 30, Free: 11 << 30}), nil},
		{"a host without machines", func(e *doctor.Evidence) { e.Hosts = append(e.Hosts, doctor.Host{Name: "pve2"}) },
			[]string{"error host-offline of host pve2: it is offline, and so is every VM on it [switch it on, or look at its console and network]"}},
		{"an external machine has no VM", func(e *doctor.Evidence) { e.Machines[1].External, e.Machines[1].VM = true, nil }, nil},
		{"a machine that nobody asked about", func(e *doctor.Evidence) { e.Machines[1].Asked, e.Machines[1].VM = false, nil }, nil},
		{"a disk that fills", func(e *doctor.Evidence) { e.Machines[1].State.Disks[0].Percent = 90 },
			[]string{"warning disk-full of gpu1: / is 90 % full: below 5 % free, the kubelet evicts pods [remove what is not needed, or write a larger size for the disk and run cluster:up; images that no pod uses: k3s crictl rmi --prune]"}},
		{"a bundle of another cluster", func(e *doctor.Evidence) {
			e.Fleet = []*fleet.State{{Name: "homelab", There: true, Bundles: []fleet.BundleState{{Name: "hub", Cluster: "edge", State: "Modified"}}}}
		}, []string{"warning fleet-bundle of bundle hub@edge: Modified [bring the change into Git, or undo it: it is reported and not corrected]"}},
		{"an external machine is divided by its owner", func(e *doctor.Evidence) { e.Machines[1].External = true; harms()["mig-layout"](e) },
			[]string{"error mig-layout of gpu1: its GPUs are not divided as in the file: GPU 0 is in MIG mode, with 0 instances [divide them on the machine and at its every boot, since it is external: docs/mig.md]"}},
		{"the operator's plugin", func(e *doctor.Evidence) {
			e.Spec.NVIDIA.Stack = spec.StackOperator
			two(e)
			e.Nodes[1].Allocatable = nil
		}, []string{cannot + "gpu-operator" + toler}},
		{"a taint of the file", func(e *doctor.Evidence) {
			two(e)
			e.Machines[1].Taints = []spec.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
			e.Nodes[1].Allocatable, e.Nodes[1].Taints = nil, []kube.Taint{{Key: "dedicated"}, {Key: "node.kubernetes.io/not-ready"}, {Key: "nvidia.com/gpu"}}
		}, []string{cannot + "nvidia-device-plugin" + toler}},
		{"K3s says why it is down", func(e *doctor.Evidence) {
			stops(e, 1, "failed")
			f, _ := k3s.Diagnose([]string{`level=fatal msg="Error: Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry"`})
			k := &e.Machines[1].Kubernetes
			k.Cause, k.Cure, k.Line = f.Cause, f.Cure, f.Line
		}, nil},
		{"an API that is down", func(e *doctor.Evidence) { e.API = lost; stops(e, 0, "failed") }, []string{
			"error k3s-down of cp1: K3s does not run [journalctl -u k3s on cp1]",
			"error api-down of Kubernetes: its API does not answer, so nodes and pods were not looked at [look at the servers first: K3s must run on more than half of them] <- k3s-down of cp1"}},
		{"an API that is down, and an agent", func(e *doctor.Evidence) { e.API = lost; stops(e, 1, "failed") }, []string{
			"error k3s-down of gpu1: K3s does not run [journalctl -u k3s-agent on gpu1]",
			"error api-down of Kubernetes: its API does not answer, so nodes and pods were not looked at [look at the servers first: K3s must run on more than half of them]"}},
		{"two pods of one owner", func(e *doctor.Evidence) {
			for _, name := range []string{"p", "q"} {
				pod("name: "+name+", ownerReferences: [{apiVersion: v1, kind: ReplicaSet, name: r, uid: u}]", plain, waiting("i", "CreateContainerError", "no x"))(e)
			}
		}, []string{"error pod-not-starting of pod team/p: container c cannot be made: no x (and 1 more pod of the same owner) [the message names what is missing]"}},
		{"a pod that is done", pod("name: p", plain, "{phase: Succeeded, reason: Evicted}"), nil},
		{"a pod whose node refused it", pod("name: p", onGPU, `{phase: Failed, reason: UnexpectedAdmissionError, message: "Allocate failed due to rpc"}`), []string{"error pod-not-starting of pod team/p: its node refused it: Allocate failed due to rpc " +
			"[where GPUs are shared, a container gets one share: ask for 1 (docs/sharing.md); elsewhere the node has lost a GPU: homelab gpu:verify]"}},
		{"another refusal", pod("name: p", onGPU, `{phase: Failed, reason: UnexpectedAdmissionError, message: "other"}`), nil},
		{"a volume that another node has", attach(false, "Multi-Attach error for volume x"), []string{unattached + "Multi-Attach error for volume x [another node still has it: it comes when the pod there has ended; if that node is lost, see that its machine is off, then kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute]"}},
		{"another driver", attach(false, "rpc error: no"), []string{unattached + "rpc error: no [the evidence says what the storage driver waits for]"}},
		{"a driver that does not run", attach(true, "timed out waiting for external-attacher of csi.proxmox.sinextra.dev"), []string{unattached + "timed out waiting for external-attacher of csi.proxmox.sinextra.dev [does the driver run on that node, and its controller? kubectl -n csi-proxmox get pods -o wide]"}},
		{"a driver's token", attach(true, "rpc error: not authorized to access endpoint"), []string{unattached + "rpc error: not authorized to access endpoint [the token 'homelab@pve!csi' is wrong or lacks privileges: homelab host:role prints what it needs]"}},
		{"a driver's authority", attach(true, "rpc error: x509: unknown"), []string{unattached + "rpc error: x509: unknown [the driver does not trust the host's certificate: write ca: under storage.proxmox, with a copy of /etc/pve/pve-root-ca.pem]"}},
		{"a machine full of disks", attach(true, "rpc error: no free lun found"), []string{unattached + "rpc error: no free lun found [the machine has a disk in every SCSI slot: move pods to another node]"}},
		{"a machine that the driver does not find", attach(true, "rpc error: VM machine not found"), []string{unattached + "rpc error: VM machine not found [the driver finds no machine of that node: does its token see it (VM.Audit on /vms), and does the node have the ID of its machine (kubectl get node -o yaml, spec.providerID)?]"}},
		{"anything else of the driver's", attach(true, "rpc error: task failed"), []string{unattached + "rpc error: task failed [kubectl -n csi-proxmox logs deploy/proxmox-csi-controller: does it reach the host, and does the volume exist (pvesm list vmdata --vmid 9999)?]"}},
		{"a pod that waits silently", pod("name: p", onGPU, "{phase: Pending}"), nil},
		{"a pod that says what it waits for", func(e *doctor.Evidence) {
			pod("name: p", onGPU, "{phase: Pending}")(e)
			warning(e, "Pod", "p", "secret x not found")
			warning(e, "Pod", "q", "other")
		},
			[]string{"error pod-not-starting of pod team/p: it does not start: Failed: secret x not found [the evidence says what it waits for]"}},
		{"a pod without a runtime", func(e *doctor.Evidence) {
			pod("name: p", onGPU, "{phase: Pending}")(e)
			warning(e, "Pod", "p", `'no runtime for "nvidia" is configured'`)
		},
			[]string{"error toolkit of pod team/p: it does not start: Failed: no runtime for \"nvidia\" is configured [the container toolkit came after K3s had started on gpu1: homelab cluster:up restarts it]"}},
		{"a GPU that is not offered", func(e *doctor.Evidence) {
			two(e)
			e.Nodes[1].Allocatable = nil
			pod("name: p", asks, pending("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."))(e)
		}, []string{cannot + "nvidia-device-plugin" + toler, "error pod-unschedulable of pod team/p: no node takes it: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu [it starts when that is fixed] <- gpus-not-offered of node gpu1"}},
		{"an instance that no node has", pod("name: p", "containers: [{name: c, image: i, resources: {limits: {nvidia.com/mig-1g.5gb: 1}}}]", pending("0/2 nodes are available.")),
			[]string{"error pod-unschedulable of pod team/p: no node takes it: 0/2 nodes are available [it asks for 1 nvidia.com/mig-1g.5gb, and no node has more than 0: ask for an instance that a node offers (docs/mig.md), or divide a GPU so in the file]"}},
		{"a volume that is missing", pod("name: p", plain, pending("pod has unbound immediate PersistentVolumeClaims.")),
			[]string{"error pod-unschedulable of pod team/p: no node takes it: pod has unbound immediate PersistentVolumeClaims [its volume does not exist yet: see the finding of its claim]"}},
		{"taints", pod("name: p", plain, pending("2 node(s) had untolerated taint {a: b}.")),
			[]string{"error pod-unschedulable of pod team/p: no node takes it: 2 node(s) had untolerated taint {a: b} [the pod has no toleration for the nodes' taints]"}},
		{"neither", pod("name: p", plain, pending("2 Insufficient cpu.")),
			[]string{"error pod-unschedulable of pod team/p: no node takes it: 2 Insufficient cpu [it asks for more than any node has left, or for nodes that do not exist]"}},
		{"the operator's driver", pod("name: p", "containers: [{name: c, image: nvcr.io/nvidia/driver:580-6.8}]", waiting("nvcr.io/nvidia/driver:580-6.8", "ErrImagePull", "not found")),
			[]string{"error image of pod team/p: the GPU operator's driver nvcr.io/nvidia/driver:580-6.8 cannot be pulled [NVIDIA has no driver container with prebuilt modules for every kernel: remove usePrecompiled under nvidia.values, or write driver: {mode: prebuilt}]"}},
		{"the operator's toolkit", pod("name: p", "containers: [{name: c, image: x/container-toolkit:1}]", waiting("x/container-toolkit:1", "CrashLoopBackOff", "")),
			[]string{crash + "ends again and again [it must find K3s' containerd: homelab cluster:up puts toolkit.env back; kubectl -n team logs p -c c --previous]"}},
		{"a container that is being made", pod("name: p", plain, waiting("i", "ContainerCreating", "")), nil},
		{"a claim that is lost", func(e *doctor.Evidence) {
			e.Objects["PersistentVolumeClaim"] = append(e.Objects["PersistentVolumeClaim"], object("PersistentVolumeClaim", "metadata: {name: a, namespace: team}\nstatus: {phase: Lost}\n"),
				object("PersistentVolumeClaim", "metadata: {name: b, namespace: team}\nstatus: {phase: Bound}\n"), object("PersistentVolumeClaim", "metadata: {name: c, namespace: team}\nstatus: {phase: Pending}\n"))
		}, []string{"error claim of claim team/a: its volume is lost [does its StorageClass exist, and does its provisioner run?]"}},
		{"a container that has ended", pod("name: p", onGPU, `{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: c, image: i, state: {terminated: {exitCode: 3, reason: Error}}}]}`),
			[]string{crash + "has ended [kubectl -n team logs p -c c]"}},
		{"a container that has ended, behind one that is done", pod("name: p", onGPU, `{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: i, image: i, state: {terminated: {exitCode: 0}}}, {name: x, image: i}, {name: c, image: i, state: {terminated: {exitCode: 3}}}]}`),
			[]string{crash + "has ended [kubectl -n team logs p -c c]"}},
		{"an init container that is done", pod("name: p", onGPU, `{phase: Running, conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-11-23T19:59:00Z"}], containerStatuses: [{name: c, image: i, state: {terminated: {exitCode: 0}}}]}`), nil},
	} {
		e := healthy()
		x.harm(e)
		got := told(e)
		if x.name == "K3s says why it is down" {
			evidence := doctor.Diagnose(*e).Findings[0].Evidence
			assert.Equal(t, []string{"k3s-agent.service: failed", e.Machines[1].Kubernetes.Line}, evidence)
			assert.Len(t, got, 1)
			assert.Contains(t, got[0], "error k3s-down of gpu1: K3s does not run: ")
			assert.NotContains(t, got[0], "[journalctl", "it has a cure")
			continue
		}
		assert.Equal(t, x.want, got, x.name)
	}
	for want, harm := range map[string]func(*doctor.Evidence){
		"NTPSynchronized=no": func(e *doctor.Evidence) { e.Machines[1].State.Clock = "no" },
		"nvidia-smi said so": func(e *doctor.Evidence) {
			e.Machines[1].MIG = &mig.State{Messages: []string{"nvidia-smi said so"}}
			e.Machines[1].GPUs.Sharing = spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{Profiles: map[string]int{"1g.5gb": 7}}}}
			e.Nodes[1].Allocatable["nvidia.com/gpu"] = resource.MustParse("7")
		},
	} {
		e := healthy()
		harm(e)
		if found := doctor.Diagnose(*e).Findings; assert.Len(t, found, 1, want) {
			assert.Equal(t, []string{want}, found[0].Evidence)
		}
	}
	e := healthy()
	harms()["default-classes"](e)
	assert.Contains(t, told(e)[0], "several StorageClasses are the default: local-path, nfs [")
	e.Objects["StorageClass"] = e.Objects["StorageClass"][:1]
	assert.Empty(t, told(e), "one default is right")
	e.Machines[1].Kubernetes = doctor.Kubernetes{Role: spec.Agent, Service: "k3s-agent", Active: "active", Running: true}
	assert.Empty(t, told(e), "a version that was not seen is not another one")
	harms()["namespace-stuck"](e)
	at := metaTime(now.Add(-10 * time.Minute))
	e.Objects["Namespace"][0].SetDeletionTimestamp(&at)
	assert.Empty(t, told(e), "it may end soon")
	at = metaTime(now.Add(-time.Hour))
	e.Objects["Namespace"][0].SetDeletionTimestamp(&at)
	e.Objects["Namespace"][0].Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "NamespaceContentRemaining", "status": "True", "message": "pods"}, map[string]any{"type": "Other", "status": "False"}}}
	assert.Equal(t, []string{"NamespaceContentRemaining: pods"}, doctor.Diagnose(*e).Findings[0].Evidence)
}
