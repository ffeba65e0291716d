package backup_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/sim/facts"
)

// forged packs a backup as somebody does who has a recipient's public key and no scruples.
func forged(t testing.TB, to []age.Recipient, m backup.Manifest, signature string, snapshot io.Reader, header func(*tar.Header)) []byte {
	t.Helper()
	var out bytes.Buffer
	sealed, err := age.Encrypt(&out, to...)
	require.NoError(t, err)
	packed, err := gzip.NewWriterLevel(sealed, flate.BestCompression)
	require.NoError(t, err)
	w := tar.NewWriter(renamer{packed})
	if m.Format == 0 {
		m.Format = backup.Format
	}
	manifest, err := json.Marshal(m)
	require.NoError(t, err)
	var sums strings.Builder
	for _, f := range [][2]string{{"manifest.json", string(manifest)}, {"token", token().Reveal()}, {"agent-token", ""}, {"config.yaml", ""}, {"cluster.yaml", ""}} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f[0], Size: int64(len(f[1]))}))
		_, _ = io.WriteString(w, f[1])
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(f[1])), f[0])
	}
	if m.Format > 1 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "signature", Size: int64(len(signature))}))
		_, _ = io.WriteString(w, signature)
	}
	head := &tar.Header{Name: "snapshot", Size: m.Size, Typeflag: tar.TypeReg}
	if header != nil {
		header(head)
	}
	require.NoError(t, w.WriteHeader(head))
	if head.Typeflag == tar.TypeReg {
		_, _ = io.Copy(w, snapshot)
	}
	fmt.Fprintf(&sums, "%s  snapshot\n", m.SHA256)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "SHA256SUMS", Size: int64(sums.Len())}))
	_, _ = io.WriteString(w, sums.String())
	_ = w.Close()
	require.NoError(t, packed.Close())
	require.NoError(t, sealed.Close())
	return out.Bytes()
}

// A name in a backup is a plain file name: one that leads elsewhere would be written there, by
// root, on a server.
func TestNamesOfABackupAreFileNames(t *testing.T) {
	id, to := pair(t)
	there := []byte("etcd")
	for _, name := range []string{"", ".", "..", "../../../etc/cron.d/x", "a/b", "/etc/passwd", `a\b`, "-rf", ".hidden", "a b", "a\nb", "a\x00b", "a;b", "$(id)", "`id`", "ä", strings.Repeat("a", 300)} {
		c := contents(there)
		c.Snapshot = name
		_, err := backup.Open(bytes.NewReader(forged(t, to, c.Manifest, "", bytes.NewReader(there), nil)), id)
		require.ErrorContains(t, err, "is not the name of a snapshot", name)
		assert.Less(t, len(err.Error()), 600)
		_, err = backup.Write(io.Discard, to, nil, c, bytes.NewReader(there))
		require.ErrorContains(t, err, "is not the name of a snapshot", name)
	}
	for what, change := range map[string]func(*backup.Manifest){
		"is not a digest":        func(m *backup.Manifest) { m.SHA256 = "; rm -rf /" },
		"is not a name":          func(m *backup.Manifest) { m.Server = "cp1\x1b[2J" },
		"it is larger than":      func(m *backup.Manifest) { m.Size = 1 << 40 },
		"is not a name of a cl…": func(m *backup.Manifest) { m.Agents = []string{strings.Repeat("a", 1000)} },
	} {
		c := contents(there)
		change(&c.Manifest)
		_, err := backup.Write(io.Discard, to, nil, c, bytes.NewReader(there))
		assert.ErrorContains(t, err, strings.TrimSuffix(what, "l…"))
	}
	for _, name := range []string{"on-demand-cp1-1795479213", "etcd-snapshot-cp1.home.arpa-1764000000.zip", "homelab-backup-k3s_1-1"} {
		c := contents(there)
		c.Snapshot = name
		_, err := backup.Write(io.Discard, to, nil, c, bytes.NewReader(there))
		require.NoError(t, err)
	}
}

// renamer writes the records of a sparse file, which Go's tar.Writer refuses to write.
type renamer struct{ w io.Writer }

func (r renamer) Write(p []byte) (int, error) {
	_, err := r.w.Write(bytes.ReplaceAll(p, []byte("XNU.sparse"), []byte("GNU.sparse")))
	return len(p), err
}

// zeros is a zip file of so many of them.
func zeros(t testing.TB, size int64) []byte {
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	f, err := w.Create("on-demand-cp1-1")
	require.NoError(t, err)
	_, err = io.CopyN(f, endless{}, size)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A small file stays small: nothing that is packed, and packed again, takes the memory that it
// names, or hours.
func TestSmallBackupsStaySmall(t *testing.T) {
	id, to := pair(t)
	zipped := zeros(t, 200<<20)
	inner := sha256.Sum256(zipped)
	before := new(runtime.MemStats)
	runtime.ReadMemStats(before)
	for name, make := range map[string]func() []byte{
		"a zip of zeros": func() []byte {
			m := backup.Manifest{Snapshot: "a.zip", Size: int64(len(zipped)), SHA256: hex.EncodeToString(inner[:])}
			return forged(t, to, m, "", bytes.NewReader(zipped), nil)
		},
		"zeros": func() []byte {
			m := backup.Manifest{Snapshot: "a", Size: 80 << 20, SHA256: strings.Repeat("0", 64)}
			return forged(t, to, m, "", io.LimitReader(endless{}, m.Size), nil)
		},
		"zeros that say that they are zipped": func() []byte {
			m := backup.Manifest{Snapshot: "a.zip", Size: 16 << 20, SHA256: strings.Repeat("0", 64)}
			return forged(t, to, m, "", io.LimitReader(endless{}, m.Size), nil)
		},
		"a link": func() []byte {
			m := backup.Manifest{Snapshot: "a", SHA256: strings.Repeat("0", 64)}
			return forged(t, to, m, "", nil, func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "/dev/zero" })
		},
		"a file of one hole": func() []byte {
			m := backup.Manifest{Snapshot: "a", Size: 8e9, SHA256: strings.Repeat("0", 64)}
			return forged(t, to, m, "", strings.NewReader("etcd"), func(h *tar.Header) {
				h.Size, h.Format = 4, tar.FormatPAX
				h.PAXRecords = map[string]string{"XNU.sparse.map": "0,4", "XNU.sparse.size": "8000000000", "XNU.sparse.numblocks": "1"}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := make()
			r, err := backup.Open(bytes.NewReader(file), id)
			if err == nil {
				_, err = backup.Inspect(t.Context(), r, r.Snapshot, r.Token)
			}
			require.Error(t, err)
			after := new(runtime.MemStats)
			runtime.ReadMemStats(after)
			t.Logf("%d bytes: %v, %d MiB", len(file), err, (after.Sys-before.Sys)>>20)
			assert.Less(t, after.Sys-min(before.Sys, after.Sys), uint64(300<<20))
		})
	}
}

// A tree that no database writes is refused: the same bytes as the values of 60,000 entries would be copied as
// often, and a page in several places read as often.
func TestTreesThatNobodyWrites(t *testing.T) {
	const leaf, branch = 2, 1
	var many []change
	for i := range 400 {
		many = append(many, change{fmt.Sprint("/registry/minions/", i), bytes.Repeat([]byte("x"), 100)})
	}
	few := []change{{"/registry/minions/a", kv(strings.Repeat("k", 60<<10), nil)}, {"/registry/minions/b", []byte("x")}}
	second := func(page []byte) { copy(page[40:48], page[24:32]) } // is as long as the first, or the same page
	for want, tt := range map[string]struct {
		kind   byte
		all    []change
		change func(page []byte)
	}{
		"an entry ends behind its page": {leaf, few, second},
		"is in two places":              {branch, many, second},
		"its keys are out of order": {leaf, few, func(page []byte) {
			first := bytes.Clone(page[16:32])
			copy(page[16:32], page[32:48])
			copy(page[32:48], first)
			page[20] += 16 // each counts from itself
			page[36] -= 16
		}},
	} {
		b := snapshot(t, tt.all...)
		db := b[:len(b)-sha256.Size]
		for at := 2 * 4096; at+4096 <= len(db); at += 4096 {
			if page := db[at : at+4096]; page[8] == tt.kind && (page[10] == 2 || tt.kind == branch) {
				tt.change(page)
			}
		}
		sum := sha256.Sum256(db)
		_, err := backup.Inspect(t.Context(), bytes.NewReader(append(bytes.Clone(db), sum[:]...)), "s", token())
		require.ErrorContains(t, err, "the database in it is broken")
		require.ErrorContains(t, err, want)
	}
}

// Who made a backup is known by a signature that OpenSSH makes and checks too, of every kind of
// key; one of another file or another purpose is none.
func TestSignature(t *testing.T) {
	id, to := pair(t)
	there := []byte("etcd")
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, key := range map[string]any{"ed25519": ed, "rsa": old} {
		t.Run(name, func(t *testing.T) {
			by, err := ssh.NewSignerFromKey(key)
			require.NoError(t, err)
			var out bytes.Buffer
			_, err = backup.Write(&out, to, by, contents(there), bytes.NewReader(there))
			require.NoError(t, err)
			r, err := backup.Open(bytes.NewReader(out.Bytes()), id)
			require.NoError(t, err)
			require.NotNil(t, r.Maker)
			assert.Equal(t, by.PublicKey().Marshal(), r.Maker.Marshal())
			_, err = io.Copy(io.Discard, r)
			require.NoError(t, err)
			byOpenSSH(t, by, unpack(t, out.Bytes(), id))
		})
	}
	r, err := backup.Open(bytes.NewReader(written(t, to, there)), id)
	require.NoError(t, err)
	assert.Nil(t, r.Maker, "nobody signed it")

	by, err := ssh.NewSignerFromKey(ed)
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = backup.Write(&out, to, by, contents(there), bytes.NewReader(there))
	require.NoError(t, err)
	signature := unpack(t, out.Bytes(), id)["signature"]
	other := contents([]byte("ETCD"))
	for _, forgery := range []string{string(signature), "nonsense", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"} {
		_, err = backup.Open(bytes.NewReader(forged(t, to, other.Manifest, forgery, strings.NewReader("ETCD"), nil)), id)
		require.ErrorContains(t, err, "its signature")
	}
	first := other.Manifest
	first.Format = 1
	r, err = backup.Open(bytes.NewReader(forged(t, to, first, "", strings.NewReader("ETCD"), nil)), id)
	require.NoError(t, err, "the layout without signatures")
	assert.Nil(t, r.Maker)
}

// unpack returns the files of a backup.
func unpack(t *testing.T, file []byte, id age.Identity) map[string][]byte {
	plain, err := age.Decrypt(bytes.NewReader(file), id)
	require.NoError(t, err)
	packed, err := gzip.NewReader(plain)
	require.NoError(t, err)
	out := map[string][]byte{}
	for r := tar.NewReader(packed); ; {
		head, err := r.Next()
		if err != nil {
			return out
		}
		out[head.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

// byOpenSSH has ssh-keygen check a signature.
func byOpenSSH(t *testing.T, by ssh.Signer, files map[string][]byte) {
	keygen := facts.Program(t, "ssh-keygen", "openssh-client")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sig"), files["signature"], 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "allowed"), append([]byte("me "), ssh.MarshalAuthorizedKey(by.PublicKey())...), 0o600))
	cmd := exec.CommandContext(t.Context(), keygen, "-Y", "verify", "-f", filepath.Join(dir, "allowed"), "-I", "me", "-n", "homelab-backup", "-s", filepath.Join(dir, "sig"))
	cmd.Stdin = bytes.NewReader(files["SHA256SUMS"])
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, string(out))
}

// A backup of a later layout, or of none, is not read; a snapshot that is another one than the manifest says does not come whole.
func TestForgeries(t *testing.T) {
	id, to := pair(t)
	there := []byte("etcd")
	for format, want := range map[int]string{-1: "it has layout -1", backup.Format + 1: fmt.Sprintf("it has layout %d, and this version reads %d", backup.Format+1, backup.Format)} {
		m := contents(there).Manifest
		m.Format = format
		_, err := backup.Open(bytes.NewReader(forged(t, to, m, "", bytes.NewReader(there), nil)), id)
		require.ErrorContains(t, err, want)
	}
	for _, format := range []int{1, backup.Format} {
		m := contents(there).Manifest
		m.Format = format
		for snapshot, want := range map[string]error{"etcd": nil, "ETCD": backup.ErrDamaged} {
			r, err := backup.Open(bytes.NewReader(forged(t, to, m, "", strings.NewReader(snapshot), nil)), id)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, r)
			require.ErrorIs(t, err, want)
		}
	}
	m := contents(there).Manifest
	m.SHA256 = strings.Repeat("x", 10_000)
	_, err := backup.Open(bytes.NewReader(forged(t, to, m, "", bytes.NewReader(there), nil)), id)
	require.ErrorContains(t, err, "is not a digest")
	assert.Less(t, len(err.Error()), 300, "what somebody else wrote is not shown at length")
}
