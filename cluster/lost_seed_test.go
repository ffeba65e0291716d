package cluster_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/iso"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const (
	instanceFile = "/var/lib/cloud/data/instance-id"
	hostKeyFile  = "/etc/ssh/ssh_host_ed25519_key.pub"
)

// instanceOf is the instance-id of a seed.
func instanceOf(t testing.TB, seed []byte) string {
	t.Helper()
	files, _, err := iso.Read(seed)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^instance-id: "?([^"\n]+)`).FindSubmatch(files["meta-data"])
	require.NotNil(t, found, "%s", files["meta-data"])
	return string(found[1])
}

// An ISO that somebody has deleted is made again with the machine's own instance-id, also by
// somebody with other keys, and for an NFS server also if the file says something else since: with
// another id cloud-init would take the machine for a new one when it starts again.
func TestALostSeed(t *testing.T) {
	for node, change := range map[string]string{"cp1": "", "files-nfs": "guest: {sysctls: {vm.swappiness: '1'}}\n"} {
		inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
			text := withServer + "charts: {folder: " + charts(t) + ", offline: true}\n"
			w.up(t, parse(t, text))
			id, key := content(t, w.guests()[node], instanceFile), content(t, w.guests()[node], hostKeyFile)
			iso, _, _ := strings.Cut(w.vm(t, node).Config["ide2"], ",")
			c := w.cluster(t, parse(t, text))
			require.NoError(t, c.Proxmox.Storages.Delete(t.Context(), "pve1", iso))
			c.Close()

			w.keys = tokenKey(t, w.token)
			spec := parse(t, text+change)
			assert.Contains(t, w.plan(t, spec), "seed/"+node+": first-boot ISO on local")
			c = w.cluster(t, spec)
			_, err := c.Up().Run(t.Context(), w.listen(t))
			c.Close()
			require.Equal(t, change == "", err == nil, "the nodes would have to be replaced: %v", err)
			assert.Equal(t, id, instanceOf(t, w.sim.ReadVolume("pve1", iso))+"\n")
			w.byHand(t, spec, node, "stop")
			w.up(t, parse(t, text))
			assert.Equal(t, key, content(t, w.guests()[node], hostKeyFile), "it is no new machine")
			assert.Empty(t, w.plan(t, parse(t, text)))
		})
	}
}
