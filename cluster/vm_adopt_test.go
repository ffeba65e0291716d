package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// forget takes our tag and our line of the notes off a VM: from then on it is somebody else's.
func (w *world) forget(t testing.TB, name, tags string) {
	t.Helper()
	w.configure(t, name, "tags", tags)
	w.configure(t, name, "description", "")
}

func (w *world) configure(t testing.TB, name, key, value string) {
	t.Helper()
	id, token := w.sim.Token()
	body := fmt.Sprintf(`{%q:%q}`, key, value)
	if value == "" {
		body = fmt.Sprintf(`{"delete":%q}`, key)
	}
	status := request(t, w.sim.Client(), "PUT", fmt.Sprintf("/nodes/pve1/qemu/%d/config", w.vm(t, name).ID), id+"="+token, body)
	require.Equal(t, 200, status)
}

// A VM that somebody else has made is taken over when the file says so: it gets the
// tag and what the file asks, and is neither formatted nor made anew.
func TestAdopt(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, oneDisk))
		inventory, machines := w.inventory(), w.guests()
		w.forget(t, "wk1", "theirs")
		w.configure(t, "wk1", "description", "mine")

		before := w.now()
		_, err := w.cluster(t, parse(t, oneDisk)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "does not carry the tag homelab-disks: the cluster does not own it, so it is not changed")
		assert.Empty(t, before.changes().Proxmox)

		adopting := oneDisk + "nodes: {wk1: {adopt: true, onboot: false}}\n"
		spec := parse(t, adopting)
		assert.Contains(t, w.plan(t, spec), "vm/wk1: onboot: true → false; tags: theirs → homelab-disks;"+w.mark(t, "homelab-disks", "wk1")+";theirs")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		vm := w.vm(t, "wk1")
		assert.Equal(t, "homelab-disks;"+w.mark(t, "homelab-disks", "wk1")+";theirs", vm.Config["tags"])
		assert.Equal(t, "mine", strings.TrimSpace(vm.Config["description"]))
		for name, m := range w.guests() {
			assert.Same(t, machines[name], m, "%s was not restarted", name)
		}
		assert.Len(t, w.inventory(), len(inventory), "another description")
		assert.True(t, w.nodes(t)["wk1"].Ready)

		var no *cluster.RefusedError
		require.ErrorAs(t, w.verb(t, spec, replacements(t.Context(), "wk1", true)), &no)
		assert.Contains(t, no.Error(), "homelab did not create its machine")
	})
}

func TestAdoptNoFit(t *testing.T) {
	release := func(text string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			require.NoError(t, w.guests()["wk1"].Disk().WriteFile("/etc/os-release", []byte(text), 0o644))
		}
	}
	for name, tc := range map[string]struct {
		change func(t *testing.T, w *world)
		reason string
	}{
		"another cluster's": {func(t *testing.T, w *world) { w.forget(t, "wk1", "homelab-other") }, "it carries the tag homelab-other: it belongs to another cluster"},
		"not there":         {func(t *testing.T, w *world) { w.configure(t, "wk1", "name", "renamed") }, "VM wk1 to adopt"},
		"off": {func(t *testing.T, w *world) {
			w.byHand(t, parse(t, oneDisk), "wk1", "stop")
			w.forget(t, "wk1", "theirs")
		}, "it does not run, so its contents cannot be checked"},
		"another system": {release("NAME=Fedora\nID=fedora\n"), `its system is "fedora", and nodes run Ubuntu or Debian`},
		// NVIDIA's repository for Debian 13 does not fit Debian 12.
		"another release, gpus": {release("ID=debian\nVERSION_ID=\"12\"\n"), "its system is debian-12, and homelab installs NVIDIA's driver on ubuntu-24.04 and debian-13"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				file := oneDisk
				if strings.HasSuffix(name, "gpus") {
					file = strings.Replace(oneDisk, "    disks:", "    gpus: {count: 1}\n    disks:", 1)
				}
				w.up(t, parse(t, file))
				tc.change(t, w)
				if _, tagged := w.vmTags(t)["theirs"]; !tagged && !strings.Contains(name, "another cluster") {
					for _, vm := range []string{"wk1", "renamed"} {
						if w.has(vm) {
							w.forget(t, vm, "theirs")
						}
					}
				}
				before := w.now()
				_, err := w.cluster(t, parse(t, file+"nodes: {wk1: {adopt: true}}\n")).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, tc.reason)
				assert.Empty(t, before.changes().Proxmox)
			})
		})
	}
}

func (w *world) has(name string) bool {
	for _, n := range w.names() {
		if n == name {
			return true
		}
	}
	return false
}

// vmTags are all tags that there are.
func (w *world) vmTags(t testing.TB) map[string]bool {
	out := map[string]bool{}
	for _, name := range w.names() {
		for tag := range strings.SplitSeq(w.vm(t, name).Config["tags"], ";") {
			out[tag] = true
		}
	}
	return out
}

// request is one that is none of ours.
func request(t testing.TB, client *http.Client, method, path, token, body string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://pve1:8006/api2/json"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "PVEAPIToken="+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	return res.StatusCode
}
