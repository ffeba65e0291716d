package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/proxmoxcsi"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const proxmoxStorage = `
name: disks
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  wk1: {address: 10.0.0.21, disks: {scratch: {size: 10GiB, mount: /scratch}}}
  wk2: {address: 10.0.0.22}
storage: {default: proxmox, proxmox: {storage: vmdata, token: homelab@pve!csi, secret: "file:SECRET"}}
charts: {folder: CHARTS, offline: true}
`

// claimToken has root make the tokens that host:role prints, and writes the file with the secret of the driver's.
func (w *world) claimToken(t testing.TB) *spec.Spec {
	t.Helper()
	file := filepath.Join(w.dir, "csi")
	text := strings.NewReplacer("SECRET", file, "CHARTS", charts(t)).Replace(proxmoxStorage)
	require.NoError(t, os.WriteFile(file, []byte("not yet"), 0o600))
	s := parse(t, text)
	said, err := remote.Output(t.Context(), w.rootShell(t, "pve1"), "sh", "-c", hostprep.RoleScript(s, proxmox.Version{Version: "9.2.11"}, "homelab@pve!disks"))
	require.NoError(t, err)
	secrets := tokenSecret.FindAll(said, -1)
	require.Len(t, secrets, 2, "homelab's, and the driver's")
	require.NoError(t, os.WriteFile(file, secrets[1], 0o600))
	return parse(t, text)
}

// storageDriver is Proxmox's driver, with the configuration that the cluster has.
func (w *world) storageDriver(t testing.TB) *proxmoxcsi.Controller {
	t.Helper()
	config := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "csi-proxmox", Name: "proxmox-csi-config"}}
	require.NoError(t, w.api(t).Get(t.Context(), config))
	c, err := proxmoxcsi.New(config.Data["config.yaml"], w.sim.Client(), time.Second)
	require.NoError(t, err)
	return c
}

// storageNode is a node as the driver sees it.
func (w *world) storageNode(t testing.TB, name string) proxmoxcsi.Node {
	return proxmoxcsi.Node{Name: name, ProviderID: w.nodes(t)[name].ProviderID}
}

// A volume is attached to one machine after the other, each time in the first slot that is free; the cluster has nothing to
// change meanwhile. It outlives a replaced machine and the cluster, and the driver's own token is enough for all of it.
func TestVolumeFollowsItsPod(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		file := w.claimToken(t)
		w.up(t, file)
		assert.Empty(t, w.plan(t, file))
		driver := w.storageDriver(t)

		claim, err := driver.Create(t.Context(), "pvc-4f1d3a52-7c1e-4bb0-9a39-5d0f0c1f7a11", "vmdata", "pve1", 10<<30)
		require.NoError(t, err)
		assert.Equal(t, proxmoxcsi.Volume{ID: "disks/pve1/vmdata/vm-9999-pvc-4f1d3a52-7c1e-4bb0-9a39-5d0f0c1f7a11", Zones: []string{"pve1"}}, claim)
		assert.True(t, w.hasClaim())
		for _, step := range []struct{ node, slot string }{{"wk1", "scsi2"}, {"wk2", "scsi1"}, {"wk1", "scsi2"}} {
			slot, err := driver.Attach(t.Context(), claim.ID, w.storageNode(t, step.node))
			require.NoError(t, err)
			assert.Equal(t, step.slot, slot, "the first that is free on %s", step.node)
			again, err := driver.Attach(t.Context(), claim.ID, w.storageNode(t, step.node))
			require.NoError(t, err)
			assert.Equal(t, slot, again)
			assert.Contains(t, w.vm(t, step.node).Config[slot], claimVolume+",")
			assert.Empty(t, w.plan(t, file), "on %s", step.node)
			assert.Empty(t, w.examine(t, file))
			require.NoError(t, driver.Detach(t.Context(), claim.ID, w.storageNode(t, step.node)))
			assert.NotContains(t, fmt.Sprint(w.vm(t, step.node).Config), claimVolume)
		}

		require.ErrorContains(t, driver.Grow(t.Context(), claim.ID, 20<<30), "cannot resize unpublished")
		_, err = driver.Attach(t.Context(), claim.ID, w.storageNode(t, "wk2"))
		require.NoError(t, err)
		require.NoError(t, driver.Grow(t.Context(), claim.ID, 20<<30))
		assert.Contains(t, w.vm(t, "wk2").Config["scsi1"], "size=20G")

		require.NoError(t, w.verb(t, file, replacements(t.Context(), "wk2", false)))
		assert.Contains(t, w.output.String(), claimVolume+" stays")
		_, err = driver.Attach(t.Context(), claim.ID, w.storageNode(t, "wk2"))
		require.NoError(t, err, "to the machine that took its place")
		w.down(t, file)
		assert.Equal(t, 2, strings.Count(w.output.String(), claimVolume+" stays"))
		assert.Equal(t, []string{claimVolume}, w.claims())
		require.NoError(t, driver.Delete(t.Context(), claim.ID))
		require.NoError(t, driver.Delete(t.Context(), claim.ID), "it is gone")
		assert.Empty(t, w.claims())
	})
}

// claims are the volumes of claims that Proxmox has.
func (w *world) claims() (out []string) {
	for _, v := range w.sim.Volumes() {
		if v.Owner == 9999 {
			out = append(out, v.ID)
		}
	}
	return out
}

// Without any one of the privileges that host:role grants the driver's token, something of a volume's life fails.
func TestEveryClaimGrantIsNeeded(t *testing.T) {
	need := hostprep.ClaimGrants(parse(t, strings.NewReplacer("file:SECRET", "env:PROXMOX_SECRET", "CHARTS", charts(t)).Replace(proxmoxStorage)))
	all := without(need)
	require.Len(t, all, 5)
	all["/none none"] = need
	for what, given := range all {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := pvesim.OneGPU()
				const token = "csi@pve!disks" // a user of its own: the operator has its rights from above
				m.Users, m.Tokens = append(m.Users, pvesim.User{ID: "csi@pve"}), append(m.Tokens, pvesim.Token{ID: token, Secret: "5eed", PrivSep: true})
				for _, r := range proxmox.Roles("csi", given) {
					m.Roles = append(m.Roles, pvesim.Role{ID: r.Name, Privs: r.Privileges})
					for _, who := range []string{"csi@pve", token} {
						m.ACLs = append(m.ACLs, pvesim.ACL{Path: r.Path, Who: who, Role: r.Name, NoPropagate: !r.Propagate})
					}
				}
				w := newWorld(t, m)
				user, operator := w.sim.Token()
				require.Equal(t, 200, request(t, w.sim.Client(), "POST", "/nodes/pve1/qemu", user+"="+operator, `{"vmid":201,"name":"wk1","scsihw":"virtio-scsi-single"}`))
				w.sim.Settle()
				driver, err := proxmoxcsi.New([]byte("clusters: [{url: 'https://pve1:8006/api2/json', region: r, token_id: '"+token+"', token_secret: 5eed}]"), w.sim.Client(), time.Second)
				require.NoError(t, err)
				if err := lifeOfVolume(t, driver); what == "/none none" {
					require.NoError(t, err)
				} else {
					require.Error(t, err)
				}
				if what == "/none none" {
					assert.Empty(t, w.claims())
				}
			})
		})
	}
}

func lifeOfVolume(t testing.TB, driver *proxmoxcsi.Controller) error {
	node := proxmoxcsi.Node{Name: "wk1", ProviderID: "proxmox://r/201"}
	v, err := driver.Create(t.Context(), "pvc-1", "vmdata", "pve1", 1<<30)
	if err != nil {
		return err
	}
	if _, err := driver.Attach(t.Context(), v.ID, node); err != nil {
		return err
	}
	if err := driver.Grow(t.Context(), v.ID, 2<<30); err != nil {
		return err
	}
	if err := driver.Detach(t.Context(), v.ID, node); err != nil {
		return err
	}
	return driver.Delete(t.Context(), v.ID)
}
