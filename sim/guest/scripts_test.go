package guest

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// script is one of the library's own, which must run in a guest as on Ubuntu.
func script(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../" + name)
	require.NoError(t, err)
	return string(data)
}

// runScript runs it as the library does: sh -c TEXT NAME ARG….
func runScript(m *Machine, text string, args ...string) (int, string) {
	var b strings.Builder
	s := m.core.System()
	p := s.Session(disk.RootUser(), nil, &b, &b)
	p.Args = append([]string{"sh", "-c", text, "script"}, args...)
	return p.Exec(s.Context()), b.String()
}

func TestTheLibrarysScripts(t *testing.T) {
	install, observe, smi, verify := script(t, "k3s/install.sh"), script(t, "k3s/observe.sh"), script(t, "nvidia/observe.sh"), script(t, "nvidia/check/verify.sh")
	weights := script(t, "kube/addon/weights.sh")
	begin, remove := script(t, "k3s/start.sh"), script(t, "k3s/remove.sh")
	synctest.Test(t, func(t *testing.T) {
		m := baked(t, openDriver, func(c *machine.Config) { c.Kubernetes = &fakePlanes{} })
		release := "https://github.com/k3s-io/k3s/releases/download/v1.34.2%2Bk3s1"
		for _, want := range []string{"installed\n", "unchanged\n"} {
			before := len(m.Mutations())
			code, out := runScript(m, install, "v1.34.2+k3s1", release, "amd64", "k3s-airgap-images-amd64.tar.zst", "")
			assert.Zero(t, code)
			assert.Equal(t, want, out)
			assert.Equal(t, want == "unchanged\n", len(m.Mutations()) == before)
		}
		code, out := runScript(m, install, "v1.34.3+k3s1", "https://github.com/nowhere", "amd64", "", "")
		assert.Equal(t, 69, code)
		assert.Contains(t, out, "cannot fetch")

		put(t, m, "/etc/rancher/k3s/config.yaml", "cluster-init: true\n")
		put(t, m, "/etc/systemd/system/k3s.service", script(t, "k3s/k3s.service"))
		code, out = runScript(m, begin, "k3s", "start", "digest")
		assert.Zero(t, code, out)
		time.Sleep(time.Minute)
		before := len(m.Mutations())
		code, out = runScript(m, observe)
		assert.Zero(t, code)
		for _, part := range []string{"@@ version\nk3s version v1.34.2+k3s1 (", "@@ active k3s\nactive\n", "@@ enabled k3s\nenabled\n", "@@ config\ncluster-init: true\n", "@@ applied\ndigest\n", "@@ end\n"} {
			assert.Contains(t, out, part)
		}
		code, out = runScript(m, smi)
		assert.Zero(t, code)
		for _, part := range []string{"=== kernel\n" + archive.NewestKernel, "Open Kernel Module", "nvidia-utils-580-server 580.173.02-0ubuntu0.24.04.1 installed", "=== containerd\nplain\n", "<nvidia_smi_log>", "=== end\n0\n"} {
			assert.Contains(t, out, part)
		}
		assert.Empty(t, m.Mutations()[before:], "looking changes nothing")

		uuid := gpu.Cards(m.core.Config.PCI)[0].UUID
		code, out, log := k3s.Container(t.Context(), m.core.System(), plane.Container{Args: []string{"/bin/sh", "/verify/verify.sh", "1"},
			Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": uuid}, GPUs: 1, Files: map[string][]byte{"/verify/verify.sh": []byte(verify)}})
		assert.Zero(t, code, out)
		assert.Equal(t, "gpu|"+uuid+"|0|PASSED|NVIDIA A100-PCIE-40GB|580.173.02|40960|\n", log)
		code, out, log = k3s.Container(t.Context(), m.core.System(), plane.Container{Args: []string{"sh", "/verify/verify.sh", "2"},
			Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": uuid}, GPUs: 1, Files: map[string][]byte{"/verify/verify.sh": []byte(verify)}})
		assert.Equal(t, 1, code, out)
		assert.Contains(t, log, "error|1 GPUs, expected 2")
		const theirs256, url = "f6f851777709861056efcdad3af01da38b31223a3ba26e61a4f8bf3a2195813a", "https://huggingface.co/unsloth/Qwen3-4B-GGUF/resolve/main/Qwen3-4B-Q4_K_M.gguf"
		volume := map[string]*disk.Disk{"/weights": disk.New()}
		fetched := func(digest string) (int, string) {
			code, out, _ := k3s.Container(t.Context(), m.core.System(), plane.Container{Volumes: volume,
				Args: []string{"flock", "/weights/.lock", "bash", "-c", weights, "models.mini", url, "/weights/" + digest + "/a.gguf", digest}})
			return code, out
		}
		code, out = fetched(theirs256)
		assert.Zero(t, code, out)
		assert.Contains(t, out, "checking /weights/"+theirs256)
		code, out = fetched(theirs256)
		assert.Zero(t, code, out)
		assert.Empty(t, out, "it is there")
		code, out = fetched(strings.Repeat("0", 64))
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "models.mini: "+url+" has the digest "+theirs256+", not 000")

		for image, release := range map[string]string{"quay.io/jupyter/base-notebook:2026-10-05": "ubuntu 24.04\n", "docker.io/library/busybox": ""} {
			_, out, _ = k3s.Container(t.Context(), m.core.System(), plane.Container{Image: image, Env: map[string]string{"HOSTNAME": "jupyter-student"},
				Args: []string{"sh", "-c", "hostname; uname -n; [ ! -f /etc/os-release ] || (. /etc/os-release && echo $ID $VERSION_ID)"}})
			assert.Equal(t, "jupyter-student\njupyter-student\n"+release, out)
		}
		_, out, _ = k3s.Container(t.Context(), m.core.System(), plane.Container{Args: []string{"nvidia-smi"}, Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": uuid}})
		for line := range strings.Lines(out) {
			assert.Contains(t, []int{1, 32, 92}, len(line), "a table: %s", out) // blank, the time, rows
		}

		// What K3s leaves: rules among other people's, and files on a disk that the
		// machine mounts for it.
		const theirs = `-A INPUT -s 10.0.0.9/32 -m comment --comment "not KUBE- but flannel's friend" -j ACCEPT`
		code, out = shellWith(m, "root", "iptables-restore --noflush", "*filter\n:MINE - [0:0]\n"+theirs+"\n-A FORWARD -j MINE\nCOMMIT\n")
		assert.Zero(t, code, out)
		assert.Contains(t, mustShell(t, m, "iptables-save"), "-j KUBE-SERVICES")
		mustShell(t, m, "mkfs.ext4 /dev/sdb && echo '/dev/sdb /var/lib/kubelet/ ext4 defaults,nofail 0 2' >> /etc/fstab && mount /dev/sdb /var/lib/kubelet && echo x > /var/lib/kubelet/f")

		code, out = runScript(m, remove)
		assert.Zero(t, code, out)
		assert.Equal(t, "*mangle\nCOMMIT\n*filter\n:MINE - [0:0]\n"+theirs+"\n-A FORWARD -j MINE\nCOMMIT\n*nat\nCOMMIT\n", mustShell(t, m, "iptables-save"))
		assert.Equal(t, "/dev/sdb\n", mustShell(t, m, "findmnt -n -o SOURCE /var/lib/kubelet; ls /var/lib/kubelet"))
		for _, gone := range []string{"/usr/local/bin/k3s", "/var/lib/rancher/k3s", "/etc/rancher", "/etc/systemd/system/k3s.service"} {
			assert.False(t, m.Disk().Exists(gone), gone)
		}
		code, out = runScript(m, remove)
		assert.Zero(t, code, "it may be run again: %s", out)
	})
}
