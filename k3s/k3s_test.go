package k3s_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/facts"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const version = "v1.36.5+k3s1"

// machine runs commands with the real shell and the real coreutils, in a folder
// that stands for the machine's root. systemd, the journal and the network are the
// three small scripts in testdata/bin.
type machine struct {
	t     *testing.T
	root  string
	first string   // a folder of programs that come before all others; may be empty
	runs  []string // what was run: programs, and scripts by name
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir()}
	for _, dir := range []string{"units", "mirror", "etc/systemd/system"} {
		require.NoError(t, os.MkdirAll(filepath.Join(m.root, dir), 0o755))
	}
	return m
}

// Run implements remote.Runner.
func (m *machine) Run(ctx context.Context, c remote.Cmd) error {
	into := strings.NewReplacer("/usr/local/", m.root+"/usr/local/", "/etc/rancher", m.root+"/etc/rancher",
		"/etc/systemd", m.root+"/etc/systemd", "/var/lib/rancher", m.root+"/var/lib/rancher")
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = into.Replace(a)
	}
	m.runs = append(m.runs, strings.Join(c.Args[min(3, len(c.Args)-1):], " "))
	bin, err := filepath.Abs("testdata/bin")
	require.NoError(m.t, err)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + strings.TrimPrefix(m.first+":"+bin, ":") + ":" + os.Getenv("PATH"), "UNITS=" + m.root + "/units", "MIRROR=" + m.root + "/mirror"}
	cmd.Stdin, cmd.Stdout = c.Stdin, c.Stdout
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(&stderr, c.Stderr)
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &remote.ExitError{Args: c.Args, Code: exit.ExitCode(), Stderr: stderr.String()}
	}
	return err
}

func (m *machine) path(p string) string { return filepath.Join(m.root, p) }

func (m *machine) read(p string) string {
	m.t.Helper()
	b, err := os.ReadFile(m.path(p))
	require.NoError(m.t, err)
	return string(b)
}

func (m *machine) write(p, text string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.path(p)), 0o755))
	require.NoError(m.t, os.WriteFile(m.path(p), []byte(text), 0o755))
}

// publish puts a release into the mirror: its binary is a script that knows its
// version.
func (m *machine) publish(version string) {
	files := map[string]string{
		"k3s":                             "#!/bin/sh\necho 'k3s version " + version + " (0123abcd)'\necho 'go version go1.26'\n",
		"k3s-airgap-images-amd64.tar.zst": "images of " + version,
	}
	var sums strings.Builder
	for name, text := range files {
		m.write("mirror/"+name, text)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(text)), name)
	}
	m.write("mirror/sha256sum-amd64.txt", sums.String())
}

func (m *machine) install() {
	m.t.Helper()
	m.publish(version)
	_, err := k3s.Install(m.t.Context(), m, k3s.Release{Version: version})
	require.NoError(m.t, err)
}

func (m *machine) observe() k3s.State {
	m.t.Helper()
	s, err := k3s.Observe(m.t.Context(), m)
	require.NoError(m.t, err)
	return s
}

func (m *machine) started(unit string) { m.write("units/"+unit+".active", "active\n") }

var token = secret.New("K10" + strings.Repeat("0a", 32) + "::server:s3cr3t-s3cr3t")

func firstServer(t *testing.T) k3s.Server {
	t.Helper()
	vip, err := k3s.KubeVIP(k3s.VIP{Address: netip.MustParseAddr("10.0.0.10")})
	require.NoError(t, err)
	return k3s.Server{
		Version: version, Node: k3s.Node{Name: "cp1", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.11")}},
		TLSSANs: []string{"10.0.0.10"}, Disable: []string{"traefik"},
		Manifests: map[string][]byte{k3s.KubeVIPManifest: vip},
	}
}

func agent() k3s.Agent {
	return k3s.Agent{Version: version, URL: "https://10.0.0.10:6443", Node: k3s.Node{
		Name: "wk1", Taints: []string{"nvidia.com/gpu=present:NoSchedule"}, Labels: map[string]string{"pool": "gpu"},
		KubeletArgs: []string{"max-pods=200"}, Extra: map[string]any{"private-registry": "/etc/rancher/k3s/registries.yaml"},
	}}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestYAML(t *testing.T) {
	s := firstServer(t)
	s.ClusterCIDR, s.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}
	s.Extra = map[string]any{"kube-apiserver-arg": []string{"audit-log-maxage=7"}}
	b, err := s.YAML()
	require.NoError(t, err)
	golden(t, "server.yaml", b)

	s.URL, s.Token = "https://10.0.0.10:6443", token
	b, err = s.YAML()
	require.NoError(t, err)
	golden(t, "joining-server.yaml", b)
	assert.NotContains(t, string(b), "s3cr3t")

	b, err = agent().YAML()
	require.NoError(t, err)
	golden(t, "agent.yaml", b)
}

func TestValidateSaysEverything(t *testing.T) {
	a := agent()
	a.Version, a.URL, a.Name = "stable", "10.0.0.10", "WK_1"
	a.Extra = map[string]any{"tls-san": "x", "token": "x", "private-registy": "x", "node-taint": "x", "cluster-init": true}
	a.Labels = map[string]string{"node-role.kubernetes.io/worker": "true"}
	a.Taints = []string{"gpu:No"}
	a.KubeletArgs = []string{"--max-pods=3"}
	err := a.Check()
	for _, want := range []string{
		`k3s version "stable": write an exact release such as v1.36.5+k3s1`,
		`server URL "10.0.0.10": write https://ADDRESS:6443`,
		`node name "WK_1"`,
		`k3s key "tls-san" is for servers only, and an agent does not start with it`,
		`k3s key "token" cannot be passed through: it is a secret: use the field Token`,
		`k3s agent has no key "private-registy": did you mean "private-registry"?`,
		`k3s key "node-taint" is set twice`,
		`node-label node-role.kubernetes.io/worker: a kubelet may not give itself labels of node-role.kubernetes.io`,
		`node-taint "gpu:No": write key=value:Effect`,
		`kubelet-arg "--max-pods=3": write name=value without dashes`,
	} {
		assert.ErrorContains(t, err, want)
	}
	s := firstServer(t)
	s.FlannelBackend, s.Manifests = "wireguard", map[string][]byte{"../x": nil}
	assert.ErrorContains(t, s.Check(), `flannel-backend "wireguard": write one of vxlan, host-gw, wireguard-native, none`)
	assert.ErrorContains(t, s.Check(), `manifest "../x"`)
	assert.NoError(t, firstServer(t).Check())
	assert.NoError(t, agent().Check())
}

func TestInstall(t *testing.T) {
	m := newMachine(t)
	m.publish(version)
	changed, err := k3s.Install(t.Context(), m, k3s.Release{Version: version})
	require.NoError(t, err)
	assert.True(t, changed)
	assert.Contains(t, m.read("units/calls"), "curl --proto =https --fail --silent --show-error --location --retry 3")
	assert.Contains(t, m.read("units/calls"), "https://github.com/k3s-io/k3s/releases/download/v1.36.5%2Bk3s1/sha256sum-amd64.txt")
	assert.Equal(t, "images of "+version, m.read("var/lib/rancher/k3s/agent/images/k3s-airgap-images-amd64.tar.zst"))
	assert.Equal(t, version, m.observe().Version)

	require.NoError(t, os.Remove(m.path("units/calls")))
	changed, err = k3s.Install(t.Context(), m, k3s.Release{Version: version})
	require.NoError(t, err)
	assert.False(t, changed)
	assert.NoFileExists(t, m.path("units/calls"), "the second time nothing is fetched")

	const next = "v1.36.6+k3s1"
	m.publish(next)
	changed, err = k3s.Install(t.Context(), m, k3s.Release{Version: next, Artifacts: m.path("mirror")})
	require.NoError(t, err)
	assert.True(t, changed)
	assert.Equal(t, next, m.observe().Version)
	assert.Equal(t, "images of "+next, m.read("var/lib/rancher/k3s/agent/images/k3s-airgap-images-amd64.tar.zst"))
	assert.NoFileExists(t, m.path("units/calls"), "nor is anything that lies in a folder")
}

func TestInstallRefuses(t *testing.T) {
	m := newMachine(t)
	_, err := k3s.Install(t.Context(), m, k3s.Release{Version: version})
	assert.ErrorContains(t, err, "cannot fetch https://github.com/k3s-io/k3s/releases/download/v1.36.5%2Bk3s1/sha256sum-amd64.txt")
	assert.ErrorContains(t, err, "or find the files in the folder named by Artifacts")

	m.publish(version)
	m.write("mirror/k3s", "#!/bin/sh\necho evil\n")
	_, err = k3s.Install(t.Context(), m, k3s.Release{Version: version})
	require.ErrorIs(t, err, k3s.ErrChecksum)
	assert.ErrorContains(t, err, "the release says")
	assert.NoFileExists(t, m.path("usr/local/bin/k3s"))

	m.write("mirror/sha256sum-amd64.txt", "00  other\n")
	_, err = k3s.Install(t.Context(), m, k3s.Release{Version: version, NoImages: true})
	assert.ErrorContains(t, err, "has no line for k3s")

	for want, r := range map[string]k3s.Release{
		`k3s version "latest"`:           {Version: "latest"},
		"K3s has no release for riscv64": {Version: version, Arch: "riscv64"},
		`k3s base URL "http://x"`:        {Version: version, BaseURL: "http://x"},
		`k3s artifacts "here"`:           {Version: version, Artifacts: "here"},
	} {
		_, err := k3s.Install(t.Context(), m, r)
		assert.ErrorContains(t, err, want)
	}
}

func TestScriptsPassShellcheck(t *testing.T) {
	facts.Program(t, "shellcheck", "shellcheck")
	scripts, err := filepath.Glob("*.sh")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	out, err := exec.CommandContext(t.Context(), "shellcheck", scripts...).CombinedOutput()
	assert.NoError(t, err, string(out))
}
