package session

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// stranger is somebody with a fresh host, who follows the docs: what is printed is
// pasted as it is, and nothing is allowed beside it.
type stranger struct {
	t          *testing.T
	sim        *pvesim.Sim
	kube       *kubesim.Sim
	root       *ssh.Client // the host's
	talk, data bytes.Buffer
}

func newStranger(t *testing.T) *stranger {
	m := pvesim.OneGPU()
	m.Roles, m.Users, m.Tokens, m.ACLs = nil, nil, nil, nil
	m.Hosts[0].Memory -= 123456 * 1024 // as Linux keeps some for itself
	w := &stranger{t: t, kube: &kubesim.Sim{}}
	w.sim = pvesim.New(m, pvesim.Options{Kubernetes: w.kube})
	t.Chdir(t.TempDir())
	require.NoError(t, makeKey("id_ed25519"))
	signer, err := ssh.LoadSigner("id_ed25519")
	require.NoError(t, err)
	shell, err := w.sim.HostShell(t.Context(), "pve1", ssh.AuthorizedKey(signer.PublicKey()))
	require.NoError(t, err)
	key, err := ssh.ParseAuthorizedKey(shell.HostKey)
	require.NoError(t, err)
	w.root = ssh.New(ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: w.sim.Network().Dial})
	return w
}

func (w *stranger) close() {
	assert.NoError(w.t, w.root.Close())
	w.sim.Close()
	require.NoError(w.t, w.kube.Close())
}

// session begins a command, which knows nothing but the files.
func (w *stranger) session() *Session {
	w.talk.Reset()
	w.data.Reset()
	return &Session{
		Console: &console.Console{Talk: &w.talk, Data: &w.data, Redact: &secret.Redactor{}},
		web:     &http.Client{Transport: w.sim.Client().Transport},
	}
}

// role pastes what host:role prints into a shell of root.
func (w *stranger) role(file string) (printed string) {
	s := w.session()
	defer s.Close()
	var err error
	s.Spec, err = cluster.Load(file)
	require.NoError(w.t, err)
	require.NoError(w.t, hostRole(s, w.t.Context(), HostRoleFlags{}))
	out, err := remote.Output(w.t.Context(), w.root, "sh", "-c", w.data.String())
	require.NoError(w.t, err)
	return string(out)
}

// do gives a command with the file.
func (w *stranger) do(file string, command func(*Session, context.Context) error) error {
	s := w.session()
	defer s.Close()
	var err error
	s.Spec, err = cluster.Load(file)
	require.NoError(w.t, err)
	pve, err := s.dial(w.t.Context())
	require.NoError(w.t, err)
	signer, err := ssh.LoadSigner("id_ed25519")
	require.NoError(w.t, err)
	s.Cluster, err = cluster.New(s.Spec, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: "."})
	require.NoError(w.t, err)
	return command(s, w.t.Context())
}

var tokenSecret = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// The way of the docs: rights for a file, a token with them, a file that cluster:init
// writes with that token, rights for it, a look, a cluster, and away with it.
func TestTheWayOfTheDocs(t *testing.T) {
	for _, c := range []struct{ name, gpus, sees string }{
		{"a card", ", gpus: 1", "pve1: 16 CPUs, 128GiB, 1 × GeForce RTX 4090 (1 free)"},
		{"no card", "", "pve1: 16 CPUs, 128GiB, its PCI devices cannot be seen: grant the token Sys.Audit on /"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { walk(t, c.gpus, c.sees) })
		})
	}
}

func walk(t *testing.T, gpus, sees string) {
	w := newStranger(t)
	defer w.close()
	const first = "first.yaml"
	require.NoError(t, os.WriteFile(first, []byte(`name: small
proxmox: {endpoint: "https://pve1:8006", token: homelab@pve!cluster, secret: "file:token", insecure: true}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1}
defaults: {storage: vmdata}
nodes: {one: {role: server, host: pve1, address: 192.168.1.9`+gpus+`}}
`), 0o600))
	secrets := tokenSecret.FindAllString(w.role(first), -1)
	require.Len(t, secrets, 1)
	require.NoError(t, os.WriteFile("token", []byte(secrets[0]+"\n"), 0o600))

	// cluster:init has what host:role printed, and nothing else.
	s := w.session()
	defer s.Close()
	ask := &asker{Console: s.Console, in: bufio.NewReader(strings.NewReader(""))}
	require.NoError(t, writeFirst(s, t.Context(), InitFlags{Endpoint: "https://pve1:8006", Token: "homelab@pve!cluster", Secret: "file:token", Insecure: true, Name: "small"}, ask))
	assert.Contains(t, w.talk.String(), sees)
	assert.NotContains(t, w.talk.String(), secrets[0])

	assert.Empty(t, tokenSecret.FindAllString(w.role(DefaultSpec), -1), "a secret is told once")
	assert.Contains(t, w.talk.String(), "homelab@pve!cluster")
	require.NoError(t, w.do(DefaultSpec, with(HostFlags{}, hostCheck)), "%s", &w.data)
	for _, sees := range []string{"its clock", "memory", "cpu"} {
		assert.NotRegexp(t, `not checked: .*\b`+sees+`\b`, w.data.String())
	}
	assert.Equal(t, pending, code(w.do(DefaultSpec, Plan)))
	require.NoError(t, w.do(DefaultSpec, with(UpFlags{}, Up)), "%s", &w.talk)
	require.NoError(t, w.do(DefaultSpec, Plan), "%s", &w.data)

	// And once more: it has all of it, to look as well.
	w.role(DefaultSpec)
	assert.Contains(t, w.talk.String(), "has all of this on")
	files, err := filepath.Glob("*/token*")
	require.NoError(t, err)
	assert.Empty(t, files)
}
