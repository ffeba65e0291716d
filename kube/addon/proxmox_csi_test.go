package addon_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// What the driver reads: storage.proxmox.ca, else that of proxmox; no check of the certificate only without either.
func TestProxmoxCSIConfig(t *testing.T) {
	own, host := written(t, "OWN"), written(t, "HOST")
	for _, x := range []struct {
		proxmox          spec.Proxmox
		ca, url, trusted string
		insecure         string
	}{
		{spec.Proxmox{Endpoint: "pve"}, "", "https://pve:8006/api2/json", "", "false"},
		{spec.Proxmox{Endpoint: "https://[fd00::5]:443/"}, "", "https://[fd00::5]:443/api2/json", "", "false"},
		{spec.Proxmox{Endpoint: "lab"}, "", "https://pve1:8006/api2/json", "", "false"},
		{spec.Proxmox{Endpoint: "pve", CAFile: host}, "", "https://pve:8006/api2/json", "HOST", "false"},
		{spec.Proxmox{Endpoint: "pve", CAFile: host}, own, "https://pve:8006/api2/json", "OWN", "false"},
		{spec.Proxmox{Endpoint: "pve", Fingerprint: "AA"}, own, "https://pve:8006/api2/json", "OWN", "false"},
		{spec.Proxmox{Endpoint: "pve", Insecure: true}, "", "https://pve:8006/api2/json", "", "true"},
		{spec.Proxmox{Endpoint: "pve", Insecure: true}, own, "https://pve:8006/api2/json", "OWN", "false"},
	} {
		d := disks(told(t, "5eed"))
		d.CAFile, x.proxmox.Region = x.ca, "home"
		recipe, err := addon.ProxmoxCSI{ProxmoxCSI: d}.Make(&addon.Site{Proxmox: x.proxmox})
		require.NoError(t, err)
		data := recipe.Secrets[0].Data
		assert.Equal(t, "clusters:\n- insecure: "+x.insecure+"\n  region: home\n  token_id: homelab@pve!csi\n  token_secret: 5eed\n  url: "+x.url+"\n", data["config.yaml"].Reveal())
		assert.Equal(t, x.trusted, data["ca.crt"].Reveal())
		assert.Equal(t, x.trusted != "", recipe.Release.Values["extraVolumeMounts"] != nil)
	}
	d := disks(told(t, "5eed"))
	d.CAFile = filepath.Join(t.TempDir(), "none")
	_, err := addon.ProxmoxCSI{ProxmoxCSI: d}.Make(&addon.Site{Proxmox: spec.Proxmox{Endpoint: "pve", Region: "home"}})
	assert.ErrorContains(t, err, "storage.proxmox.ca")
}
