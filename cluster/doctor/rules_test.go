package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
)

// told are a report's findings, as "severity failure of where: what [do] <- cause".
func told(e *doctor.Evidence) []string {
	var out []string
	for _, f := range doctor.Diagnose(*e).Findings {
		line := string(f.Severity) + " " + f.Failure + " of " + f.Where + ": " + f.What + " [" + f.Do + "]"
		if f.Follows != "" {
			line += " <- " + f.Follows
		}
		out = append(out, line)
	}
	return out
}

// The log of a driver that works: what stops a card is an error, what wears it a warning, and a
// program's mistake is its owner's. A message of a start that failed earlier is past.
func TestKernelLog(t *testing.T) {
	e := healthy()
	e.Machines[1].Driver.Log = []string{
		"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x56:2477)",
		"NVRM: Xid (PCI:0000:01:00): 13, pid=7, name=python3, Graphics SM Warp Exception",
		"NVRM: Xid (PCI:0000:01:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping",
		"NVRM: Xid (PCI:0000:01:00): 119, pid=9, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
	}
	e.Nodes[1].Ready = false
	assert.Equal(t, []string{
		"error gpu-error of gpu1: Xid 119 of GPU 0000:01:00 (driver): the GPU's own processor (GSP) does not answer [drain the node, then stop and start the VM " +
			"(a restart from inside does not reset the card); if it happens again, pin another branch (nvidia.driver.branch): homelab node:cycle -node=gpu1]",
		"warning gpu-error of gpu1: Xid 63 of GPU 0000:01:00 (hardware): a bad row of memory is remapped (before Ampere, a bad page retired) at the next reset [stop and start the VM when the node is free]",
		"error node-not-ready of node gpu1: it is not ready:  [journalctl -u k3s-agent (k3s on a server) on gpu1] <- gpu-error of gpu1",
	}, told(e))
}

func TestCertificatesEnd(t *testing.T) {
	for until, want := range map[time.Time]string{
		now.AddDate(0, 0, -1): "error certificate of gpu1: 1 certificate of K3s: the first has ended on 2026-11-22, and its programs are refused [homelab cluster:certs -rotate makes new ones, on one node after the other]",
		now.AddDate(0, 0, 20): "warning certificate of gpu1: 1 certificate of K3s: the first ends on 2026-12-13, and K3s renews them only when it starts [homelab cluster:certs -rotate makes new ones, on one node after the other]",
		now.AddDate(0, 0, 40): "",
	} {
		e := healthy()
		e.Machines[1].Certs = certs(until)
		assert.Equal(t, want, strings.Join(told(e), "\n"))
	}
	e := healthy()
	e.Machines[0].Certs = []doctor.Certificate{{File: "server-ca.crt", Authority: true, Until: now.AddDate(0, 0, -3)}}
	assert.Contains(t, told(e)[0], "k3s certificate rotate-ca")
}

// A name that a server does not resolve is why kubectl's sign-ins are refused, and not why the API is down.
func TestUnresolvedName(t *testing.T) {
	e := healthy()
	e.Machines[0].State.Unresolved = []string{"login.example.org"}
	assert.Equal(t, []string{"warning name-unresolved of cp1: it does not resolve login.example.org, where its API server, and Argo CD on it, ask for the keys of sign-ins: kubectl with the login gets Unauthorized, and Argo CD shows a login of its own " +
		"[let the machine's DNS server, or its /etc/hosts, know login.example.org by the address of the ingress]"}, told(e))
}

// Clocks are compared with each other: that all seem wrong is our own clock's fault.
func TestClocks(t *testing.T) {
	for _, x := range []struct {
		ahead [3]time.Duration
		want  []string
	}{
		{[3]time.Duration{time.Hour, time.Hour, time.Hour}, nil},
		{[3]time.Duration{0, 3 * time.Second, 0}, nil},
		{[3]time.Duration{0, 40 * time.Second, 0}, []string{"warning clock of gpu1: its clock is 40s ahead of the other machines'"}},
		{[3]time.Duration{10 * time.Minute, 0, 10 * time.Minute}, []string{"error clock of gpu1: its clock is 10m0s behind the other machines'"}},
	} {
		e := healthy()
		e.Machines = append(e.Machines, doctor.Machine{Node: spec.Node{Name: "files", Role: spec.FileServer}, Asked: true, VM: e.Machines[0].VM})
		for i := range e.Machines {
			e.Machines[i].State.Ahead = x.ahead[i]
		}
		got := told(e)
		require.Len(t, got, len(x.want))
		for i := range got {
			assert.Contains(t, got[i], x.want[i])
		}
	}
}

// A layout that the card does not have, or that did not come about, explains that the node does not
// offer its instances, and that a pod waits for one that no node has.
func TestInstances(t *testing.T) {
	a100, known := nvidia.Lookup(nvidia.PCIID{Vendor: 0x10de, Device: 0x20f1})
	require.True(t, known)
	for profile, want := range map[string]string{
		"3g.20gb": "error mig-layout of gpu1: its GPUs are not divided as in the file: GPU 0: whole, MIG mode pending → 2 of 3g.20gb (needs a restart) [homelab cluster:up divides them; ",
		"3g.40gb": "error mig-layout of gpu1: its GPUs are not divided as in the file: GPU 0 cannot be divided into 2 of 3g.40gb: A100 40GB: it has no profile 3g.40gb [its profiles are 1g.5gb",
	} {
		e := healthy()
		e.Machines[1].GPUs.Sharing = spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{Profiles: map[string]int{profile: 2}}}}
		e.Spec.Nodes[1] = e.Machines[1].Node
		e.Machines[1].MIG = &mig.State{GPUs: []mig.GPU{{Kind: a100, Capable: true, Pending: true}}, Messages: []string{"In use by another client"}}
		e.Nodes[1].Allocatable = nil
		got := told(e)
		require.Len(t, got, 2)
		assert.Contains(t, got[0], want)
		assert.Contains(t, got[1], "error gpus-not-offered of node gpu1: it offers 0 of 2 nvidia.com/gpu")
		assert.Contains(t, got[1], "<- mig-layout of gpu1")
	}
	e := healthy()
	e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", `metadata: {name: p, namespace: team}
spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/mig-2g.10gb: 1}}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available: 2 Insufficient nvidia.com/mig-2g.10gb."}]}
`))
	assert.Equal(t, []string{"error pod-unschedulable of pod team/p: no node takes it: 0/2 nodes are available: 2 Insufficient nvidia.com/mig-2g.10gb " +
		"[it asks for 1 nvidia.com/mig-2g.10gb, and no node has more than 0: ask for an instance that a node offers (docs/mig.md), or divide a GPU so in the file]"}, told(e))
}

// A bundle that waits follows from the one it waits for, and that from its pod.
func TestFleet(t *testing.T) {
	e := healthy()
	harms()["image"](e)
	e.Objects["Pod"][0].SetName("hub-5d7f-x")
	e.Fleet = []*fleet.State{{Name: "homelab", There: true, Bundles: []fleet.BundleState{
		{Name: "hub", Cluster: "local", State: "NotReady", Obstacles: []fleet.Obstacle{{Object: "deployment team/hub", Reason: "0/1 ready"}}},
		{Name: "hub-monitors", Cluster: "local", State: fleet.StateWaiting, Obstacles: []fleet.Obstacle{{Reason: "it waits for hub"}}},
		{Name: "storage", Cluster: "local", State: fleet.StateReady},
		{Name: "nowhere", State: fleet.StateNowhere, Obstacles: []fleet.Obstacle{{Reason: "it has no target cluster"}}},
	}}}
	got := told(e)
	require.Len(t, got, 4)
	assert.Contains(t, got[0], "error fleet-bundle of bundle nowhere: Nowhere: it has no target cluster [its targets match no cluster")
	assert.Contains(t, got[1], "error image of pod team/hub-5d7f-x")
	assert.Contains(t, got[2], "error fleet-bundle of bundle hub: NotReady: deployment team/hub: 0/1 ready")
	assert.Contains(t, got[2], "<- image of pod team/hub-5d7f-x")
	assert.Contains(t, got[3], "warning fleet-bundle of bundle hub-monitors: Waiting: it waits for hub")
	assert.Contains(t, got[3], "<- image of pod team/hub-5d7f-x")
}

// A taint of somebody keeps the device plugin off a node.
func TestForeignTaint(t *testing.T) {
	e := healthy()
	e.Nodes[1].Allocatable, e.Nodes[1].Taints = nil, []kube.Taint{{Key: "dedicated", Value: "research", Effect: "NoExecute"}}
	assert.Equal(t, []string{"error gpus-not-offered of node gpu1: it offers 0 of 1 nvidia.com/gpu, and has a taint that the file does not name: nothing that homelab deploys tolerates it " +
		"[write taints: [\"dedicated=research:NoExecute\"] for the node, and cluster:up makes everything tolerate it; or remove it: kubectl taint node gpu1 dedicated=research:NoExecute-]"}, told(e))
}

// A K3s that ends again and again is found with its own last words, if its journal shows nothing that is known.
func TestK3sEndsAgainAndAgain(t *testing.T) {
	e := healthy()
	stops(e, 1, "activating")
	e.Machines[1].Kubernetes.Ended = "apiserver exited: invalid argument"
	assert.Equal(t, []string{"error k3s-down of gpu1: K3s does not run: its last run ended: apiserver exited: invalid argument [journalctl -u k3s-agent on gpu1]"}, told(e))
}

// A full disk is the cause of the pods that say so, and of no other pod of its machine.
func TestFullDisk(t *testing.T) {
	const (
		on    = "nodeName: gpu1, "
		cause = "disk-full of gpu1"
	)
	for name, c := range map[string]struct{ node, status, want string }{
		"evicted for room":   {on, `{phase: Failed, reason: Evicted, message: "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0."}`, cause},
		"refused":            {on, `{phase: Failed, reason: Evicted, message: "Pod was rejected: The node had condition: [DiskPressure]. "}`, cause},
		"image too large":    {on, `{phase: Pending, containerStatuses: [{name: c, image: i, state: {waiting: {reason: ErrImagePull, message: "write /var/lib/x: no space left on device"}}}]}`, cause},
		"no node":            {"", `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }."}]}`, cause},
		"evicted for memory": {on, `{phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}`, ""},
		"its own limit":      {on, `{phase: Failed, reason: Evicted, message: "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."}`, ""},
		"crashes":            {on, `{phase: Running, containerStatuses: [{name: c, image: i, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, reason: Error}}}]}`, ""},
		"no such image":      {on, `{phase: Pending, containerStatuses: [{name: c, image: i, state: {waiting: {reason: ErrImagePull, message: "i: not found"}}}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := healthy()
			e.Machines[1].State.Disks = []doctor.Usage{{At: "/", Percent: 100}}
			e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", "metadata: {name: p, namespace: team}\nspec: {"+c.node+"containers: [{name: c, image: i}]}\nstatus: "+c.status+"\n"))
			found := doctor.Diagnose(*e).Findings
			require.Len(t, found, 2)
			for _, f := range found {
				if f.Failure != "disk-full" {
					assert.Equal(t, c.want, f.Follows)
				}
			}
		})
	}
}
