package session

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// front is a Proxmox VE host that one can be introduced to.
type front struct {
	endpoint, fingerprint, token, secret string
}

func newFront(t *testing.T, model pvesim.Model) front {
	sim := pvesim.New(model, pvesim.Options{})
	t.Cleanup(sim.Close)
	server := httptest.NewTLSServer(sim.Handler())
	t.Cleanup(server.Close)
	id, value := sim.Token()
	return front{endpoint: server.URL, fingerprint: proxmox.Fingerprint(server.Certificate()), token: id, secret: value}
}

// interview gives answers, one a line, to cluster:init in an empty folder. What is
// typed hidden comes from the same lines.
func interview(t *testing.T, o InitFlags, answers ...string) (said string, err error) {
	t.Helper()
	var talk bytes.Buffer
	s := &Session{Console: &console.Console{Talk: &talk, Data: &bytes.Buffer{}, Redact: &secret.Redactor{}}}
	defer s.Close()
	ask := &asker{Console: s.Console, person: len(answers) > 0, in: bufio.NewReader(strings.NewReader(strings.Join(answers, "\n") + "\n"))}
	ask.secret = ask.line
	err = writeFirst(s, t.Context(), o, ask)
	return talk.String(), err
}

// all accepts what is proposed, however often one is asked.
func all(answers ...string) []string {
	for range 20 {
		answers = append(answers, "")
	}
	return answers
}

func TestInitFromFlagsAlone(t *testing.T) {
	f := newFront(t, pvesim.EightA100())
	t.Chdir(t.TempDir())
	t.Setenv("TOKEN", f.secret)
	o := InitFlags{Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN", Fingerprint: f.fingerprint, Name: "mine", GPUs: 4, Servers: 3, First: "10.0.0.50"}
	said, err := interview(t, o)
	require.NoError(t, err)
	assert.Contains(t, said, "pve1: 128 CPUs, 1TiB, 8 × A100 PCIe 40GB (8 free)")
	assert.Contains(t, said, "Wrote cluster.yaml: 3 servers, 2 agents, 8 GPUs.")
	assert.NotContains(t, said, f.secret)
	spec, err := cluster.Load(DefaultSpec)
	require.NoError(t, err)
	assert.Equal(t, "mine", spec.Name)
	assert.Equal(t, "10.0.0.50", spec.K3s.VIP.String())
	assert.Len(t, spec.GPUNodes(), 2)

	// It is not written twice.
	_, err = interview(t, o)
	assert.Equal(t, refused, code(err))
	assert.ErrorContains(t, err, "-force")
	o.Force, o.Name = true, "other"
	_, err = interview(t, o)
	require.NoError(t, err)
	spec, err = cluster.Load(DefaultSpec)
	require.NoError(t, err)
	assert.Equal(t, "other", spec.Name)
}

func TestInitAsksTheCertificateFirst(t *testing.T) {
	f := newFront(t, pvesim.OneGPU())
	t.Chdir(t.TempDir())
	said, err := interview(t, InitFlags{}, f.endpoint, "no")
	assert.Equal(t, refused, code(err))
	assert.Contains(t, said, f.fingerprint)
	assert.NotContains(t, said, "API token")
	assert.NoFileExists(t, DefaultSpec)

	// Nobody to ask: the error has what is to be added.
	t.Setenv("TOKEN", f.secret)
	_, err = interview(t, InitFlags{Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN"})
	assert.Equal(t, refused, code(err))
	assert.ErrorContains(t, err, "-fingerprint="+f.fingerprint)
}

// TestInitNamesAllThatIsMissing: a script is told at once what it lacks, not one thing a run.
func TestInitNamesAllThatIsMissing(t *testing.T) {
	f := newFront(t, pvesim.OneGPU())
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile(DefaultSpec, nil, 0o600))
	_, err := interview(t, InitFlags{Endpoint: f.endpoint})
	assert.Equal(t, invalid, code(err))
	for _, flag := range []string{"-token=", "-secret=", "-fingerprint=" + f.fingerprint, "-force or -out=FILE, since cluster.yaml exists already"} {
		assert.ErrorContains(t, err, flag)
	}
	_, err = interview(t, InitFlags{Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN"})
	assert.ErrorContains(t, err, "-fingerprint="+f.fingerprint)
	assert.ErrorContains(t, err, "-force or -out=FILE")
}

// Enter all the way, but for what only a person can know.
func TestInitInterview(t *testing.T) {
	f := newFront(t, pvesim.OneGPU())
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	said, err := interview(t, InitFlags{}, all(f.endpoint, "yes", f.token, f.secret)...)
	require.NoError(t, err)
	assert.NotContains(t, said, f.secret)
	spec, err := cluster.Load(DefaultSpec)
	require.NoError(t, err)
	assert.Equal(t, "homelab", spec.Name)
	assert.Equal(t, f.fingerprint, spec.Proxmox.Fingerprint)
	assert.Len(t, spec.GPUNodes(), 1)
	kept, err := spec.Proxmox.TokenSecret.Resolve()
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256([]byte(f.secret)), sha256.Sum256([]byte(kept.Reveal())))
	path := filepath.Join(".homelab", "homelab", "proxmox-token")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(DefaultSpec)
	require.NoError(t, err)
	assert.NotContains(t, string(text), f.secret)
	assert.Contains(t, string(text), "secret: file:.homelab/homelab/proxmox-token")
	if os.Getenv("SHOW") != "" {
		t.Log(said)
	}

	// There is a file now: it is asked about, and other answers make another.
	_, err = interview(t, InitFlags{}, "no")
	assert.Equal(t, refused, code(err))
	_, err = interview(t, InitFlags{}, all("yes", f.endpoint, "yes", f.token, "file:"+path, "second", "1", "not a network", "192.168.1.0/24", "", "not an address", "192.168.1.40")...)
	require.NoError(t, err)
	spec, err = cluster.Load(DefaultSpec)
	require.NoError(t, err)
	assert.Equal(t, "second", spec.Name)
	assert.Equal(t, "192.168.1.40/24", spec.Nodes[0].Address.String())
}

// A wrong answer is told at once, in words, and requested again.
func TestInitAsksAgain(t *testing.T) {
	f := newFront(t, pvesim.EightA100())
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	said, err := interview(t, InitFlags{}, all(f.endpoint, "yes", f.token, f.secret,
		"My Cluster", "mine", "two", "2", "3", "many", "17", "4", "10.0.0", "", "1.1.1.1", "", "10.0.1.50", "fifty", "10.0.0.50")...)
	require.NoError(t, err)
	for _, want := range []string{
		`name "My Cluster": write at most 32`, `"two" is not a number: write one like 1`, "2 servers: write 1, or 3", `"many" is not a number: write one like 2`,
		"17 GPUs per worker: a VM takes 1 to 16", `"10.0.0" is not a network: write its address and length, e.g. 10.0.0.0/24`,
		"gateway 1.1.1.1: write one inside the network 10.0.0.0/24", "first address 10.0.1.50: write one inside", `"fifty" is not an address: write it like 10.0.0.11`,
	} {
		assert.Equal(t, 1, strings.Count(said, want), "%s in\n%s", want, said)
	}
	spec, err := cluster.Load(DefaultSpec)
	require.NoError(t, err)
	assert.Equal(t, "mine", spec.Name)
	assert.Len(t, spec.GPUNodes(), 2)
}

func TestInitRefusals(t *testing.T) {
	f := newFront(t, pvesim.OneGPU())
	t.Chdir(t.TempDir())
	for want, o := range map[string]InitFlags{
		"-endpoint=ADDRESS (or -endpoint=lab, which needs nothing else)\n  -token=USER@REALM!NAME\n  -secret=env:NAME": {},
		"-token=USER@REALM!NAME":     {Endpoint: f.endpoint},
		"every user of this machine": {Endpoint: f.endpoint, Token: f.token, Secret: f.secret, Fingerprint: f.fingerprint},
		`endpoint "ftp://x"`:         {Endpoint: "ftp://x", Token: f.token, Secret: "env:TOKEN"},
		"write user@realm!name":      {Endpoint: f.endpoint, Token: "homelab", Secret: "env:TOKEN", Fingerprint: f.fingerprint},
		"there is no folder":         {Endpoint: "lab", Out: "nowhere/cluster.yaml"},
		"cannot be reached":          {Endpoint: "127.0.0.1:1", Token: f.token, Secret: "env:HOME"},
		"not the expected one":       {Endpoint: f.endpoint, Token: f.token, Secret: "env:HOME", Fingerprint: strings.Repeat("AB", 32)},
		"2 servers":                  {Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN", Fingerprint: f.fingerprint, Servers: 2},
		"Network of the nodes":       {Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN", Fingerprint: f.fingerprint, Prefix: "10"},
		"the network of bridge none": {Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN", Fingerprint: f.fingerprint, Bridge: "none"},
	} {
		t.Setenv("TOKEN", f.secret)
		_, err := interview(t, o)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), f.secret)
		assert.NoFileExists(t, DefaultSpec)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ask := &asker{Console: &console.Console{Talk: &bytes.Buffer{}}, person: true, in: bufio.NewReader(strings.NewReader(""))}
	block := make(chan struct{})
	defer close(block)
	_, err := ask.read(ctx, func() (string, error) { <-block; return "", nil })
	assert.Equal(t, 130, code(err))
	_, err = ask.text(t.Context(), "x", "", "", nil)
	assert.Equal(t, refused, code(err), "the answers ended")
}

// pageHosts are the hosts of docs/hosts.md, by name.
func pageHosts(t *testing.T) map[string]pvesim.Model {
	t.Helper()
	models := map[string]pvesim.Model{}
	files, err := filepath.Glob("../../examples/hosts/*/site.yaml")
	require.NoError(t, err)
	for _, file := range files {
		model, err := pvesim.LoadModel(file)
		require.NoError(t, err)
		models[filepath.Base(filepath.Dir(file))] = model.WithOperator()
	}
	require.Len(t, models, 6)
	return models
}

// lives looks at a host, brings a cluster up there, twice, and leaves nothing of it. It returns what was said before.
func lives(t *testing.T, model pvesim.Model, text string) (said string) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		w.sim.Close()
		w.sim = pvesim.New(model, pvesim.Options{Kubernetes: w.kube})
		defer w.close()
		before := w.sim.Volumes()
		require.NoError(t, w.do(text, Options{}, with(HostFlags{}, hostCheck)), w.data.String())
		said = w.data.String()
		assert.Equal(t, pending, code(w.do(text, Options{}, Plan)))
		said += w.data.String()
		require.NoError(t, w.do(text, Options{}, with(UpFlags{}, Up)))
		require.NoError(t, w.do(text, Options{}, Plan))
		assert.Contains(t, w.data.String(), "Nothing to change")
		require.NoError(t, w.do(text, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down)))
		assert.Equal(t, before, w.sim.Volumes())
		assert.Len(t, w.sim.Mappings(), len(model.Mappings))
		assert.Len(t, w.sim.VMs(), len(model.VMs))
	})
	return said
}

// What cluster:init writes is what cluster:up makes, with no editor between them.
func TestInitThenUp(t *testing.T) {
	models := pageHosts(t)
	models["eight-a100"], models["two-hosts"] = pvesim.EightA100(), pvesim.TwoHosts()
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, model)
			t.Chdir(t.TempDir())
			t.Setenv("TOKEN", f.secret)
			_, err := interview(t, InitFlags{Endpoint: f.endpoint, Token: f.token, Secret: "env:TOKEN", Fingerprint: f.fingerprint})
			require.NoError(t, err)
			text, err := os.ReadFile(DefaultSpec)
			require.NoError(t, err)
			lives(t, model, string(text))
		})
	}
}

// TestHosts brings up the clusters of docs/hosts.md: those that install charts without them, which
// sim/lab/e2e.TestHosts has. The page shows the files as they are, and what host:check and cluster:plan say.
func TestHosts(t *testing.T) {
	page, err := os.ReadFile("../../docs/hosts.md")
	require.NoError(t, err)
	for name, model := range pageHosts(t) {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../examples/hosts", name, "cluster.yaml"))
			require.NoError(t, err)
			block := "```yaml\n" + string(text) + "```\n"
			_, rest, found := strings.Cut(string(page), block)
			require.True(t, found, "%s is not on the page", name)
			file, _, _ := strings.Cut(string(text), "\nstorage:")
			file, _, _ = strings.Cut(file, "\nloadBalancer:")
			said := lives(t, model, file)
			rest, _, _ = strings.Cut(rest, "\n## ")
			for line := range strings.Lines(rest) {
				if shown, is := strings.CutPrefix(line, "    "); is {
					assert.Contains(t, said, shown)
				}
			}
		})
	}
}
