package templates

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/k3snodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
)

var update = flag.Bool("update", false, "rewrite golden files")

// booted are files as an Ubuntu 24.04 cloud image has them after its first boot; stay are
// those that a clone must find as they are.
func booted() (files map[string]string, stay []string) {
	files = map[string]string{
		"etc/machine-id":                              "4c4c45440034\n",
		"var/lib/dbus/machine-id":                     "4c4c45440034\n",
		"etc/hostname":                                "template\n",
		"etc/iscsi/initiatorname.iscsi":               "InitiatorName=iqn.1993-08.org.debian:01:5a0c\n",
		"etc/hosts":                                   "127.0.1.1 template template\n",
		"etc/shadow":                                  "root:$6$salt$hash:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\nrootless:$6$x$y:1::::::\n",
		"etc/ssh/ssh_host_ed25519_key":                "secret",
		"etc/ssh/ssh_host_ed25519_key.pub":            "public",
		"etc/ssh/ssh_host_rsa_key":                    "secret",
		"etc/ssh/sshd_config":                         "PermitRootLogin no\n",
		"etc/netplan/50-cloud-init.yaml":              "network: {}\n",
		"etc/netplan/10-theirs.yaml":                  "network: {}\n",
		"etc/udev/rules.d/70-persistent-net.rules":    "SUBSYSTEM==\"net\"\n",
		"var/lib/systemd/random-seed":                 "seed",
		"var/lib/systemd/credential.secret":           "secret",
		"var/lib/dhcp/dhclient.ens18.leases":          "lease {}\n",
		"run/systemd/netif/leases/2":                  "ADDRESS=10.0.0.99\n",
		"var/log/journal/4c4c45440034/system.journal": "journal",
		"var/log/syslog":                              "line\n",
		"var/log/auth.log":                            "line\n",
		"var/log/apt/history.log":                     "Start-Date\n",
		"var/log/wtmp":                                "x",
		"root/.bash_history":                          "passwd\n",
		"root/.ssh/authorized_keys":                   "no-port-forwarding ssh-ed25519 AAAA\n",
		"var/lib/apt/lists/archive_InRelease":         "Origin: Ubuntu\n",
		"usr/local/bin/k3s":                           "ELF",
	}
	return files, []string{"etc/hosts", "etc/ssh/sshd_config", "etc/netplan/10-theirs.yaml", "var/log/apt/history.log", "var/lib/apt/lists/archive_InRelease", "usr/local/bin/k3s"}
}

// The script is run by the real shell and coreutils on a real tree. Of the programs
// that are not files' business it is seen how they were called.
func TestSealOfARealTree(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	files, stay := booted()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	calls := filepath.Join(bin, "calls")
	for _, name := range []string{"cloud-init", "apt-get", "sync"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho "+name+" \"$@\" >>"+calls+"\n"), 0o755))
	}
	mark := filepath.Join(bin, "mark")
	for range 2 { // a run that was cut short begins again
		cmd := exec.CommandContext(t.Context(), "sh", "-c", sealScript, "seal.sh", mark, root)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	said, err := os.ReadFile(calls)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("cloud-init clean --logs --seed --machine-id\napt-get clean\nsync\n", 2), string(said))
	assert.FileExists(t, mark)

	have := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, readErr := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			have[name], err = string(content), readErr
		}
		return err
	}))
	want := map[string]string{
		"etc/iscsi/initiatorname.iscsi": "GenerateName=yes\n",
		"etc/machine-id":                "", "etc/hostname": "", "var/log/syslog": "", "var/log/auth.log": "", "var/log/wtmp": "",
		"etc/shadow": "root:*:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\nrootless:$6$x$y:1::::::\n",
	}
	for _, name := range stay {
		want[name] = files[name]
	}
	assert.Equal(t, want, have)
}

// What a template is called, and what makes it another one.
func TestTemplateNames(t *testing.T) {
	name := func(change func(*spec.Spec)) string {
		s, err := clusterfile.Load("../../../examples/one-gpu/cluster.yaml")
		require.NoError(t, err)
		change(s)
		out, err := describeTemplate(s, k3snodes.New(s, nil).TemplateRelease(), "pve1", nvidia.Recipe{Driver: nvidia.Driver{Branch: 580, Flavour: nvidia.Open}})
		require.NoError(t, err)
		return out.Name
	}
	now := name(func(*spec.Spec) {})
	var lines []string
	for what, change := range map[string]func(*spec.Spec){
		"as it is":            func(*spec.Spec) {},
		"another image":       func(s *spec.Spec) { s.Image.SHA256 = strings.Repeat("1", 64) },
		"another K3s":         func(s *spec.Spec) { s.K3s.Version = "v1.36.6+k3s1" },
		"K3s from a folder":   func(s *spec.Spec) { s.K3s.AirgapDir = "/srv/k3s" },
		"secure boot":         func(s *spec.Spec) { s.Image.SecureBoot = true },
		"one package more":    func(s *spec.Spec) { s.Guest.Packages = []string{"htop"} },
		"the image elsewhere": func(s *spec.Spec) { s.Image.URL = "https://mirror.example/noble.img" },
		"a mirror": func(s *spec.Spec) {
			s.Guest.APTMirror, s.Guest.APTProxy = "http://mirror.example/ubuntu", "http://proxy.example:3142"
		},
		"another storage": func(s *spec.Spec) { s.Image.TemplateStorage, s.Image.ImageStorage = "tank", "tank" },
		"one node more":   func(s *spec.Spec) { s.Nodes = append(slices.Clone(s.Nodes), spec.Node{Name: "more", Host: "pve1"}) },
		"a file more":     func(s *spec.Spec) { s.Guest.Files = []spec.File{{Path: "/etc/motd"}} },
	} {
		got := name(change)
		verdict := "another template"
		if got == now {
			verdict = "the same template"
		}
		lines = append(lines, what+": "+verdict)
	}
	slices.Sort(lines)
	got := "name: " + now + "\n" + strings.Join(lines, "\n") + "\n"
	const golden = "testdata/template.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
