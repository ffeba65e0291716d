package cluster_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// occupants are the places that tools have on a machine, with what homelab says of them.
func occupants() map[string]string {
	return map[string]string{
		"/var/lib/rancher/rke2":        "Kubernetes is there already, of RKE2 (folder /var/lib/rancher/rke2): move its work and remove it (rke2-uninstall.sh), or take wk1 out of the file",
		"/etc/kubernetes/kubelet.conf": "of kubeadm (folder /etc/kubernetes/kubelet.conf): move its work and remove it (kubeadm reset)",
		"/var/lib/k0s":                 "of k0s (folder /var/lib/k0s)",
		"/var/snap/microk8s":           "of MicroK8s (folder /var/snap/microk8s)",
		"/var/snap/k8s":                "of Canonical Kubernetes (folder /var/snap/k8s)",
		"/proc/812":                    "of a tool that homelab does not know (process kubelet)",
	}
}

// A VM with the Kubernetes of another tool is not adopted, and nothing of it changes.
func TestAdoptOccupied(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, oneDisk))
		w.forget(t, "wk1", "theirs")
		do := func(command string) {
			t.Helper()
			require.Zero(t, w.guests()["wk1"].Run(t.Context(), "root", command, io.Discard))
		}
		do("systemctl stop k3s-agent; rm -r /etc/systemd/system/k3s-agent.service /etc/rancher /var/lib/rancher")
		adopting := parse(t, oneDisk+"nodes: {wk1: {adopt: true}}\n")
		for place, reason := range occupants() {
			do("mkdir -p " + place + "; echo kubelet >" + place + "/comm")
			before := w.now()
			_, err := w.cluster(t, adopting).Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, reason)
			require.ErrorContains(t, err, " cannot be adopted, and is not changed")
			assert.Equal(t, []string{"POST /nodes/pve1/qemu/102/agent/exec"}, before.changes().Proxmox, "it only looks")
			do("rm -r " + place)
		}
	})
}

// A VM whose K3s joined another cluster is not adopted. One of this cluster is, whether its authority proves that, the
// mark of a machine, or the mark of the VM that it was copied from.
func TestAdoptK3s(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, oneDisk))
		w.forget(t, "wk1", "theirs")
		disk := w.guests()["wk1"].Disk()
		const authority = "/var/lib/rancher/k3s/agent/server-ca.crt"
		own := content(t, w.guests()["wk1"], authority)
		require.NoError(t, disk.WriteFile(authority, []byte("another cluster's\n"), 0o644))
		adopting := parse(t, oneDisk+"nodes: {wk1: {adopt: true}}\n")
		adoptable := func() error {
			plan, err := w.cluster(t, adopting).Up().Plan(t.Context())
			require.NoError(t, err)
			return plan.Err()
		}
		err := adoptable()
		require.ErrorContains(t, err, "K3s runs, as agent, on wk1 already, and may belong to another cluster: remove it there (k3s-uninstall.sh")
		require.ErrorContains(t, err, "there is unit k3s-agent.service, file /etc/systemd/system/k3s-agent.service")

		require.NoError(t, disk.WriteFile("/etc/rancher/k3s/homelab.cluster", []byte("disks\n"), 0o644))
		require.NoError(t, adoptable(), "its owner says so")
		require.NoError(t, disk.Remove("/etc/rancher/k3s/homelab.cluster"))
		require.Error(t, adoptable())

		w.configure(t, "wk1", "tags", "homelab-disks;homelab-disks_4711_1b9d6bcd")
		require.NoError(t, adoptable(), "a copy")
		require.NoError(t, disk.WriteFile("/etc/rancher/rke2", nil, 0o644))
		require.ErrorContains(t, adoptable(), "of RKE2 (file /etc/rancher/rke2)")
		require.NoError(t, disk.Remove("/etc/rancher/rke2"))

		w.configure(t, "wk1", "tags", "theirs")
		require.NoError(t, disk.WriteFile(authority, []byte(own), 0o644))
		require.NoError(t, adoptable(), "its authority")
	})
}

// An external machine with the Kubernetes of another tool does not become a node, and is left alone by down.
func TestExternalOccupied(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		keys := filepath.Join(t.TempDir(), "known_hosts")
		for addr, m := range map[string]*guest.Machine{"10.0.0.40": w.external(t, "10.0.0.40"), "10.0.0.41": w.external(t, "10.0.0.41")} {
			defer m.Kill()
			meet(t, keys, addr, m)
			if addr == "10.0.0.41" {
				require.NoError(t, m.Disk().WriteFile("/var/lib/rancher/rke2/server/db/x", nil, 0o644))
				defer func() { assert.False(t, m.Disk().Exists("/usr/local/bin/k3s")) }()
			}
		}
		spec := parse(t, strangers)
		_, err := w.bare(t, spec, keys).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "on the external machine b: Kubernetes is there already, of RKE2 (folder /var/lib/rancher/rke2)")
		w.bareDown(t, spec, keys)
	})
}
