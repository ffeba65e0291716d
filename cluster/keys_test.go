package cluster

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// base is a file whose keys are changed, one at a time.
type base struct {
	name  string
	path  string
	tree  any
	hosts *proxmox.Client
	made  effects
}

// parse reads a tree as the file of a base.
func (b *base) parse(tree any) (*spec.Spec, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return Parse(b.path, text)
}

func basesOf(t *testing.T) []*base {
	from, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("clusterfile/testdata/good")))
	t.Chdir(dir)
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	key, certificate := authority(t)
	_, other := authority(t)
	for file, text := range map[string][]byte{
		"token-secret": []byte("token"), "s3-key": []byte("s3"), "id": private, "lab-ca.key": key, "lab-ca.pem": certificate,
		"other-ca.pem": other, "ca.pem": certificate,
	} {
		_ = os.Remove(file)
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	shape, err := os.ReadFile(filepath.Join(from, "testdata/keys/shape.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("shape.yaml", shape, 0o600))
	files, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	var out []*base
	for _, file := range files {
		b := &base{name: strings.TrimSuffix(file, ".yaml"), path: filepath.Join(dir, file)}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, ref := range regexp.MustCompile(`env:([A-Z0-9_]+)`).FindAllSubmatch(text, -1) {
			t.Setenv(string(ref[1]), "postgresql://hub:"+string(ref[1])+"@db/hub")
		}
		require.NoError(t, yaml.Unmarshal(text, &b.tree))
		out = append(out, b)
	}
	return out
}

// authority is a certificate that may sign others, and its key.
func authority(t *testing.T) (key, certificate []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().AddDate(9, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	require.NoError(t, err)
	bare, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bare}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// row says of a key what its schema does not; see testdata/keys/values.yaml.
type row struct {
	Key, Base, At         string
	Given                 map[string]any
	Value                 any
	Refused, Warned, Test string
}

// rowsOf reads the rows, by key. A key of a node is one of three layers.
func rowsOf(t *testing.T) map[string]row {
	text, err := os.ReadFile("testdata/keys/values.yaml")
	require.NoError(t, err)
	var all []row
	require.NoError(t, yaml.UnmarshalStrict(text, &all))
	out := map[string]row{}
	inSchema := map[string]bool{}
	for _, key := range leavesOf(t) {
		inSchema[key.path] = true
	}
	written := func(key string) bool { return slices.ContainsFunc(all, func(r row) bool { return r.Key == key }) }
	add := func(r row) {
		require.NotContains(t, out, r.Key, "twice in values.yaml")
		out[r.Key] = r
	}
	for _, r := range all {
		r.At = cmp.Or(r.At, r.Key)
		if !strings.HasPrefix(r.Key, ".") {
			add(r)
			continue
		}
		for key, layer := range map[string]string{"defaults": "defaults", "pools.*": "pools.wk", "nodes.*": "nodes.wk1", "vms.*": "vms.box"} {
			if key == "vms.*" && (written(key+r.Key) || !inSchema[key+r.Key]) { // a VM that is not a node has not all keys of a node's shape
				continue
			}
			in := r
			in.Key, in.Base, in.At, in.Given = key+r.Key, "shape", layer+r.At, map[string]any{}
			for place, value := range r.Given {
				if strings.HasPrefix(place, ".") {
					place = layer + place
				}
				in.Given[place] = value
			}
			add(in)
		}
	}
	return out
}

// walk changes keys of files and compares the effects.
type walk struct {
	bases []*base
	rows  map[string]row
	login ssh.Signer
}

// TestEveryKeyDoesSomething: a key that changes nothing but what was parsed is a promise that
// nobody keeps. Each key of the schema gets another value in a file of cluster/clusterfile/testdata/good,
// and must change something of what is made of it: a VM, its first boot, K3s' configuration, the
// parts and their values, the plan's steps.
func TestEveryKeyDoesSomething(t *testing.T) {
	w := &walk{rows: rowsOf(t)}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("KEYS_OTHER", "postgresql://hub:another@db/hub")
		w.open(t)
		leaves := leavesOf(t)
		for _, key := range leaves {
			r, known := w.rows[key.path]
			delete(w.rows, key.path)
			switch {
			case r.Test != "":
				holdsElsewhere(t, root, r)
			case known:
				w.asWritten(t, r)
			case isShared(leaves, key.path):
			default:
				w.anyOther(t, key)
			}
		}
		assert.Empty(t, w.rows, "the schema has no such key: take it out of values.yaml")
	})
}

func (w *walk) open(t *testing.T) {
	w.bases = basesOf(t)
	var err error
	w.login, err = ssh.LoadSigner("id")
	require.NoError(t, err)
	for _, b := range w.bases {
		s, err := b.parse(b.tree)
		require.NoError(t, err, b.name)
		b.hosts = hostsFor(t, s)
		b.made = effectsOf(t, s, b.hosts, w.login)
		require.Empty(t, b.made.unlike(effectsOf(t, s, b.hosts, w.login)), "%s: the same file has the same effects", b.name)
	}
}

// asWritten changes a key as its row says.
func (w *walk) asWritten(t *testing.T, r row) {
	i := slices.IndexFunc(w.bases, func(b *base) bool { return b.name == r.Base })
	require.GreaterOrEqual(t, i, 0, "%s: no file %q", r.Key, r.Base)
	b := w.bases[i]
	tree, made := b.tree, b.made
	for _, place := range slices.Sorted(maps.Keys(r.Given)) {
		tree = with(tree, strings.Split(place, "."), r.Given[place])
	}
	if len(r.Given) > 0 {
		s, err := b.parse(tree)
		if !assert.NoError(t, err, r.Key) {
			return
		}
		made = effectsOf(t, s, b.hosts, w.login)
	}
	s, err := b.parse(with(tree, strings.Split(r.At, "."), r.Value))
	if r.Refused != "" {
		assert.ErrorContains(t, err, r.Refused, r.Key)
		return
	}
	if !assert.NoError(t, err, r.Key) {
		return
	}
	if r.Warned != "" {
		assert.ErrorContains(t, spec.Problems(s.Warnings), r.Warned, r.Key)
		return
	}
	unlike := made.unlike(effectsOf(t, s, b.hosts, w.login))
	assert.NotEmpty(t, unlike, "%s does nothing: %v at %s of %s changes no effect", r.Key, r.Value, r.At, r.Base)
	staysApart(t, r.Key, unlike)
}

// anyOther looks for a file in which another value for a key changes something.
func (w *walk) anyOther(t *testing.T, key leaf) {
	var why error
	tries := 0
	for _, there := range []bool{true, false} { // files that have the key first
		for _, b := range w.bases {
			for _, place := range places(b.tree, key.path) {
				value := at(b.tree, place)
				if (value != nil) != there {
					continue
				}
				for _, other := range others(key.schema, value) {
					s, err := b.parse(with(b.tree, place, other))
					if err != nil {
						why = err
						continue
					}
					if tries++; tries > 12 {
						break
					}
					if unlike := b.made.unlike(effectsOf(t, s, b.hosts, w.login)); len(unlike) > 0 {
						staysApart(t, key.path, unlike)
						return
					}
				}
			}
		}
	}
	assert.Fail(t, key.path+" does nothing", "%d other values change no effect (%v): make it do what docs/cluster-yaml.md says; "+
		"if it does, write a value for it, or a test that shows its effect, in testdata/keys/values.yaml", tries, why)
}

// apart says which effects the keys of a section must not have.
var apart = []struct{ sections, effects string }{
	{"login", "vm/ seed/ template/ gpus/ host disks/ node/ mig/ driver export"},
	{"hub monitoring rancher fleet flux argocd backup charts tls", "vm/ seed/ k3s/ template/ gpus/ host disks/ node/ mig/ driver export"},
	{"ingress loadBalancer", "vm/ seed/ template/ gpus/ host disks/ node/ mig/ driver export"},
	{"image guest ssh", "part/ k3s/ node/ plugin fit fleet/ disks/ mig/ export"},
	{"nvidia", "vm/ seed/ disks/ gpus/ export"},
	{"proxmox", "part/ k3s/ node/ plugin fleet/ seed/"},
	{"k3s", "vm/ gpus/ disks/ node/ driver export"},
}

// staysApart: a key of one part of the world changes nothing of another.
func staysApart(t *testing.T, key string, effects []string) {
	section, _, _ := strings.Cut(key, ".")
	if key == "proxmox.host" || key == "proxmox.region" { // nodes carry them as topology labels and in their IDs
		effects = slices.DeleteFunc(slices.Clone(effects), func(e string) bool { return strings.HasPrefix(e, "node/") || strings.HasPrefix(e, "k3s/") })
	}
	for _, a := range apart {
		if !slices.Contains(strings.Fields(a.sections), section) {
			continue
		}
		for _, e := range effects {
			for _, foreign := range strings.Fields(a.effects) {
				assert.False(t, strings.HasPrefix(e, foreign), "%s changes %s", key, e)
			}
		}
	}
}

// isShared reports whether another distribution has a key that K3s has, too: it is moved there
// (cluster/clusterfile/internal/kubernetes, TestSharedKeys), where its effect shows.
func isShared(leaves []leaf, path string) bool {
	section, key, _ := strings.Cut(path, ".")
	at := func(path string) int { return slices.IndexFunc(leaves, func(l leaf) bool { return l.path == path }) }
	named := slices.ContainsFunc(choices(leaves[at("distribution")].schema), func(c object) bool {
		names, _ := c["enum"].([]any)
		return slices.Contains(names, any(section))
	})
	return named && section != "k3s" && at("k3s."+key) >= 0
}

// holdsElsewhere: a key whose effect shows only when a command runs has a test that names it.
func holdsElsewhere(t *testing.T, root string, r row) {
	folder, function, _ := strings.Cut(r.Test, " ")
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	name := r.Key[strings.LastIndex(r.Key, ".")+1:]
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if _, body, found := strings.Cut(string(text), "\nfunc "+function+"(t *testing.T) {\n"); found {
			body, _, _ = strings.Cut(body, "\n}\n")
			assert.Contains(t, body, name, "%s of %s says nothing of %s", function, folder, r.Key)
			return
		}
	}
	assert.Fail(t, r.Key+" has no test", "there is no %s in %s", function, folder)
}
