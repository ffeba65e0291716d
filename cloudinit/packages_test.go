package cloudinit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInstallMissingPackages runs the script by the real shell: what is there is not
// asked for, and lists that somebody else reads are waited for.
func TestInstallMissingPackages(t *testing.T) {
	script, err := filepath.Abs("packages.sh")
	require.NoError(t, err)
	bin := t.TempDir()
	for name, text := range map[string]string{
		"dpkg-query": `case $4 in curl) printf installed ;; *) exit 1 ;; esac`,
		"sleep":      `echo sleep "$@" >>"$0".calls`,
		"systemctl":  `echo systemctl "$@" >>"${0%/*}"/apt-get.calls`,
		"apt-get": `echo apt-get "$@" >>"$0".calls
case "$*" in *update) [ "$(grep -c update "$0".calls)" -gt 2 ] ;; esac`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	run := func(packages ...string) string {
		_ = os.Remove(filepath.Join(bin, "apt-get.calls"))
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, packages...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		said, _ := os.ReadFile(filepath.Join(bin, "apt-get.calls"))
		return string(said)
	}
	assert.Empty(t, run("curl"))
	assert.Equal(t, `apt-get --quiet update
apt-get --quiet update
apt-get --quiet update
apt-get --quiet --assume-yes -o DPkg::Lock::Timeout=300 install nfs-common=1:2.6 qemu-guest-agent
systemctl start qemu-guest-agent
`, run("curl", "nfs-common=1:2.6", "qemu-guest-agent"))
	assert.FileExists(t, filepath.Join(bin, "sleep.calls"))
}
