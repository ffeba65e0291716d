package preflight_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var update = flag.Bool("update", false, "write the golden files anew")

const tag = "homelab-small"

// gpuNode is the one machine that most tests want.
func gpuNode() preflight.VM {
	return preflight.VM{
		Name: "gpu1", Host: "pve1", Cores: 8, Memory: 32 * proxmox.GiB, CPUType: "host",
		NICs: []proxmox.NIC{{Bridge: "vmbr0"}}, Disks: []proxmox.Disk{{Storage: "vmdata", Size: 100 * proxmox.GiB}},
		GPUs: preflight.GPUs{Count: 1},
	}
}

// want is a file with one machine with one GPU.
func want() preflight.Requirements {
	return preflight.Requirements{
		Owner: tag, Role: "Homelab",
		Hosts: []preflight.Host{{Name: "pve1", Storages: uses()}},
		VMs:   []preflight.VM{gpuNode()},
		Grants: []proxmox.Grant{{Path: "/vms", Privileges: []string{"VM.Clone", "VM.Allocate"}, Propagate: true, Reason: "clone machines from the template"},
			{Path: "/storage/vmdata", Privileges: []string{"Datastore.AllocateSpace"}}},
		Driver: &nvidia.Policy{}, Release: "noble",
		Mappings: func(id, _ string) bool { return id == "small_gpu1" },
	}
}

func uses() []preflight.StorageUse {
	return []preflight.StorageUse{
		{Storage: "local", Content: "iso", Purpose: "first-boot ISOs"},
		{Storage: "local", Content: "import", Purpose: "the cloud image"},
		{Storage: "vmdata", Content: "images", Purpose: "the disk of gpu1"},
	}
}

// check runs all checks against a model.
func check(t *testing.T, model pvesim.Model, w preflight.Requirements, arrange func(*pvesim.Sim), o preflight.Options) (*preflight.Report, []string) {
	t.Helper()
	var report *preflight.Report
	var changed []string
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(model, pvesim.Options{})
		defer sim.Close()
		if arrange != nil {
			arrange(sim)
		}
		var err error
		report, err = preflight.Check(t.Context(), dial(t, sim), w, o)
		require.NoError(t, err)
		for _, r := range sim.Requests() {
			if r.Mutating {
				changed = append(changed, r.Method+" "+r.Path)
			}
		}
	})
	return report, changed
}

func dial(t testing.TB, sim *pvesim.Sim) *proxmox.Client {
	t.Helper()
	id, token := sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: sim.Client().Transport}})
	require.NoError(t, err)
	return c
}

// text is what is wrong, as a person would read it.
func text(r *preflight.Report) string {
	var b bytes.Buffer
	for _, f := range r.Findings {
		if f.Verdict == preflight.Warning || f.Verdict == preflight.Error {
			b.WriteString(string(f.Verdict) + " [" + f.Subject + "] " + f.String() + "\n")
		}
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestHealthyHostsAreSilent(t *testing.T) {
	twice := want()
	other := gpuNode()
	other.Name, other.Host = "gpu2", "pve2"
	twice.Hosts = append(twice.Hosts, preflight.Host{Name: "pve2", Storages: uses()})
	twice.VMs = append(twice.VMs, other)
	for name, site := range map[string]struct {
		model pvesim.Model
		want  preflight.Requirements
	}{"one-gpu": {pvesim.OneGPU(), want()}, "eight-a100": {pvesim.EightA100(), want()}, "two-hosts": {pvesim.TwoHosts(), twice}} {
		t.Run(name, func(t *testing.T) {
			r, changed := check(t, site.model, site.want, nil, preflight.Options{})
			assert.Empty(t, text(r))
			assert.Equal(t, preflight.OK, r.Worst())
			require.NoError(t, r.Err())
			assert.Empty(t, changed)
			for _, f := range r.Findings {
				b, _ := json.Marshal(f)
				t.Log(string(b))
			}
		})
	}
}

// What cannot be read is not taken for right: a check that needs it says so.
func TestListsThatCannotBeRead(t *testing.T) {
	model, w := pvesim.TwoHosts(), want()
	model.VMs = append(model.VMs, pvesim.VM{ID: 110, Node: "pve1", Name: "gpu1", Running: true, Config: map[string]string{
		"cores": "8", "memory": "32768", "machine": "q35", "bios": "ovmf", "tags": marked(110), "smbios1": uuid}})
	other := gpuNode()
	other.Name, other.VMID, other.Pool = "gpu2", 111, "lab"
	w.VMs = append(w.VMs, other)
	var asked []string
	healthy, _ := check(t, model, w, nil, preflight.Options{})
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(model, pvesim.Options{})
		defer sim.Close()
		c := dial(t, sim)
		sim.ForgetRequests()
		_, err := preflight.Check(t.Context(), c, w, preflight.Options{})
		require.NoError(t, err)
		for _, r := range sim.Requests() {
			if r.Path != "/nodes" && !strings.HasSuffix(r.Path, "/qemu") && !strings.Contains(r.Path, "/token/") { // nothing to check; in another list too; not seen anyway
				asked = append(asked, r.Path)
			}
		}
	})
	assert.Contains(t, asked, "/cluster/nextid", "whether 111 is free")
	for _, path := range asked {
		r, _ := check(t, model, w, func(s *pvesim.Sim) {
			s.Fail(pvesim.Rule{Path: "^" + regexp.QuoteMeta(path) + "$", Times: -1, Status: 400, Message: "broken"})
		}, preflight.Options{})
		assert.NotEqual(t, healthy.Findings, r.Findings, path)
	}
	broken := w
	broken.Clones = func(context.Context, string) (map[string]proxmox.Cloning, error) { return nil, errors.New("no clones") }
	broken.VMs[1].Devices = 1
	broken.Devices = func(context.Context, string) error { return errors.New("it is taken") }
	r, _ := check(t, model, broken, nil, preflight.Options{})
	assert.Contains(t, text(r), "no clones")
	assert.Contains(t, text(r), "it is taken")
}

// TestEachListIsReadOnce counts what all checks together ask.
func TestEachListIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.EightA100(), pvesim.Options{})
		defer sim.Close()
		c := dial(t, sim)
		sim.ForgetRequests()
		_, err := preflight.Check(t.Context(), c, want(), preflight.Options{})
		require.NoError(t, err)
		asked := map[string]int{}
		for _, r := range sim.Requests() {
			asked[r.Path+"?"+r.Params.Encode()]++
		}
		for what, times := range asked {
			assert.Equal(t, 1, times, what)
		}
		assert.LessOrEqual(t, len(asked), 16, "one host, and two VMs of others: %v", asked)
		t.Log(len(asked), asked)

		sim.ForgetRequests()
		_, err = preflight.Check(t.Context(), dial(t, sim), want(), preflight.Options{Brief: true})
		require.NoError(t, err)
		assert.Len(t, sim.Requests(), 4, "version, all VMs, those of the host as they are, storages")
	})
}
