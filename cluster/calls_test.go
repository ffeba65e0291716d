package cluster_test

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// recordedCalls is of sim/conform, which measures what it covers of them.
const recordedCalls = "../sim/conform/calls.txt"

// TestCallsOfWholeLives lets clusters live, from nothing to the end, and writes down
// what was asked of Proxmox: every method with the parameters that it was sent.
func TestCallsOfWholeLives(t *testing.T) {
	calls := map[string]map[string]bool{}
	alone := pvesim.OneGPU()
	alone.Hosts[0].Name = "pve" // as the example calls it
	alone.Hosts[0].Storages[1].Name = "local-lvm"
	for name, model := range map[string]pvesim.Model{"one-gpu": alone, "eight-a100": pvesim.EightA100()} {
		synctest.Test(t, func(t *testing.T) { recordCalls(t, name, model, calls) })
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		lines = append(lines, strings.TrimSpace(name+" "+strings.Join(slices.Sorted(maps.Keys(calls[name])), " ")))
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(recordedCalls, []byte(got), 0o644))
		return
	}
	known := map[string][]string{}
	text, err := os.ReadFile(recordedCalls)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		known[f[0]+" "+f[1]] = f[2:]
	}
	for name, params := range calls {
		assert.Contains(t, known, name, "run go test ./cluster -run %s -update", t.Name())
		for k := range params {
			assert.Contains(t, known[name], k, "%s: run go test ./cluster -run %s -update", name, t.Name())
		}
	}
}

func recordCalls(t *testing.T, name string, model pvesim.Model, calls map[string]map[string]bool) {
	kube := &kubesim.Sim{}
	sim := pvesim.New(model, pvesim.Options{Kubernetes: kube})
	defer func() {
		sim.Close()
		for _, c := range kube.Clusters() {
			_ = c.Close()
		}
	}()
	text, err := os.ReadFile("../examples/" + name + "/cluster.yaml")
	require.NoError(t, err)
	spec, err := cluster.Parse("cluster.yaml", examples.WithoutPlatform(text))
	require.NoError(t, err)
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	dir := t.TempDir()
	key := filepath.Join(dir, "id_ed25519")
	require.NoError(t, os.WriteFile(key, private, 0o600))
	signer, err := ssh.LoadSigner(key)
	require.NoError(t, err)
	id, token := sim.Token()

	command := func(do func(c *cluster.Cluster) error) {
		pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve", TokenID: id, TokenSecret: secret.New(token),
			HTTPClient: &http.Client{Transport: sim.Client().Transport}})
		require.NoError(t, err)
		c, err := cluster.New(spec, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{signer}, Dial: sim.Network().Dial, Dir: dir})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, do(c))
		time.Sleep(time.Minute) // all caches have expired
	}
	plan := func(c *cluster.Cluster) error { p, err := c.Up().Plan(t.Context()); return errors.Join(err, p.Err()) }
	up := func(c *cluster.Cluster) error { _, err := c.Up().Run(t.Context(), nil); return err }
	command(plan)
	command(up)
	command(up)
	command(func(c *cluster.Cluster) error {
		g, _ := c.GPUVerify(cluster.VerifyQuick, 0)
		_, err := g.Run(t.Context(), nil)
		return err
	})
	command(func(c *cluster.Cluster) error {
		g, err := c.Down(t.Context())
		if err == nil {
			_, err = g.Run(t.Context(), nil)
		}
		return err
	})
	for _, r := range sim.Requests() {
		if !assert.NotEmpty(t, r.Route, "pvesim does not serve the method %s %s", r.Method, r.Path) {
			continue
		}
		if calls[r.Route] == nil {
			calls[r.Route] = map[string]bool{}
		}
		for k := range r.Params {
			if !strings.Contains(r.Route, "{"+k+"}") {
				calls[r.Route][oneOf(k)] = true
			}
		}
	}
}

var numbered = regexp.MustCompile(`^(hostpci|ide|ipconfig|net|numa|sata|scsi|serial|usb|virtio|unused)\d+$`)

// oneOf writes net3 as net[n].
func oneOf(k string) string {
	if m := numbered.FindStringSubmatch(k); m != nil {
		return m[1] + "[n]"
	}
	return k
}
