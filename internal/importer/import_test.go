package importer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

var update = flag.Bool("update", false, "write testdata/want and the table of docs/import.md")

// inputs are those of the table in docs/import.md.
func inputs() []struct{ from, title string } {
	return []struct{ from, title string }{
		{"tofu-k3s/env/lab.tfvars", "OpenTofu: variables of K3s with a map of GPU workers"},
		{"gpu-cluster", "Terraform with `proxmox_vm_qemu`, and Ansible with group_vars: K3s, GPUs, NFS, Rancher"},
		{"talos-map", "OpenTofu: a map of Talos nodes with defaults"},
		{"talos-one", "Terraform: one Talos node with a GPU"},
		{"kubeadm", "Ansible: an inventory filled from a `.env`, kubeadm with CRI-O, Cilium and Ceph"},
		{"template", "A template's `cluster.yaml` and `nodes.yaml`: Talos on bare metal"},
	}
}

func imported(t *testing.T, from string, o Options) *Result {
	t.Helper()
	r, err := Import(filepath.Join("testdata", from), "cluster.yaml", o)
	require.NoError(t, err)
	return r
}

// report is all that a result says.
func report(r *Result) string {
	var b strings.Builder
	b.WriteString(r.Text + "---\n")
	for _, s := range r.Settings {
		fate := [...]string{"no place", "carried", "secret", "needless"}[s.Fate]
		fmt.Fprintf(&b, "%-8s %s %s", fate, s.Place, s.Name)
		for _, more := range []string{strings.Join(s.Keys, " "), s.Env, s.Reason} {
			if more != "" {
				b.WriteString(": " + more)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("---\n" + strings.Join(r.Notes, "\n") + "\n---\n" + r.Missing.Error() + "\n")
	return b.String()
}

func TestImport(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // paths of keys exist nowhere
	for _, in := range inputs() {
		r := imported(t, in.from, Options{})
		name, _, _ := strings.Cut(in.from, "/")
		file := filepath.Join("testdata", "want", name+".txt")
		got := strings.ReplaceAll(report(r), os.Getenv("HOME"), "HOME")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), got, "go test ./internal/importer -update, and read the difference")
		assert.Empty(t, r.Missing, in.from)
	}
}

// TestEachSettingIsTold: the file has the keys that settings name, and what it does not have has a reason. No secret is
// in any text.
func TestEachSettingIsTold(t *testing.T) {
	for _, in := range inputs() {
		for _, o := range []Options{{}, {Lab: true}, {Adopt: true, Name: "other"}} {
			r := imported(t, in.from, o)
			told(t, r)
			assert.NotContains(t, report(r), "deadbeef", in.from)
			assert.Empty(t, r.Missing, in.from)
		}
	}
}

// told checks that each setting has a fate that is true.
func told(t *testing.T, r *Result) {
	t.Helper()
	budget := maxNodes
	reader := yamlnode.Reader{Budget: &budget, Odd: func(o yamlnode.Oddity) { assert.Fail(t, "odd", "%v\n%s", o, r.Text) }}
	docs, err := reader.Read([]byte(r.Text))
	require.NoError(t, err, r.Text)
	require.Len(t, docs, 1)
	for _, s := range r.Settings {
		for _, key := range s.Keys {
			assert.NotNil(t, docs[0].Get(strings.Split(key, ".")...), "%s of %s is not in\n%s", key, s.Name, r.Text)
		}
		switch s.Fate {
		case Carried:
			assert.NotEmpty(t, s.Keys, s.Name)
		case Secret:
			assert.NotEmpty(t, s.Env, s.Name)
		default:
			assert.NotEmpty(t, s.Reason, s.Name)
			assert.Empty(t, s.Keys, s.Name)
		}
	}
}

// TestPage: the share of settings that the page names is that of the code.
func TestPage(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	const begin, end = "<!-- shares -->\n", "<!-- end of shares -->"
	var b strings.Builder
	b.WriteString("\n| input | settings | carried over | secrets, as references | need none here | without a place |\n|---|---:|---:|---:|---:|---:|\n")
	for _, in := range inputs() {
		r := imported(t, in.from, Options{})
		all := len(r.Settings)
		fmt.Fprintf(&b, "| %s | %d | %d (%d %%) | %d | %d | %d |\n", in.title, all, r.Count(Carried), (100*r.Count(Carried)+all/2)/all, r.Count(Secret), r.Count(Needless), r.Count(NoPlace))
	}
	file := "../../docs/import.md"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + b.String() + "\n" + end + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	assert.Equal(t, want, string(page), "go test ./internal/importer -update")
}

// write makes a folder of inputs.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		files      map[string]string
		file, want string
	}{
		"nothing":         {map[string]string{"readme.txt": "hello"}, "", "nothing in it is an input"},
		"two for tofu":    {map[string]string{"a.tfvars": "x = 1", "b.tfvars": "x = 2"}, "", "several files of variables: a.tfvars, b.tfvars"},
		"no HCL":          {map[string]string{"a.tfvars": "pm_api_token_secret = deadbeef deadbeef"}, "", "a.tfvars:1: no HCL"},
		"a block":         {map[string]string{"a.tfvars": "x {\n}\n"}, "", "a.tfvars:1: a block"},
		"no YAML":         {map[string]string{"group_vars/all.yml": "a: [deadbeef"}, "", "group_vars/all.yml:1: no YAML"},
		"a chart":         {map[string]string{"values.yaml": "replicas: 1"}, "values.yaml", "no input that homelab knows"},
		"text":            {map[string]string{"notes": "some words"}, "notes", "no line of an inventory"},
		"our own":         {map[string]string{"cluster.yaml": "name: a\nproxmox: {endpoint: lab}\nnodes: {}"}, "", "nothing in it is an input"},
		"a list":          {map[string]string{"a.yaml": "[1]"}, "a.yaml", "no file with settings"},
		"only an example": {map[string]string{"terraform.tfvars.example": "x = 1", "example.tfvars": "x = 1"}, "", "nothing in it is an input"},
	} {
		dir := write(t, c.files)
		_, err := Import(filepath.Join(dir, c.file), "cluster.yaml", Options{})
		require.ErrorContains(t, err, c.want, name)
		require.ErrorAs(t, err, new(*ReadError), name)
		assert.NotContains(t, err.Error(), "deadbeef", name)
	}
	_, err := Import(filepath.Join(t.TempDir(), "gone"), "cluster.yaml", Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestEarlierValuesCount: tofu reads terraform.tfvars before others, and a machine keeps the first address.
func TestEarlierValuesCount(t *testing.T) {
	dir := write(t, map[string]string{
		"variables.tf":     `variable "gateway" { default = "10.0.0.9" }` + "\n" + `variable "vlan_id" { default = 7 }`,
		"terraform.tfvars": `gateway = "10.0.0.8"` + "\nproxmox_endpoint = \"10.0.0.5\"", "z.auto.tfvars": `gateway = "10.0.0.1"`,
		"nodes.auto.tfvars": `nodes = { a = { ip = "10.0.0.11", machine_type = "controlplane" } }`,
		"hosts.ini":         "[masters]\na ansible_host=10.0.0.12\n",
	})
	r, err := Import(dir, "cluster.yaml", Options{})
	require.NoError(t, err)
	assert.Contains(t, r.Text, "gateway: 10.0.0.1 # z.auto.tfvars:1")
	assert.Contains(t, r.Text, "vlan: 7 # variables.tf:2")
	assert.Contains(t, r.Text, "address: 10.0.0.11 # nodes.auto.tfvars:1")
	assert.Contains(t, report(r), "a.ansible_host: another place gives a the address 10.0.0.11")
}

// TestExistingMachines: an inventory without a Proxmox VE host is about machines that exist.
func TestExistingMachines(t *testing.T) {
	dir := write(t, map[string]string{"inventory/hosts.yml": `
all:
  children:
    master:
      hosts:
        pi1: {ansible_host: 192.168.1.41}
    node:
      hosts:
        pi[2:3]: {}
  vars: {ansible_user: teacher}
`, "inventory/host_vars/pi2.yml": "ansible_host: 192.168.1.42\n", "inventory/host_vars/pi3/main.yml": "ansible_host: 192.168.1.43\n",
		"inventory/group_vars/all.yml": "k3s_version: v1.36.5+k3s1\nmetal_lb_ip_range: 192.168.1.80-192.168.1.90\n"})
	r, err := Import(dir, "cluster.yaml", Options{})
	require.NoError(t, err)
	assert.Empty(t, r.Missing, r.Text)
	for _, want := range []string{"role: server\n    external: teacher@192.168.1.41", "pi3:\n    external: teacher@192.168.1.43", "version: v1.36.5+k3s1", `["192.168.1.80-192.168.1.90"]`} {
		assert.Contains(t, r.Text, want)
	}
	told(t, r)
}

// TestAdopt: VMs that run are taken over only if that is asked for, and never those of Talos.
func TestAdopt(t *testing.T) {
	assert.NotContains(t, imported(t, "gpu-cluster", Options{}).Text, "adopt")
	assert.Equal(t, 7, strings.Count(imported(t, "gpu-cluster", Options{Adopt: true}).Text, "adopt: true"))
	r := imported(t, "talos-map", Options{Adopt: true})
	assert.NotContains(t, r.Text, "adopt")
	assert.Contains(t, strings.Join(r.Notes, "\n"), "such machines are not adopted")
}

// TestBPG reads resources of the other provider, with for_each.
func TestBPG(t *testing.T) {
	dir := write(t, map[string]string{"main.tf": `
variable "workers" {
  default = { w1 = { ip = "10.0.0.21/24", gpus = ["0000:01:00", "0000:02:00"] }, w2 = { ip = "10.0.0.22/24", gpus = ["0000:03:00", "0000:04:00"] } }
}
locals { gateway = "10.0.0.1" }
resource "proxmox_virtual_environment_vm" "server" {
  name      = "cp1"
  node_name = "pve"
  vm_id     = 201
  cpu {
    cores = 4
  }
  memory {
    dedicated = 8192
  }
  disk {
    datastore_id = "tank"
    interface    = "scsi0"
    size         = 40
  }
  network_device {
    bridge = "vmbr1"
  }
  initialization {
    ip_config {
      ipv4 {
        address = "10.0.0.11/24"
        gateway = local.gateway
      }
    }
  }
}
resource "proxmox_virtual_environment_vm" "worker" {
  for_each  = var.workers
  name      = each.key
  node_name = "pve"
  hostpci {
    device = "hostpci0"
    id     = each.value.gpus[0]
  }
  hostpci {
    device  = "hostpci1"
    id      = each.value.gpus[1]
  }
  initialization {
    ip_config {
      ipv4 {
        address = each.value.ip
        gateway = local.gateway
      }
    }
  }
  timeout_create = lookup(each.value, "x", 3)
}
`, "terraform.tfvars": `proxmox_endpoint = "10.0.0.5"`})
	r, err := Import(dir, "cluster.yaml", Options{})
	require.NoError(t, err)
	told(t, r)
	assert.Empty(t, r.Missing, r.Text)
	for _, want := range []string{"vmid: 201", "size: 40GiB", "storage: tank", "bridge: vmbr1", "address: 10.0.0.22", `pci: ["0000:01:00", "0000:02:00"]`, `pci: ["0000:03:00", "0000:04:00"]`,
		"gateway: 10.0.0.1"} {
		assert.Contains(t, r.Text, want)
	}
}
