package cluster_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/iso"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// wire keeps what goes over connections in both directions, but for the header that
// credentials belong into.
type wire struct {
	mu   sync.Mutex
	text strings.Builder
}

// wired is one connection.
type wired struct {
	*wire
	next http.RoundTripper
}

func (w wired) RoundTrip(r *http.Request) (*http.Response, error) {
	w.keep(r.Method, r.URL.String())
	for k, v := range r.Header {
		if k != "Authorization" {
			w.keep(k, strings.Join(v, " "))
		}
	}
	var err error
	if r.Body, err = w.copied(r.Body); err != nil {
		return nil, err
	}
	res, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body, err = w.copied(res.Body)
	return res, err
}

func (w *wire) copied(body io.ReadCloser) (io.ReadCloser, error) {
	if body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(body)
	_ = body.Close()
	w.keep(string(b))
	return io.NopCloser(bytes.NewReader(b)), err
}

func (w *wire) keep(parts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		w.text.WriteString(p)
		w.text.WriteByte('\n')
	}
}

// Find looks for secrets, by name, in a text, as they are, in a URL, in base64 and in
// JSON. It returns the lines that have them.
func Find(secrets map[string]string, text string) map[string]string {
	found := map[string]string{}
	for name, s := range secrets {
		quoted, _ := json.Marshal(s)
		for _, form := range []string{s, url.QueryEscape(s), base64.StdEncoding.EncodeToString([]byte(s)), strings.Trim(string(quoted), `"`)} {
			if i := strings.Index(text, form); i >= 0 {
				line, _, _ := strings.Cut(text[strings.LastIndexByte(text[:i], '\n')+1:], "\n")
				found[name] = line
			}
		}
	}
	return found
}

func leaks(t testing.TB, secrets map[string]string, where, text string) {
	t.Helper()
	for name, line := range Find(secrets, text) {
		assert.Fail(t, "a secret is out", "the %s is in %s: %.300s", name, where, line)
	}
}

func TestLeaksAreFound(t *testing.T) {
	secrets := map[string]string{"password": `a "b"/c+d`}
	for _, text := range []string{`x a "b"/c+d y`, "p=a+%22b%22%2Fc%2Bd&q", "\n" + `{"k":"a \"b\"/c+d"}`, "data: YSAiYiIvYytk\n"} {
		assert.Len(t, Find(secrets, text), 1, text)
	}
	assert.Empty(t, Find(secrets, "a b/c+d"))
}

// secrets are all those of a run, by name.
func (w *world) secrets(t testing.TB, spec *spec.Spec) map[string]string {
	t.Helper()
	read := func(node, name string) string {
		b, err := w.guests()[node].Disk().ReadFile(name)
		require.NoError(t, err)
		return strings.TrimSpace(string(b))
	}
	config, err := clientcmd.LoadFromFile(filepath.Join(w.dir, "kubeconfig"))
	require.NoError(t, err)
	key := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientKeyData
	login, err := loginKey()
	require.NoError(t, err)
	out := map[string]string{
		"API token": w.token, "administrator's key": middle(string(key)),
		"administrator's key, as a kubeconfig has it": base64.StdEncoding.EncodeToString(key),
		"login key":           middle(string(login)),
		"registry's password": os.Getenv("REGISTRY_PASSWORD"), "console's password": os.Getenv("CONSOLE_HASH"),
	}
	for _, n := range spec.Servers() {
		for _, name := range []string{"token", "node-token", "agent-token"} {
			_, password, ok := strings.Cut(read(n.Name, "/var/lib/rancher/k3s/server/"+name), "::")
			require.True(t, ok)
			if _, after, ok := strings.Cut(password, ":"); ok {
				password = after
			}
			out["K3s "+name+" of "+n.Name] = password
		}
	}
	for _, n := range spec.Nodes {
		if n.Role != "agent" {
			continue
		}
		token := read(n.Name, "/etc/rancher/k3s/token")
		require.Regexp(t, joinToken, token, "%s has joined with a token of its own, not with one of the cluster", n.Name)
		out["join token of "+n.Name] = token[strings.LastIndex(token, ".")+1:]
	}
	for name, s := range out {
		require.Greater(t, len(s), 15, name)
	}
	return out
}

// middle is a line of a PEM block that no other block has.
func middle(pem string) string {
	lines := strings.Split(strings.TrimSpace(pem), "\n")
	return lines[len(lines)/2]
}

// No secret of a whole life is anywhere but in its own place: files of mode 0600,
// and the connections that carry it.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Setenv("REGISTRY_PASSWORD", "pa55 of/the+registry=")
	t.Setenv("CONSOLE_HASH", "$6$rounds=5000$salt$Zm9yIHRlc3Rz")
	text := example(t, "eight-a100") + edited + `
ssh: {passwordHash: env:CONSOLE_HASH}
`
	text = replace(t, text, "  vip: 10.0.0.100", `  registries: {docker.io: {endpoints: [https://mirror.home.arpa], username: pull, password: env:REGISTRY_PASSWORD}}
  secretsEncryption: true
  vip: 10.0.0.100`)
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		over := &wire{}
		w.tap = func(next http.RoundTripper) http.RoundTripper { return wired{over, next} }

		spec := parse(t, text)
		said := strings.Join(w.plan(t, spec), "\n")
		w.up(t, spec)
		secrets := w.secrets(t, spec)
		changed := parse(t, replace(t, text, "    memory: 128GiB\n    labels", "    memory: 96GiB\n    labels"))
		said += strings.Join(w.plan(t, changed), "\n")
		w.up(t, changed)
		_, _, err := w.verify(t, changed)
		require.NoError(t, err)

		w.secretFiles(t, secrets)
		leaks(t, secrets, "a plan", said)
		for _, vm := range w.sim.VMs() {
			leaks(t, secrets, "the configuration of "+vm.Name, fmt.Sprint(vm.Config))
			if vm.Guest != nil {
				w.secretsInside(t, secrets, vm)
			}
		}
		isos := 0
		for _, v := range w.sim.Volumes() {
			if data := w.sim.ReadVolume("pve1", v.ID); v.Content == "iso" {
				files, _, err := iso.Read(data)
				require.NoError(t, err)
				for name, b := range files {
					leaks(t, secrets, name+" of "+v.ID, string(b))
					isos++
				}
			}
		}
		assert.Equal(t, 3*7, isos, "user-data, meta-data and network-config of each node")
		w.down(t, changed)
		leaks(t, secrets, "what was said", w.output.String())
		leaks(t, secrets, "what went over the wire", over.text.String())
		for _, r := range w.sim.Requests() {
			leaks(t, secrets, "a recorded request", fmt.Sprint(r.Path, r.Params, r.Message))
		}
	})
}

// secretFiles looks at this machine's folder.
func (w *world) secretFiles(t testing.TB, secrets map[string]string) {
	t.Helper()
	own := map[string]string{"id_ed25519": "login key", "kubeconfig": "administrator's key, as a kubeconfig has it"}
	for _, name := range w.files(t) {
		path := filepath.Join(w.dir, name)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		others := maps.Clone(secrets)
		if mine, ok := own[name]; ok {
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
			assert.Contains(t, Find(secrets, string(b)), mine, "it is where it belongs")
			delete(others, mine)
		}
		leaks(t, others, path, string(b))
	}
}

// secretsInside looks at what any user of a guest can see: files, programs'
// arguments, journals.
func (w *world) secretsInside(t testing.TB, secrets map[string]string, vm pvesim.VMState) {
	t.Helper()
	kept := map[string]string{}
	vm.Guest.Disk().Walk(func(name string, perm fs.FileMode, data []byte) {
		if perm&0o077 == 0 || name == "/etc/shadow" { // that is 0640, and its group is there for it
			maps.Copy(kept, Find(secrets, string(data)))
			return
		}
		leaks(t, secrets, fmt.Sprintf("%s:%s (%s)", vm.Name, name, perm), string(data))
	})
	for _, name := range []string{"registry's password", "console's password"} {
		assert.Contains(t, kept, name, "it is where it belongs")
	}
	commands := vm.Guest.Commands()
	assert.NotEmpty(t, commands)
	for _, args := range commands {
		leaks(t, secrets, "a command of "+vm.Name, strings.Join(args, " "))
	}
	for unit := range vm.Guest.Units() {
		leaks(t, secrets, "the journal of "+vm.Name, strings.Join(vm.Guest.Journal(unit), "\n"))
	}
}
