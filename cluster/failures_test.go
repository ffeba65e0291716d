package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// small is a server and a worker with the one card of pvesim.OneGPU.
const small = `
name: small
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 2, memory: 4GiB}
  gpu1: {role: agent, address: 10.0.0.21, cores: 8, memory: 32GiB, gpus: 1}
`

// failure is one thing that really happens, and what a person is to read of it.
// Messages are kept whole in testdata/failures, one file each: read them.
type failure struct {
	name    string
	arrange func(*world)
	spec    func(string) string // changes the file
	after   bool                // happens to a cluster that is there
	step    string              // the step that fails; "" for dialling
}

func failures() []failure {
	fault := func(f guest.Faults) func(*world) {
		return func(w *world) {
			w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Skip: 1, Times: -1, Guest: &f}) // not the template's
		}
	}
	rule := func(r pvesim.Rule) func(*world) { return func(w *world) { w.sim.Fail(r) } }
	return []failure{
		{name: "refused-permission", step: "proxmox", arrange: func(w *world) { w.sim.Revoke("VM.Clone") }},
		{name: "missing-storage", step: "proxmox", spec: func(s string) string { return strings.Replace(s, "storage: vmdata", "storage: fast", 1) }},
		{name: "storage-without-content", step: "proxmox", spec: func(s string) string { return s + "image: {storage: vmdata}\n" }},
		{name: "locked-vm", step: "vm/gpu1", after: true,
			spec:    func(s string) string { return strings.Replace(s, "32GiB", "16GiB", 1) },
			arrange: func(w *world) { w.lock("gpu1", "backup") }},
		{name: "lock-timeout-for-ever", step: "vm/cp1", arrange: rule(pvesim.Rule{
			Path: `.*/clone`, Times: -1, TaskError: "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout"})},
		{name: "host-unreachable-596", step: "seed/cp1", arrange: rule(pvesim.Rule{
			Path: `/nodes/pve1/storage/local/content`, Times: -1, Status: 596, Message: "Connection timed out"})},
		{name: "stale-mapping", step: "proxmox", arrange: func(w *world) { w.mapping("card", "0000:0a:00") },
			spec: func(s string) string { return strings.Replace(s, "gpus: 1", "gpus: {mapping: [card]}", 1) }},
		{name: "no-free-gpu", step: "proxmox", spec: func(s string) string { return strings.Replace(s, "gpus: 1", "gpus: 2", 1) }},
		{name: "gpu-of-a-stopped-vm", step: "proxmox", spec: func(s string) string { return strings.Replace(s, "gpus: 1", "gpus: {pci: ['01:00']}", 1) },
			arrange: func(w *world) {
				w.sim.AddVM(pvesim.VM{ID: 300, Node: "pve1", Name: "win11", Config: map[string]string{"memory": "512", "onboot": "1", "hostpci0": "0000:01:00,pcie=1"}})
			}},
		{name: "gpu-taken-later", step: "gpus/gpu1", after: true, arrange: func(w *world) {
			w.sim.AddVM(pvesim.VM{ID: 300, Node: "pve1", Name: "win11", Config: map[string]string{"memory": "512", "hostpci0": "01:00"}})
		}},
		{name: "guest-never-answers", step: "guest/cp1", arrange: fault(guest.Faults{NeverBoots: true})},
		{name: "package-mistyped", step: "template/pve1", spec: func(s string) string { return s + "guest: {packages: [htopp]}\n" }},
		{name: "kernel-module-mistyped", step: "guest/cp1", spec: func(s string) string { return s + "guest: {kernelModules: [wiregard]}\n" }},
		{name: "ssh-refuses", step: "guest/cp1", arrange: fault(guest.Faults{SSHRefuses: true})},
		{name: "driver-not-loaded", step: "driver/gpu1", arrange: fault(guest.Faults{DriverFailsToLoad: true})},
		{name: "dkms-does-not-build", step: "template/pve1", spec: func(s string) string { return s + "image: debian-13\nnvidia: {driver: {mode: dkms}}\n" },
			arrange: rule(pvesim.Rule{Path: `.*/status/start`, Times: -1, Guest: &guest.Faults{ModuleDoesNotBuild: true}})},
		{name: "node-never-ready", step: "node/gpu1", arrange: func(w *world) {
			f := guest.Faults{NodeNeverReady: true}
			w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Skip: 2, Times: -1, Guest: &f})
		}},
		{name: "foreign-vm-of-that-name", step: "proxmox", arrange: func(w *world) {
			w.sim.AddVM(pvesim.VM{ID: 300, Node: "pve1", Name: "gpu1", Config: map[string]string{"cores": "1", "memory": "512"}})
		}},
		{name: "image-not-there", step: "template/pve1", spec: func(s string) string {
			return s + "image: {url: 'https://cloud-images.ubuntu.com/nowhere/x.img', sha256: " + strings.Repeat("0", 64) + "}\n"
		}},
		{name: "image-checksum", step: "template/pve1", spec: func(s string) string {
			return s + "image: {url: 'https://cloud-images.ubuntu.com/releases/noble/release-20260826/ubuntu-24.04-server-cloudimg-amd64.img', sha256: " + strings.Repeat("0", 64) + "}\n"
		}},
	}
}

// TestFailuresAreOneMessage shows, for each class of failure, what a person reads.
func TestFailuresAreOneMessage(t *testing.T) {
	for _, f := range failures() {
		t.Run(f.name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				text := small
				if f.after {
					w.up(t, parse(t, text))
				}
				if f.arrange != nil {
					f.arrange(w)
				}
				if f.spec != nil {
					text = f.spec(text)
				}
				c := w.cluster(t, parse(t, text))
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				report, err := c.Up().Run(ctx, w.listen(t))
				require.Error(t, err)
				require.NoError(t, ctx.Err(), "it must give up by itself")
				step, ok := report.Step(f.step)
				require.True(t, ok, f.step)
				require.Error(t, step.Err, "%s ended as %s; the errors are: %v", f.step, step.Kind, err)
				golden(t, "failures/"+f.name+".txt", step.Step+": "+downloadTime.ReplaceAllString(step.Err.Error(), "2000-01-01 00:00:00")+"\n")
				for _, s := range report.Steps {
					assert.True(t, s.Kind.Final(), "%s ended as %q", s.Step, s.Kind)
				}
			})
		})
	}
}

// downloadTime is when a download began or failed, in the log of its task.
var downloadTime = regexp.MustCompile(`2000-01-01 \d\d:\d\d:\d\d`)

func TestWrongTokenIsOneMessage(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		id, _ := w.sim.Token()
		_, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New("11111111-2222-3333-4444-555555555555"), HTTPClient: w.sim.Client()})
		require.Error(t, err)
		golden(t, "failures/wrong-token.txt", err.Error()+"\n")
		assert.NotContains(t, err.Error(), "5555")
	})
}

// TestTransientFailuresAreSurvived meets each that passes by itself, once.
func TestTransientFailuresAreSurvived(t *testing.T) {
	for name, r := range map[string]pvesim.Rule{
		"lock timeout":       {Path: `.*/clone`, TaskError: "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout"},
		"lock timeout, 500":  {Path: `.*/resize`, Status: 500, Message: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
		"no worker":          {Path: `.*/status/start`, Status: 500, Message: "got no worker upid - start worker failed"},
		"596 before effect":  {Path: `.*/clone`, Status: 596, Message: "Connection timed out"},
		"596 after effect":   {Path: `.*/clone`, Status: 596, Message: "Connection timed out", After: true},
		"lost answer":        {Path: `.*/upload`, Drop: true, After: true},
		"lost start":         {Path: `.*/status/start`, Drop: true, After: true, Skip: 1},
		"GET cut off":        {Method: "GET", Path: `/cluster/resources`, Drop: true},
		"config lost":        {Path: `.*/config`, Drop: true, After: true, Skip: 1},
		"task with warnings": {Path: `.*/status/start`, TaskWarnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spec := parse(t, small)
				fault := w.sim.Fail(r)
				c := w.cluster(t, spec)
				_, err := c.Up().Run(t.Context(), w.listen(t))
				c.Close()
				assert.Positive(t, fault.Hits())
				if err != nil { // what is not retried by itself is by the next run
					var se *converge.StepError
					require.ErrorAs(t, err, &se)
					t.Logf("this run stopped: %s", err)
					w.up(t, spec)
				}
				assert.Empty(t, w.plan(t, spec))
				assert.Len(t, w.names(), 3, "%v", w.names())
			})
		})
	}
}

// golden compares with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// lock puts a lock on a VM, as a backup does.
func (w *world) lock(name, kind string) {
	for _, vm := range w.sim.VMs() {
		if vm.Name == name {
			w.sim.LockVM(vm.ID, kind)
		}
	}
}

// mapping makes a resource mapping that does not fit the hardware.
func (w *world) mapping(id, path string) {
	w.sim.AddMapping(id, "", "node=pve1,path="+path+",id=10de:2684,iommugroup=99,subsystem-id=1043:88e2")
}
