package doctor_test

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
)

var update = flag.Bool("update", false, "write golden files")

var now = time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)

// healthy is what is seen of a cluster of one server and one GPU node.
func healthy() *doctor.Evidence {
	s := &spec.Spec{Name: "lab", K3s: spec.K3s{Version: "v1.36.5+k3s1"}, NVIDIA: spec.NVIDIA{Stack: spec.StackDevicePlugin}}
	cp, gpu := spec.Node{Name: "cp1", Role: spec.Server, Host: "pve1"}, spec.Node{Name: "gpu1", Role: spec.Agent, Host: "pve1", GPUs: spec.GPURequest{Count: 1}}
	s.Nodes = []spec.Node{cp, gpu}
	e := &doctor.Evidence{
		Spec: s, Time: now, Objects: map[string][]unstructured.Unstructured{}, Unread: map[string]error{},
		Hosts: []doctor.Host{{Name: "pve1", Online: true, Storages: []proxmox.Storage{{Name: "vmdata", Type: "lvmthin", Enabled: true, Active: true, Total: 100 << 30, Free: 50 << 30}}}},
	}
	for i, n := range s.Nodes {
		m := doctor.Machine{
			Node: n, Asked: true, VM: &proxmox.VM{Name: n.Name, VMID: 101 + i, Host: "pve1", Running: true},
			State:      doctor.MachineState{Disks: []doctor.Usage{{At: "/", Percent: 20}}, Clock: "yes"},
			Kubernetes: doctor.Kubernetes{Role: n.Role, Service: []string{"k3s", "k3s-agent"}[i], Active: "active", Running: true, Version: "v1.36.5+k3s1"},
		}
		node := kube.Node{Name: n.Name, Ready: true, Version: "v1.36.5+k3s1", Allocatable: corev1.ResourceList{}}
		if n.GPUs.Count > 0 {
			m.Driver = &nvidia.DriverState{Loaded: "580.173.02", Runtime: "/usr/bin/nvidia-container-runtime", Containerd: nvidia.Containerd{Configured: true, NVIDIA: true}, SMI: nvidia.SMI{GPUs: make([]nvidia.SMIGPU, 1)}}
			node.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
		}
		e.Machines, e.Nodes = append(e.Machines, m), append(e.Nodes, node)
	}
	return e
}

// object reads a pod or the like, made an hour ago.
func object(kind, text string) unstructured.Unstructured {
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte("apiVersion: v1\nkind: "+kind+"\n"+text), &u.Object); err != nil {
		panic(err)
	}
	u.SetCreationTimestamp(metaTime(now.Add(-time.Hour)))
	return u
}

func withPod(e *doctor.Evidence, status string) {
	e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", "metadata: {name: p, namespace: team}\nspec: {containers: [{name: c, image: i}]}\nstatus: "+status+"\n"))
}

func warning(e *doctor.Evidence, kind, name, text string) {
	e.Objects["Event"] = append(e.Objects["Event"], object("Event", "metadata: {name: e, namespace: team}\ntype: Warning\nreason: Failed\nmessage: "+text+"\ninvolvedObject: {kind: "+kind+", namespace: team, name: "+name+"}\n"))
}

// harms bring about each failure.
func harms() map[string]func(*doctor.Evidence) {
	lost := errors.New("dial tcp 10.0.0.21:22: no route to host")
	return map[string]func(*doctor.Evidence){
		"proxmox-unreachable": func(e *doctor.Evidence) { e.Proxmox = lost },
		"host-offline":        func(e *doctor.Evidence) { e.Hosts[0].Online = false },
		"storage-unread":      func(e *doctor.Evidence) { e.Hosts[0].Err = lost },
		"storage-inactive":    func(e *doctor.Evidence) { e.Hosts[0].Storages[0].Active = false },
		"storage-full":        func(e *doctor.Evidence) { e.Hosts[0].Storages[0].Free = 1 << 30 },
		"card": func(e *doctor.Evidence) {
			e.Hosts[0].Cards = []doctor.Card{{Address: "0000:41:00", Model: "A100", Node: "gpu1", Problem: "VM 104 claims it too"}}
		},
		"vm-missing":      func(e *doctor.Evidence) { e.Machines[1].VM = nil },
		"vm-locked":       func(e *doctor.Evidence) { e.Machines[1].VM.Locked = "backup" },
		"vm-stopped":      func(e *doctor.Evidence) { e.Machines[1].VM.Running = false },
		"no-login":        func(e *doctor.Evidence) { e.Machines[1].Err = lost },
		"disk-full":       func(e *doctor.Evidence) { e.Machines[1].State.Inodes = []doctor.Usage{{At: "/", Percent: 99}} },
		"read-only":       func(e *doctor.Evidence) { e.Machines[1].State.ReadOnly = []string{"/"} },
		"disk-errors":     func(e *doctor.Evidence) { e.Machines[1].State.Kernel = []string{"[1.0] I/O error, dev sda, sector 7"} },
		"unit-failed":     func(e *doctor.Evidence) { e.Machines[1].State.Failed = []string{"nfs-server.service"} },
		"clock":           func(e *doctor.Evidence) { e.Machines[1].State.Clock = "no" },
		"name-unresolved": func(e *doctor.Evidence) { e.Machines[0].State.Unresolved = []string{"login.example.org"} },
		"out-of-memory": func(e *doctor.Evidence) {
			e.Machines[1].State.Kernel = []string{"Out of memory: Killed process 77 (python3)"}
		},
		"card-asleep": func(e *doctor.Evidence) {
			e.Machines[1].State.Kernel = []string{"Unable to change power state from D3cold to D0, device inaccessible"}
		},
		"driver-unread":   func(e *doctor.Evidence) { e.Machines[1].DrvErr = lost },
		"driver-mismatch": func(e *doctor.Evidence) { e.Machines[1].Driver.SMIError = nvidia.ErrVersionMismatch },
		"driver-not-loaded": func(e *doctor.Evidence) {
			e.Machines[1].Driver.Loaded, e.Machines[1].Driver.SMIError = "", nvidia.ErrNotLoaded
		},
		"gpu-error": func(e *doctor.Evidence) {
			e.Machines[1].Driver.Log = []string{"[ 9.1] NVRM: Xid (PCI:0000:01:00): 48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU"}
		},
		"mig-layout":  func(e *doctor.Evidence) { e.Machines[1].Driver.SMI.GPUs[0].MIG = true },
		"certificate": func(e *doctor.Evidence) { e.Machines[1].Certs = certs(now.AddDate(0, 0, -1)) },
		"fleet-repo": func(e *doctor.Evidence) {
			e.Fleet = []*fleet.State{{Name: "homelab", There: true, Wrong: []string{"Fleet cannot read the repository: authentication required"}}}
		},
		"fleet-bundle": func(e *doctor.Evidence) {
			e.Fleet = []*fleet.State{{Name: "homelab", There: true, Bundles: []fleet.BundleState{{Name: "hub", Cluster: "local", State: "ErrApplied", Obstacles: []fleet.Obstacle{{Reason: "no such chart"}}}}}}
		},
		"gpu-missing":      func(e *doctor.Evidence) { e.Machines[1].Driver.SMI.GPUs = nil },
		"toolkit":          func(e *doctor.Evidence) { e.Machines[1].Driver.Containerd.NVIDIA = false },
		"k3s-unread":       func(e *doctor.Evidence) { e.Machines[1].KubernetesErr = lost },
		"k3s-missing":      func(e *doctor.Evidence) { e.Machines[1].Kubernetes = doctor.Kubernetes{} },
		"k3s-role":         func(e *doctor.Evidence) { e.Machines[1].Kubernetes.Role = spec.Server },
		"k3s-down":         func(e *doctor.Evidence) { stops(e, 1, "activating") },
		"k3s-version":      func(e *doctor.Evidence) { e.Machines[1].Kubernetes.Version = "v1.35.9+k3s1" },
		"api-down":         func(e *doctor.Evidence) { e.API = lost },
		"node-missing":     func(e *doctor.Evidence) { e.Nodes = e.Nodes[:1] },
		"node-not-ready":   func(e *doctor.Evidence) { e.Nodes[1].Ready, e.Nodes[1].Reason = false, "KubeletNotReady: PLEG" },
		"node-foreign":     func(e *doctor.Evidence) { e.Nodes = append(e.Nodes, kube.Node{Name: "old1", Ready: true}) },
		"node-cordoned":    func(e *doctor.Evidence) { e.Nodes[1].Cordoned = true },
		"provider-id":      func(e *doctor.Evidence) { e.Nodes[1].ProviderID = "k3s://" + e.Nodes[1].Name },
		"gpus-not-offered": func(e *doctor.Evidence) { e.Nodes[1].Allocatable = nil },
		"unread":           func(e *doctor.Evidence) { e.Unread["Pod"] = lost },
		"images-alone": func(e *doctor.Evidence) {
			e.Spec.K3s.EmbeddedRegistry, e.Nodes[0].Labels = true, map[string]string{"p2p.k3s.cattle.io/enabled": "true"}
		},
		"pod-unschedulable": func(e *doctor.Evidence) {
			withPod(e, `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."}]}`)
		},
		"image": func(e *doctor.Evidence) {
			withPod(e, `{phase: Pending, containerStatuses: [{name: c, image: i, state: {waiting: {reason: ImagePullBackOff, message: back-off}}}]}`)
		},
		"pod-crashing": func(e *doctor.Evidence) {
			withPod(e, `{phase: Running, containerStatuses: [{name: c, image: i, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`)
		},
		"pod-not-starting": func(e *doctor.Evidence) {
			withPod(e, `{phase: Pending, containerStatuses: [{name: c, image: i, state: {waiting: {reason: CreateContainerConfigError, message: secret x not found}}}]}`)
		},
		"pod-not-ready": func(e *doctor.Evidence) {
			withPod(e, `{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: c, image: i, started: true, state: {running: {startedAt: "2026-11-23T19:00:00Z"}}}]}`)
		},
		"pod-restarting": func(e *doctor.Evidence) {
			withPod(e, `{phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: c, image: i, ready: true, restartCount: 7, lastState: {terminated: {exitCode: 1, finishedAt: "2026-11-23T19:50:00Z"}}}]}`)
		},
		"run-failed": func(e *doctor.Evidence) {
			e.LastRun = &doctor.FailedRun{Ended: now.Add(-time.Minute), Failed: []doctor.FailedStep{{Name: "platform/jupyterhub", Error: "deployment hub: 0 of 1 ready"}}}
		},
		"attach": func(e *doctor.Evidence) {
			e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", "metadata: {name: p, namespace: team}\nspec: {nodeName: gpu1, containers: [{name: c, image: i}]}\nstatus: {phase: Pending}\n"))
			e.Objects["Event"] = append(e.Objects["Event"], object("Event", "metadata: {name: e, namespace: team}\ntype: Warning\nreason: FailedAttachVolume\nmessage: Multi-Attach error for volume \"pvc-1\"\ninvolvedObject: {kind: Pod, namespace: team, name: p}\n"))
		},
		"pod-evicted": func(e *doctor.Evidence) {
			withPod(e, `{phase: Failed, reason: Evicted, message: "The node was low on resource: ephemeral-storage."}`)
		},
		"claim": func(e *doctor.Evidence) {
			e.Objects["PersistentVolumeClaim"] = append(e.Objects["PersistentVolumeClaim"], object("PersistentVolumeClaim", "metadata: {name: home, namespace: team}\nstatus: {phase: Pending}\n"))
			warning(e, "PersistentVolumeClaim", "home", "storageclass nfs not found")
		},
		"default-classes": func(e *doctor.Evidence) {
			for _, name := range []string{"nfs", "local-path"} {
				u := unstructured.Unstructured{Object: map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x", "metadata": map[string]any{
					"name": name, "annotations": map[string]any{"storageclass.kubernetes.io/is-default-class": "true"}}}}
				e.Objects["StorageClass"] = append(e.Objects["StorageClass"], u)
			}
		},
		"namespace-stuck": func(e *doctor.Evidence) {
			u := object("Namespace", "metadata: {name: old}\n")
			at := metaTime(now.Add(-time.Hour))
			u.SetDeletionTimestamp(&at)
			e.Objects["Namespace"] = append(e.Objects["Namespace"], u)
		},
	}
}

// stops has the Kubernetes of a machine not run.
func stops(e *doctor.Evidence, machine int, active string) {
	e.Machines[machine].Kubernetes.Running, e.Machines[machine].Kubernetes.Active = false, active
}

func certs(until time.Time) []doctor.Certificate {
	return []doctor.Certificate{{File: "client-kubelet.crt", Subject: "system:node:gpu1", Until: until}, {File: "serving-kubelet.crt", Subject: "gpu1", Until: now.AddDate(0, 9, 0)}}
}

func TestNothingIsWrong(t *testing.T) {
	r := doctor.Diagnose(*healthy())
	assert.Empty(t, r.Findings)
	assert.Equal(t, []string{"1 host", "2 machines", "2 nodes", "0 pods"}, r.Looked)
}

// One GPU that no longer answers ends nvidia-smi for all: a new driver does not help.
func TestAGPUThatIsLost(t *testing.T) {
	e := healthy()
	e.Machines[1].Driver.SMI, e.Machines[1].Driver.SMIError = nvidia.SMI{}, nvidia.ErrLost
	e.Machines[1].Driver.Log = []string{"[ 9.1] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."}
	found := doctor.Diagnose(*e).Findings
	require.NotEmpty(t, found)
	assert.Equal(t, "gpu-missing", found[0].Failure)
	assert.Contains(t, found[0].What, "a GPU no longer answers: the GPU has fallen off the bus")
	assert.Contains(t, found[0].Do, "node:cycle -node=gpu1")
}

// Each failure is brought about alone, and found; together they are every failure that there is.
func TestEveryFailure(t *testing.T) {
	var names []string
	for _, f := range doctor.Failures() {
		names = append(names, f.Name)
		harm := harms()[f.Name]
		if !assert.NotNil(t, harm, "no case brings about %s", f.Name) {
			continue
		}
		e := healthy()
		harm(e)
		r := doctor.Diagnose(*e)
		i := slices.IndexFunc(r.Findings, func(x doctor.Finding) bool { return x.Failure == f.Name })
		if assert.GreaterOrEqual(t, i, 0, "%s is not found, but %v", f.Name, r.Findings) {
			x := r.Findings[i]
			assert.NotEmpty(t, x.Where, f.Name)
			assert.NotEmpty(t, x.What, f.Name)
			assert.NotEmpty(t, x.Do, "%s has no cure", f.Name)
			assert.NotContains(t, x.String()+x.Do, "%!", f.Name)
		}
		for _, x := range r.Findings {
			assert.True(t, slices.ContainsFunc(doctor.Failures(), func(f doctor.Failure) bool { return f.Name == x.Failure }), "%s is in no list", x.Failure)
		}
	}
	assert.Len(t, harms(), len(names))
}

// What a cause brings about follows from it, over several layers, and comes after all causes.
func TestConsequencesFollow(t *testing.T) {
	e := healthy()
	for _, name := range []string{"host-offline", "no-login", "node-not-ready", "gpus-not-offered"} {
		harms()[name](e)
	}
	e.Nodes[0].Cordoned = true
	r := doctor.Diagnose(*e)
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.Failure+" <- "+f.Follows)
	}
	assert.Equal(t, []string{
		"host-offline <- ", "host-offline <- ", "node-cordoned <- ",
		"no-login <- host-offline of host pve1", "node-not-ready <- host-offline of host pve1", "gpus-not-offered <- host-offline of host pve1",
	}, got)
}

// A warning explains nothing: what is broken above it has a cause of its own.
func TestWarningsExplainNothing(t *testing.T) {
	e := healthy()
	harms()["clock"](e)
	harms()["node-not-ready"](e)
	r := doctor.Diagnose(*e)
	require.Len(t, r.Findings, 2)
	assert.Len(t, r.Causes(), 2)
	assert.Equal(t, "node-not-ready", r.Findings[0].Failure, "errors come first")
}

// A pod that asks for more GPUs than any node has will wait forever: that is an error, and other
// than one that waits for its turn.
func TestPodThatAsksForTooMuch(t *testing.T) {
	for asks, want := range map[string]doctor.Finding{
		"1": {Severity: doctor.Warning, Do: "all fitting GPUs are taken: wait, or share them (docs/gpus.md)"},
		"4": {Severity: doctor.Error, Do: "it asks for 4 GPUs, and no node has more than 1: ask for fewer, or give a node more in the file"},
	} {
		e := healthy()
		e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", `metadata: {name: p, namespace: team}
spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: `+asks+`}, requests: {nvidia.com/gpu: `+asks+`}}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes."}]}
`))
		r := doctor.Diagnose(*e)
		require.Len(t, r.Findings, 1)
		assert.Equal(t, want.Severity, r.Findings[0].Severity)
		assert.Equal(t, want.Do, r.Findings[0].Do)
		assert.Equal(t, "no node takes it: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu", r.Findings[0].What)
	}
}

// The page lists every failure, as the code has it.
func TestPage(t *testing.T) {
	const page, mark = "../../docs/doctor.md", "| failure | where it shows | usual cause |\n|---|---|---|\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var table strings.Builder
	for _, f := range doctor.Failures() {
		table.WriteString("| `" + f.Name + "` | " + f.Signs + " | " + f.Cause + " |\n")
	}
	before, rest, found := strings.Cut(string(text), mark)
	require.True(t, found)
	_, after, _ := strings.Cut(rest, "\n\n")
	want := before + mark + table.String() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(text), "run go test ./cluster/doctor -run TestPage -update")
}

// Each failure is in the table of alerts, once.
func TestAlertsOfThePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| alert | what it reports |\n")
	require.True(t, found)
	for _, f := range doctor.Failures() {
		assert.Equal(t, 1, strings.Count(table, "`"+f.Name+"`"), f.Name)
	}
}

func metaTime(t time.Time) metav1.Time { return metav1.Time{Time: t} }
