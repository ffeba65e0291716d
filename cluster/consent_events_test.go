package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// event is what somebody else does in the meantime. It returns whether what has come is gone.
type event struct {
	what   string
	do     func(t *testing.T, w *world, k costlyChange) (gone func() bool)
	inside bool // it comes into what is lost, and is no other thing
}

// onMachine are the events of a VM, of work on its node, and of the whole.
func onMachine() []event { return slices.Concat(ofVM(), ofWork(), []event{madeAgain()}) }

// ofVM are what happens to a VM.
func ofVM() []event {
	set := func(body string) func(*testing.T, *world, costlyChange) func() bool {
		return func(t *testing.T, w *world, k costlyChange) func() bool {
			id := w.vm(t, k.node).ID
			w.set(t, id, body)
			return w.either(w.stops(id), k.enters(t, w, id))
		}
	}
	return []event{
		{what: "a disk is added", inside: true, do: func(t *testing.T, w *world, k costlyChange) func() bool {
			before := w.sim.Volumes()
			w.set(t, w.vm(t, k.node).ID, `{"scsi7":"vmdata:1"}`)
			w.sim.Settle()
			i := slices.IndexFunc(w.sim.Volumes(), func(v pvesim.Volume) bool { return !slices.Contains(before, v) })
			require.GreaterOrEqual(t, i, 0)
			return w.lacksVolume(w.sim.Volumes()[i].ID)
		}},
		{what: "another cluster takes it", do: set(`{"tags":"homelab-others"}`)},
		{what: "it gets another name", do: set(`{"name":"mine"}`)},
	}
}

// ofWork are pods and volumes that come to a node.
func ofWork() []event {
	return []event{
		{what: "a notebook starts", inside: true, do: podStarts("labels: {component: singleuser-server}, annotations: {hub.jupyter.org/username: student7}", "")},
		{what: "a pod starts that nobody makes again", inside: true, do: podStarts("labels: {}", "")},
		{what: "a volume is made", inside: true, do: func(t *testing.T, w *world, k costlyChange) func() bool {
			if !k.takes(t, w) {
				return never
			}
			w.apply(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: late}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  storageClassName: local-path, hostPath: {path: /late}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: default, name: late},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}}`, k.at()))
			if k.outside {
				return w.leaves(k.node)
			}
			id := w.vm(t, k.at()).ID
			return func() bool {
				return !slices.ContainsFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return vm.ID == id }) || w.inKubernetes("nodes", k.at()) && !w.inKubernetes("persistentvolumes", "late")
			}
		}},
	}
}

// takes reports whether anything can start on the node: it may be off by now.
func (k costlyChange) takes(t *testing.T, w *world) bool {
	return w.inKubernetes("nodes", k.at()) && (k.outside || w.runs(t, w.vm(t, k.at()).ID))
}

func never() bool { return false }

// podStarts has a pod start on a node, with a label or a note, and resources.
func podStarts(note, resources string) func(*testing.T, *world, costlyChange) func() bool {
	return func(t *testing.T, w *world, k costlyChange) func() bool {
		if !k.takes(t, w) {
			return never
		}
		namespace := k.namespace
		if namespace == "" {
			namespace = "default"
		}
		w.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: %s, %s}, spec: {nodeName: %s, containers: [{name: a, image: a%s}]}}", namespace, note, k.at(), resources))
		before := w.now()
		stops := w.leaves(k.node)
		if !k.outside {
			stops = w.stops(w.vm(t, k.at()).ID)
		}
		return w.either(stops, func() bool { return k.ends != nil && k.ends(w.node(k.at())) }, func() bool {
			return slices.ContainsFunc(before.changes().Kubernetes, func(request string) bool { return strings.Contains(request, "/pods/late") }) ||
				w.inKubernetes("nodes", k.at()) && !w.inKubernetes("pods", namespace+"/late")
		})
	}
}

// computes is a pod that gets a GPU.
func computes() event {
	return event{what: "a job gets a GPU", inside: true, do: podStarts("labels: {}", ", resources: {limits: {nvidia.com/gpu: 1}}")}
}

// madeAgain has a colleague run node:replace.
func madeAgain() event {
	return event{what: "another run makes the machine again", inside: true, do: func(t *testing.T, w *world, k costlyChange) func() bool {
		g, err := w.cluster(t, parse(t, changing)).NodeReplace(t.Context(), k.node, true)
		if err == nil {
			_, err = g.Run(t.Context(), nil)
		}
		if err != nil { // the cluster may be on its way out
			t.Logf("node:replace: %v", err)
			return never
		}
		id := w.vm(t, k.node).ID
		return w.either(w.stops(id), k.enters(t, w, id))
	}}
}

// ofOutside is what happens to an external machine.
func ofOutside() []event {
	return append(ofWork(), event{what: "another cluster takes it", do: func(t *testing.T, w *world, _ costlyChange) func() bool {
		const mark = "/etc/rancher/k3s/homelab.cluster"
		require.NoError(t, w.edge.Disk().WriteFile(mark, []byte("others\n"), 0o644))
		return func() bool {
			return !w.edge.Disk().Exists("/usr/local/bin/k3s") || !w.edge.Disk().Exists(mark) || content(t, w.edge, mark) != "others\n"
		}
	}})
}

// ofExports is what happens to what an NFS server exports.
func ofExports() event {
	return event{what: "another network may mount it", inside: true, do: func(t *testing.T, w *world, _ costlyChange) func() bool {
		disk := w.guests()["files"].Disk()
		for _, path := range []string{"/etc/exports.d/homelab.exports", "/var/lib/nfs/etab"} {
			have, err := disk.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, disk.WriteFile(path, append(have, "/export/k3s 192.168.9.0/24(rw)\n"...), 0o644))
		}
		return func() bool {
			have, err := disk.ReadFile("/var/lib/nfs/etab")
			require.NoError(t, err)
			return !strings.Contains(string(have), "192.168.9.0/24")
		}
	}}
}

// ofPart is a claim that comes with a part's release.
func ofPart() event {
	return event{what: "a claim is made in it", do: func(t *testing.T, w *world, k costlyChange) func() bool {
		w.apply(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: late}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  hostPath: {path: /late}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: %[1]s, name: late}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: late, namespace: %[1]s, labels: {app.kubernetes.io/managed-by: Helm}, annotations: {meta.helm.sh/release-name: jupyterhub, meta.helm.sh/release-namespace: %[1]s}},
  spec: {accessModes: [ReadWriteOnce], volumeName: late, resources: {requests: {storage: 1Gi}}}}`, k.namespace))
		return func() bool { return !w.inKubernetes("persistentvolumeclaims", k.namespace+"/late") }
	}}
}

// ofTemplate are what happens to a template that no VM uses.
func ofTemplate() []event {
	template := func(t *testing.T, w *world) pvesim.VMState {
		i := slices.IndexFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return vm.Template })
		require.GreaterOrEqual(t, i, 0)
		return w.sim.VMs()[i]
	}
	set := func(body string) func(*testing.T, *world, costlyChange) func() bool {
		return func(t *testing.T, w *world, _ costlyChange) func() bool {
			id := template(t, w).ID
			w.set(t, id, body)
			return w.stops(id)
		}
	}
	return []event{
		{what: "a VM is cloned from it", do: func(t *testing.T, w *world, _ costlyChange) func() bool {
			id := template(t, w).ID
			w.request(t, "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/clone", id), `{"newid":700,"name":"mine"}`)
			return func() bool {
				return !slices.ContainsFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return vm.ID == id })
			}
		}},
		{what: "a VM gets one of the files as its CD", do: func(t *testing.T, w *world, _ costlyChange) func() bool {
			i := slices.IndexFunc(w.sim.Volumes(), func(v pvesim.Volume) bool { return v.Content == "iso" })
			require.GreaterOrEqual(t, i, 0)
			id := w.sim.Volumes()[i].ID
			w.request(t, "POST", "/nodes/pve1/qemu", fmt.Sprintf(`{"vmid":701,"name":"mine","ide2":"%s,media=cdrom"}`, id))
			return w.lacksVolume(id)
		}},
		{what: "another cluster takes it", do: set(`{"tags":"homelab-others"}`)},
		{what: "it gets another name", do: set(`{"name":"mine"}`)},
	}
}

// enters reports whether a run got a login on a machine, if that is what was agreed to.
func (k costlyChange) enters(t *testing.T, w *world, id int) func() bool {
	keys := func() string {
		for _, vm := range w.sim.VMs() {
			if vm.ID == id && vm.Guest != nil {
				return content(t, vm.Guest, "/home/ubuntu/.ssh/authorized_keys")
			}
		}
		return ""
	}
	if !k.another {
		return func() bool { return false }
	}
	before := keys()
	return func() bool { return keys() != before }
}

// stops reports whether a VM was stopped or destroyed since now.
func (w *world) stops(id int) func() bool {
	before := w.now()
	return func() bool {
		return slices.ContainsFunc(before.changes().Proxmox, func(request string) bool {
			m := fatal.FindStringSubmatch(request)
			return m != nil && (m[1] == fmt.Sprint(id) || m[2] == fmt.Sprint(id))
		})
	}
}

// leaves reports whether K3s was removed from an external machine since now.
func (w *world) leaves(node string) func() bool {
	before := w.now()
	return func() bool {
		return !w.edge.Disk().Exists("/usr/local/bin/k3s") || slices.Contains(before.changes().Kubernetes, "DELETE /api/v1/nodes/"+node)
	}
}

func (w *world) either(any ...func() bool) func() bool {
	return func() bool { return slices.ContainsFunc(any, func(f func() bool) bool { return f() }) }
}

func (w *world) lacksVolume(id string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(w.sim.Volumes(), func(v pvesim.Volume) bool { return v.ID == id })
	}
}

func (w *world) inKubernetes(resource, name string) bool {
	all := w.kube.Clusters()
	if !strings.Contains(name, "/") {
		name = "/" + name
	}
	return slices.Contains(all[len(all)-1].Names(resource), name)
}

// node is a Node as Kubernetes has it.
func (w *world) node(name string) (node map[string]any) {
	all := w.kube.Clusters()
	all[len(all)-1].Each(func(resource string, object map[string]any) {
		if meta, _ := object["metadata"].(map[string]any); resource == "nodes" && meta["name"] == name {
			node = object
		}
	})
	return node
}

func (w *world) apply(t *testing.T, manifest string) {
	t.Helper()
	require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(manifest)))
}

func (w *world) request(t *testing.T, method, path, body string) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), method, path, user+"="+token, body))
	w.sim.Settle()
}
