package backup_test

import (
	"archive/zip"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/secret"
)

const password = "0123456789abcdef"

var ca = []byte("-----BEGIN CERTIFICATE-----\n")

func token() secret.Value {
	sum := sha256.Sum256(ca)
	return secret.New("K10" + hex.EncodeToString(sum[:]) + "::server:" + password)
}

// kv is mvccpb.KeyValue as etcd stores it: key, two revisions, a version, the value.
func kv(key string, value []byte) []byte {
	var b []byte
	field := func(n byte, data []byte) {
		b = append(b, n<<3|2)
		b = binary.AppendUvarint(b, uint64(len(data)))
		b = append(b, data...)
	}
	field(1, []byte(key))
	for _, n := range []byte{2, 3, 4} {
		b = append(b, n<<3, 7)
	}
	field(5, value)
	return b
}

func seal(t testing.TB, password string, plain []byte) []byte {
	key, err := pbkdf2.Key(sha1.New, password, []byte("5a17"), 4096, 32)
	require.NoError(t, err)
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(t, err)
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce)
	return []byte("5a17:" + base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, plain, nil)))
}

// change is a put, or a deletion where the value is nil.
type change struct {
	key   string
	value []byte
}

// snapshot makes a database as etcd does, with its checksum behind it.
func snapshot(t testing.TB, changes ...change) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("meta"))
		require.NoError(t, err)
		keys, err := tx.CreateBucket([]byte("key"))
		require.NoError(t, err)
		for i, c := range changes {
			revision := binary.BigEndian.AppendUint64(nil, uint64(i+2))
			revision = append(append(revision, '_'), make([]byte, 8)...)
			if c.value == nil {
				revision = append(revision, 't')
			}
			require.NoError(t, keys.Put(revision, kv(c.key, c.value)))
		}
		return nil
	}))
	require.NoError(t, db.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// bootstrap is what K3s keeps in etcd.
func bootstrap(t testing.TB, files map[string][]byte) change {
	doc := map[string]any{}
	for name, content := range files {
		doc[name] = map[string]any{"Timestamp": time.Now(), "Content": content}
	}
	b, err := json.Marshal(doc)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(password))
	return change{"/bootstrap/" + hex.EncodeToString(sum[:])[:12], seal(t, password, b)}
}

func whole(t testing.TB) []byte {
	return snapshot(t,
		change{"/registry/namespaces/kube-system", []byte("k8s\x00")}, change{"/registry/minions/cp1", []byte("k8s\x00")},
		change{"/registry/minions/wk1", []byte("k8s\x00")}, change{"/registry/minions/wk1", nil},
		change{"/registry/namespaces/kube-system", []byte("k8s\x00 again")},
		bootstrap(t, map[string][]byte{"ServerCA": ca, "ServerCAKey": []byte("key"), "EncryptionConfig": []byte("{}")}))
}

func TestInspect(t *testing.T) {
	facts, err := backup.Inspect(t.Context(), bytes.NewReader(whole(t)), "on-demand-cp1-1", token())
	require.NoError(t, err)
	assert.Positive(t, facts.Size)
	assert.Equal(t, 1, facts.Objects["nodes"])
	assert.Equal(t, "{}", facts.Encryption.Reveal())
	counted := backup.Manifest{Objects: map[string]int{"nodes": 1, "secrets": 2, "namespaces": 0}}
	assert.Equal(t, []string{"0 secrets instead of 2", "1 namespaces instead of 0"}, counted.Differences(facts.Objects))
	facts.Size, facts.Objects, facts.Encryption = 0, nil, secret.Value{}
	sum := sha256.Sum256(ca)
	assert.Equal(t, &backup.Facts{Revision: 7, Keys: 3, Nodes: []string{"cp1"}, Namespaces: []string{"kube-system"},
		Authority: hex.EncodeToString(sum[:]), SecretsKey: true}, facts)

	_, err = backup.Inspect(t.Context(), bytes.NewReader(whole(t)), "x", secret.New(password))
	require.NoError(t, err, "the secret alone is a token too")

	var z bytes.Buffer
	w := zip.NewWriter(&z)
	f, err := w.Create("on-demand-cp1-1")
	require.NoError(t, err)
	_, _ = f.Write(whole(t))
	require.NoError(t, w.Close())
	_, err = backup.Inspect(t.Context(), &z, "on-demand-cp1-1.zip", token())
	require.NoError(t, err)
}

// Nodes and namespaces are in order, whatever order they were made in.
func TestInspectSorts(t *testing.T) {
	changes := []change{bootstrap(t, map[string][]byte{"ServerCA": ca, "ServerCAKey": []byte("key")})}
	var names []string
	for i := range 26 {
		name := string(rune('a' + i*7%26))
		names = append(names, name)
		changes = append(changes, change{"/registry/minions/" + name, []byte("x")}, change{"/registry/namespaces/" + name, []byte("x")})
	}
	facts, err := backup.Inspect(t.Context(), bytes.NewReader(snapshot(t, changes...)), "s", token())
	require.NoError(t, err)
	slices.Sort(names)
	assert.Equal(t, names, facts.Nodes)
	assert.Equal(t, names, facts.Namespaces)
}

// A tree with branches, and values that are larger than a page.
func TestInspectManyKeys(t *testing.T) {
	changes := []change{bootstrap(t, map[string][]byte{"ServerCA": ca, "ServerCAKey": []byte("key")})}
	for i := range 3000 {
		changes = append(changes, change{fmt.Sprintf("/registry/minions/n%d", i), bytes.Repeat([]byte("x"), i%7*1000)})
	}
	facts, err := backup.Inspect(t.Context(), bytes.NewReader(snapshot(t, changes...)), "s", token())
	require.NoError(t, err)
	assert.Len(t, facts.Nodes, 3000)
	assert.False(t, facts.SecretsKey)
	assert.EqualValues(t, 3002, facts.Revision)
}

func TestInspectRefuses(t *testing.T) {
	good := whole(t)
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 1
	torn := good[:4096*3] // whole pages of another database, with a right checksum
	sum := sha256.Sum256(torn)
	torn = append(bytes.Clone(torn), sum[:]...)
	for name, c := range map[string]struct {
		snapshot []byte
		token    secret.Value
		want     string
	}{
		"empty":              {nil, token(), "no checksum at its end"},
		"cut off":            {good[:len(good)-7], token(), "no checksum at its end"},
		"a flipped bit":      {flipped, token(), "its checksum does not match"},
		"a torn database":    {torn, token(), "the database in it is broken"},
		"another token":      {good, secret.New("other"), "the token does not decrypt"},
		"another authority":  {good, secret.New("K10" + strings.Repeat("0", 64) + "::server:" + password), "another certificate authority"},
		"not of K3s":         {snapshot(t, change{"/registry/minions/cp1", []byte("x")}), token(), "nothing of K3s is in it"},
		"without authority":  {snapshot(t, bootstrap(t, map[string][]byte{"ServerCA": ca})), token(), "lacks the certificate authority"},
		"sealed differently": {snapshot(t, change{bootstrap(t, nil).key, seal(t, "else", []byte("{}"))}), token(), "the token does not decrypt"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backup.Inspect(t.Context(), bytes.NewReader(c.snapshot), "s", c.token)
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), password)
		})
	}
}

func pair(t testing.TB) (*age.X25519Identity, []age.Recipient) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	to, err := backup.Recipients(id.Recipient().String())
	require.NoError(t, err)
	return id, to
}

func contents(snapshot []byte) backup.Contents {
	sum := sha256.Sum256(snapshot)
	return backup.Contents{
		Manifest: backup.Manifest{Cluster: "lab", Made: time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC), K3s: "v1.36.5+k3s1", Server: "cp1",
			Servers: []string{"cp1"}, Agents: []string{"wk1"}, Snapshot: "on-demand-cp1-1", Size: int64(len(snapshot)), SHA256: hex.EncodeToString(sum[:])},
		Token: token(), Config: []byte("cluster-init: true\n"), ClusterYAML: []byte("name: lab\n"),
	}
}

func written(t testing.TB, to []age.Recipient, snapshot []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	sum, err := backup.Write(&out, to, nil, contents(snapshot), iotest.OneByteReader(bytes.NewReader(snapshot)))
	require.NoError(t, err)
	want := sha256.Sum256(out.Bytes())
	assert.Equal(t, hex.EncodeToString(want[:]), sum)
	return out.Bytes()
}

func TestThereAndBack(t *testing.T) {
	id, to := pair(t)
	there := bytes.Repeat([]byte("etcd "), 1000)
	file := written(t, to, there)
	for _, plain := range []string{password, "name: lab", "etcd etcd", "cluster-init"} {
		assert.NotContains(t, string(file), plain)
	}
	b, err := backup.Open(bytes.NewReader(file), id)
	require.NoError(t, err)
	want := contents(there)
	want.Format = backup.Format
	assert.Equal(t, want.Manifest, b.Manifest)
	assert.Equal(t, want.Token.Reveal(), b.Token.Reveal())
	assert.Equal(t, want.Config, b.Config)
	assert.Equal(t, want.ClusterYAML, b.ClusterYAML)
	back, err := io.ReadAll(b)
	require.NoError(t, err)
	assert.Equal(t, there, back)
	_, err = b.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	other, _ := pair(t)
	_, err = backup.Open(bytes.NewReader(file), other)
	require.ErrorIs(t, err, backup.ErrIdentity)
}

// Wherever a backup is cut off or changed, the snapshot does not come whole.
func TestDamage(t *testing.T) {
	id, to := pair(t)
	there := make([]byte, 100<<10) // more than one piece of age
	_, _ = rand.Read(there)
	file := written(t, to, there)
	read := func(file []byte) (int, error) {
		b, err := backup.Open(bytes.NewReader(file), id)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(io.Discard, b)
		return int(n), err
	}
	for at := 0; at < len(file); at += 997 {
		n, err := read(file[:at])
		require.Error(t, err, "cut off after %d", at)
		require.Less(t, n, len(there), "cut off after %d", at)
		flipped := bytes.Clone(file)
		flipped[at] ^= 4
		n, err = read(flipped)
		require.Error(t, err, "another byte at %d", at)
		require.Less(t, n, len(there), "another byte at %d", at)
	}
	for _, back := range []int{1, 2, 16, 17} {
		n, err := read(file[:len(file)-back])
		require.Error(t, err)
		require.Less(t, n, len(there))
	}
}

func TestWriteRefuses(t *testing.T) {
	_, to := pair(t)
	_, err := backup.Write(io.Discard, nil, nil, contents(nil), strings.NewReader(""))
	require.ErrorContains(t, err, "there is no recipient")
	there := []byte("etcd")
	for got, want := range map[string]string{"etc": "ended after 3 of 4 bytes", "etcd!": "more than the 4 bytes", "ETCD": "changed on its way"} {
		_, err := backup.Write(io.Discard, to, nil, contents(there), strings.NewReader(got))
		require.ErrorContains(t, err, want)
	}
	_, err = backup.Recipients("age1nonsense", "AGE-SECRET-KEY-1QQQ")
	require.ErrorContains(t, err, `"age1nonsense" is not a public key`)
	require.ErrorContains(t, err, "is a private key")
	assert.NotContains(t, err.Error(), "1QQQ")
	_, err = backup.Identities(strings.NewReader("nonsense"))
	require.ErrorContains(t, err, "age-keygen")
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("etcd"), []byte("value"), 100)
	f.Fuzz(func(t *testing.T, key, value []byte, flip int) {
		b := snapshot(t, change{string(key), value}, change{"/registry/minions/a", []byte("x")})
		b = b[:len(b)-32]
		b[max(flip, -flip-1)%len(b)] ^= 0x55
		sum := sha256.Sum256(b)
		_, err := backup.Inspect(t.Context(), bytes.NewReader(append(b, sum[:]...)), "s", token())
		require.Error(t, err, "nothing of K3s is in it")
	})
}
