package kubeadm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/kubevip"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
)

const podImage = "example.org/pause:1"

func wanted() kubeadm.Cluster {
	return kubeadm.Cluster{Name: "home", Version: version, Endpoint: netip.MustParseAddrPort("10.99.0.10:6443"), VIP: &kubeadm.VIP{}, SANs: []string{"k8s.home.arpa"},
		Pods: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}}
}

func node(name string, octet byte) kubeadm.Node {
	return kubeadm.Node{Name: name, Address: netip.AddrFrom4([4]byte{10, 99, 0, octet}), ProviderID: "proxmox://home/" + name,
		Labels: map[string]string{"disk": "fast", "room": "2"}, Taints: []kubeadm.Taint{{Key: "only", Value: "ml", Effect: "NoSchedule"}}}
}

func eventually(t *testing.T, is func() error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(200 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

func do(ctx context.Context, t *testing.T, r remote.Runner, args ...string) string {
	t.Helper()
	out, err := remote.Output(ctx, r, args...)
	require.NoError(t, err)
	return string(out)
}

// images are the names that kubeadm of this version asks for, of what we run ourselves, and of containerd's own pause.
func images(t *testing.T, programs string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(programs, "node"), filepath.Join(dir, "kubeadm")))
	out := do(t.Context(), t, here{}, filepath.Join(dir, "kubeadm"), "config", "images", "list", "--kubernetes-version", version)
	names := append(strings.Fields(out), podImage, "registry.k8s.io/pause:3.10.1", kubevip.Image+":"+kubevip.Version)
	saveImages(t, programs, filepath.Join(dir, "images.tar"), names...)
	return dir
}

// A cluster of real programs, made by our recipe: a server and an agent, with a virtual address that the test gives to
// the server, since kube-vip's program is in no image here; its pod, its mounts and its rights are.
func TestCluster(t *testing.T) {
	need(t)
	began := time.Now()
	step := func(what string) { t.Logf("%5.1f s %s", time.Since(began).Seconds(), what) }
	programs := build(t)
	step("programs")
	machines := start(t, programs, images(t, programs), "cp1", "gpu1")
	step("machines")
	ctx, first, second, want := t.Context(), machines["cp1"], machines["gpu1"], wanted()
	for i, r := range []remote.Runner{first, second} {
		prepare(t, r, i)
	}
	step("prepared")
	require.NoError(t, kubeadm.Claim(ctx, first, "home"))
	do(ctx, t, first, "ip", "address", "add", "10.99.0.10/32", "dev", "eth0")
	require.NoError(t, kubeadm.Create(ctx, first, want, node("cp1", 11)))
	step("created")
	require.NoError(t, kubeadm.Ready(ctx, first))
	state, err := kubeadm.Observe(ctx, first)
	require.NoError(t, err)
	assert.True(t, state.Running(), "%+v", state)
	assert.Equal(t, version, state.Version)
	require.NoError(t, state.CheckSettings(want))
	for _, d := range state.Diff(want, node("cp1", 11), kubeadm.Server) {
		assert.Equal(t, "packages", d.Path, "%+v", d) // none of which is installed
	}
	token, err := kubeadm.CreateToken(ctx, first, time.Hour, "for gpu1")
	require.NoError(t, err)
	agent := node("gpu1", 12)
	agent.Runtime = kubeadm.CRIO
	require.NoError(t, kubeadm.Join(ctx, second, want, agent, token))
	require.NoError(t, kubeadm.RevokeToken(ctx, first, token.ID))
	require.NoError(t, kubeadm.RevokeToken(ctx, first, token.ID))
	step("joined")
	checkNodes(t, first)
	state, err = kubeadm.Observe(ctx, second)
	require.NoError(t, err)
	assert.True(t, state.Running(), "%+v", state)
	assert.Equal(t, "https://10.99.0.10:6443", state.API)
	assert.Equal(t, kubeadm.CRIO, state.Runtime)
	step("nodes")
	runPod(t, first)
	step("pod")
	require.NoError(t, kubeadm.Create(ctx, first, want, node("cp1", 11)))
	require.NoError(t, kubeadm.Join(ctx, second, want, agent, kubeadm.Token{}))
	step("again")
	server, err := kubeadm.CreateServerToken(ctx, first, want, node("cp1", 11), time.Hour, "for cp2")
	require.NoError(t, err)
	require.NoError(t, kubeadm.RevokeToken(ctx, first, server.ID))
	step("server token")
	checkEtcd(t, first)
	step("snapshot")
	renew(t, first)
	step("renewed")
}

// checkEtcd asks etcd for its members and saves it.
func checkEtcd(t *testing.T, server remote.Runner) {
	t.Helper()
	ctx := t.Context()
	members, err := kubeadm.Members(ctx, server)
	require.NoError(t, err)
	require.Len(t, members, 1)
	assert.Equal(t, "cp1", members[0].Name)
	assert.Equal(t, "10.99.0.11", members[0].Address.String())
	snapshot, err := kubeadm.SaveSnapshot(ctx, server, "by-hand", "cp1")
	require.NoError(t, err)
	all, err := kubeadm.Snapshots(ctx, server)
	require.NoError(t, err)
	assert.Equal(t, []kubeadm.Snapshot{snapshot}, all)
}

// prepare gives a machine what packages and the network of pods would, and a runtime: the agent's is CRI-O.
func prepare(t *testing.T, r remote.Runner, i int) {
	t.Helper()
	ctx := t.Context()
	eventually(t, func() error { return remote.Run(ctx, r, "systemctl", "is-active", "dbus") })
	network := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.42.%d.0/24"}}]}`, i)
	require.NoError(t, remote.WriteFile(ctx, r, "/etc/cni/net.d/10-pods.conflist", []byte(network), 0o644))
	do(ctx, t, r, "sysctl", "--quiet", "net.ipv4.ip_forward=1")
	if i > 0 {
		startCRIO(t, r)
		return
	}
	place(t, r, "../../../kubeadm/containerd.toml", "/etc/containerd/config.toml")
	do(ctx, t, r, "systemctl", "start", "containerd")
	do(ctx, t, r, "ctr", "--namespace", "k8s.io", "images", "import", "/images/images.tar")
}

func place(t *testing.T, r remote.Runner, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, remote.WriteFile(t.Context(), r, to, data, 0o644))
}

// startCRIO makes CRI-O the only runtime of a machine, with our configuration. It has no handler nvidia as long as it has
// started without NVIDIA's runtime, for which a script stands, and has it once it is restarted.
func startCRIO(t *testing.T, r remote.Runner) {
	t.Helper()
	ctx := t.Context()
	do(ctx, t, r, "sh", "-c", `rm /usr/bin/containerd /usr/bin/ctr
mkdir -p /usr/libexec/crio /etc/crio
ln -s /usr/bin/conmon /usr/libexec/crio/conmon
ln -s ../lib/node/crio ../lib/node/pinns /usr/bin
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >/etc/crio/policy.json`)
	for _, name := range []string{"10-crio.conf", "20-images.conf"} {
		place(t, r, "testdata/crio/"+name, "/etc/crio/crio.conf.d/"+name)
	}
	place(t, r, "../../../kubeadm/crio.conf", "/etc/crio/crio.conf.d/90-homelab.conf")
	do(ctx, t, r, "systemctl", "start", "crio")
	const handler = "[crio.runtime.runtimes.nvidia]"
	assert.NotContains(t, do(ctx, t, r, "crio", "status", "config"), handler)
	require.NoError(t, remote.WriteFile(ctx, r, "/usr/bin/nvidia-container-runtime", []byte("#!/bin/sh\nexec runc \"$@\"\n"), 0o755))
	do(ctx, t, r, "systemctl", "restart", "crio")
	assert.Contains(t, do(ctx, t, r, "crio", "status", "config"), handler)
}

func kubectl(ctx context.Context, r remote.Runner, args ...string) (string, error) {
	out, err := remote.Output(ctx, r, append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
	return string(out), err
}

func checkNodes(t *testing.T, server remote.Runner) {
	t.Helper()
	for _, name := range []string{"cp1", "gpu1"} {
		eventually(t, func() error {
			_, err := kubectl(t.Context(), server, "wait", "--for=condition=Ready", "--timeout=60s", "node/"+name)
			return err
		})
		out, err := kubectl(t.Context(), server, "get", "node", name, "-o", "json")
		require.NoError(t, err)
		var n struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				ProviderID string
				Taints     []kubeadm.Taint
			}
			Status struct {
				NodeInfo struct{ KubeletVersion, ContainerRuntimeVersion string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(out), &n))
		assert.Equal(t, "fast", n.Metadata.Labels["disk"])
		assert.Equal(t, "2", n.Metadata.Labels["room"])
		assert.Equal(t, "proxmox://home/"+name, n.Spec.ProviderID)
		assert.Equal(t, version, n.Status.NodeInfo.KubeletVersion)
		assert.Equal(t, map[string]string{"cp1": "containerd", "gpu1": "cri-o"}[name], strings.Split(n.Status.NodeInfo.ContainerRuntimeVersion, ":")[0])
		ours := slices.DeleteFunc(n.Spec.Taints, func(t kubeadm.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }) // which outlive what they are for by moments
		assert.Equal(t, []kubeadm.Taint{{Key: "only", Value: "ml", Effect: "NoSchedule"}}, ours, name)
	}
}

// runPod runs a pod on the agent and asks for what it says, by way of the API.
func runPod(t *testing.T, server remote.Runner) {
	t.Helper()
	ctx := t.Context()
	overrides := `{"spec":{"nodeName":"gpu1","terminationGracePeriodSeconds":1}}`
	_, err := kubectl(ctx, server, "run", "wait", "--image="+podImage, "--image-pull-policy=IfNotPresent", "--overrides="+overrides)
	require.NoError(t, err)
	if _, err = kubectl(ctx, server, "wait", "--for=condition=Ready", "--timeout=60s", "pod/wait"); err != nil {
		events, _ := kubectl(ctx, server, "get", "events", "-o", "custom-columns=:.message")
		require.NoError(t, err, "%s", events)
	}
	out, err := kubectl(ctx, server, "logs", "wait")
	require.NoError(t, err)
	assert.Equal(t, "waiting\n", out)
}

// renew makes new certificates, and all answer with them.
func renew(t *testing.T, server remote.Runner) {
	t.Helper()
	ctx := t.Context()
	before, err := kubeadm.Certificates(ctx, server)
	require.NoError(t, err)
	require.Len(t, before, 14)
	require.NoError(t, kubeadm.RenewCertificates(ctx, server))
	eventually(t, func() error { return kubeadm.Ready(ctx, server) })
	after, err := kubeadm.Certificates(ctx, server)
	require.NoError(t, err)
	assert.True(t, after[0].Until.After(before[0].Until), "%v, then %v", before[0], after[0])
	eventually(t, func() error {
		_, err := kubectl(ctx, server, "get", "nodes")
		return err
	})
}

// here runs commands on this machine.
type here struct{}

// Run implements [remote.Runner].
func (here) Run(ctx context.Context, c remote.Cmd) error {
	return run(ctx, c.Args, c)
}
