package session

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// roleOf runs the command as mage does, and returns what it said and printed.
func roleOf(t *testing.T, file string, o Options, f HostRoleFlags) (said, printed string, err error) {
	t.Helper()
	o.Spec = filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(o.Spec, []byte(file), 0o600))
	out, err := os.CreateTemp(t.TempDir(), "stdout")
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = out
	defer func() { os.Stdout = stdout }()
	var failure error
	said = talking(t, func() { failure = HostRole(t.Context(), o, f) })
	require.NoError(t, out.Close())
	b, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return said, string(b), failure
}

const roleSpec = `name: small
proxmox: {endpoint: "ENDPOINT", token: homelab@pve!operator, secret: "env:HOST_ROLE_SECRET"FINGERPRINT}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1}
defaults: {storage: vmdata}
nodes: {one: {role: server, host: pve1, address: 192.168.1.9, gpus: 1}}
`

func TestHostRoleWithoutAHost(t *testing.T) {
	file := strings.NewReplacer("ENDPOINT", "https://127.0.0.1:1", "FINGERPRINT", "").Replace(roleSpec)
	said, printed, err := roleOf(t, file, Options{}, HostRoleFlags{})
	require.NoError(t, err)
	assert.Contains(t, said, "This is for Proxmox VE 9; the host's version is unknown (")
	assert.Contains(t, said, "cluster.yaml:2:81: proxmox.secret: environment variable HOST_ROLE_SECRET is not set")
	assert.Contains(t, said, "-pve=8.4")
	assert.Contains(t, printed, "pveum acl modify /vms --tokens 'homelab@pve!operator' --roles homelab-small-vms --propagate 1\n")
	assert.Contains(t, printed, "VM.GuestAgent.Unrestricted")

	t.Setenv("HOST_ROLE_SECRET", "5eed5eed")
	said, _, err = roleOf(t, file, Options{}, HostRoleFlags{})
	require.NoError(t, err)
	assert.Contains(t, said, "cluster.yaml:2:21: proxmox: 127.0.0.1:1 cannot be reached")
	assert.NotContains(t, said, "5eed5eed")

	said, printed, err = roleOf(t, file, Options{}, HostRoleFlags{PVE: "8.4"})
	require.NoError(t, err)
	assert.Empty(t, said)
	assert.Contains(t, printed, "VM.Monitor: read SSH host keys")
	assert.NotContains(t, printed, "VM.GuestAgent")

	_, _, err = roleOf(t, file, Options{}, HostRoleFlags{PVE: "7.4"})
	assert.Equal(t, invalid, code(err))
	assert.EqualError(t, err, "-pve=7.4: write the version of Proxmox VE, 8.4 or 9")
}

func TestHostRoleAsksTheHost(t *testing.T) {
	model := pvesim.OneGPU()
	model.Version = "8.4.14"
	model.Roles[0].Privs = append(model.Roles[0].Privs, "VM.Monitor")
	sim := pvesim.New(model, pvesim.Options{})
	defer sim.Close()
	cert, fingerprint, err := sim.TLS()
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(sim.Handler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	defer server.Close()
	_, token := sim.Token()
	t.Setenv("HOST_ROLE_SECRET", token)
	file := strings.NewReplacer("ENDPOINT", server.URL, "FINGERPRINT", `, fingerprint: "`+fingerprint+`"`).Replace(roleSpec)

	said, printed, err := roleOf(t, file, Options{}, HostRoleFlags{})
	require.NoError(t, err)
	assert.Contains(t, said, "homelab@pve!operator has all of this on "+strings.TrimPrefix(server.URL, "https://")+" (Proxmox VE 8.4.14); nothing to do.")
	assert.Contains(t, printed, "on Proxmox VE 8.\n")
	assert.Contains(t, printed, "VM.Monitor")

	sim.Revoke("VM.Clone", "Datastore.Audit")
	said, printed, err = roleOf(t, file, Options{JSON: true}, HostRoleFlags{})
	require.NoError(t, err)
	assert.Contains(t, said, "homelab@pve!operator lacks VM.Clone on /vms and what lies below\n")
	assert.Contains(t, said, "homelab@pve!operator lacks Datastore.Audit on /storage/local\n")
	first, _, _ := bytes.Cut([]byte(printed), []byte("\n"))
	var r role
	require.NoError(t, json.Unmarshal(first, &r), printed)
	assert.Equal(t, "/vms", r.Path)
	assert.True(t, r.Propagate)
	assert.Len(t, r.Commands, 3)
	for _, request := range sim.Requests() {
		assert.False(t, request.Mutating, "%s %s", request.Method, request.Path)
	}
}
