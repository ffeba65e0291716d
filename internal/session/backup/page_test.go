package backup

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var update = flag.Bool("update", false, "write the outputs into docs/restore.md")

const home = `
name: home
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11, 10.0.0.12, 10.0.0.13]}
  wk: {count: 1, addresses: [10.0.0.21]}
`

// site is a simulated world, for one command after the other.
type site struct {
	t      *testing.T
	sim    *pvesim.Sim
	kube   *kubesim.Sim
	dir    string
	talk   bytes.Buffer // of the last command
	signer ssh.Signer
}

func newSite(t *testing.T) *site {
	w := &site{t: t, kube: &kubesim.Sim{}, dir: t.TempDir()}
	w.sim = pvesim.New(pvesim.EightA100(), pvesim.Options{Kubernetes: w.kube})
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "key"), private, 0o600))
	w.signer, err = ssh.LoadSigner(filepath.Join(w.dir, "key"))
	require.NoError(t, err)
	return w
}

func (w *site) close() {
	w.sim.Close()
	require.NoError(w.t, w.kube.Close())
}

func (w *site) console() *console.Console {
	w.talk.Reset()
	return &console.Console{Talk: &w.talk, Data: &w.talk, Redact: &secret.Redactor{}}
}

// do gives one command, as a process of its own would.
func (w *site) do(command func(*session.Session, context.Context) error) error {
	w.t.Helper()
	want, err := cluster.Parse("cluster.yaml", []byte(home))
	require.NoError(w.t, err)
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(w.t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: w.sim.Client().Transport},
	})
	require.NoError(w.t, err)
	c, err := cluster.New(want, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{w.signer}, Dial: w.sim.Network().Dial, Dir: w.dir})
	require.NoError(w.t, err)
	s := &session.Session{Console: w.console(), Spec: want, Cluster: c}
	defer s.Close()
	return command(s, w.t.Context())
}

func with[F any](f F, do func(*session.Session, context.Context, F) error) func(*session.Session, context.Context) error {
	return func(s *session.Session, ctx context.Context) error { return do(s, ctx, f) }
}

// said is what a command printed, and its error.
func (w *site) said(err error) string {
	out := w.talk.String()
	if err != nil {
		out += err.Error() + "\n"
	}
	return strings.ReplaceAll(out, w.dir+"/", "")
}

// The page docs/restore.md shows what the commands print. What differs each time, such as
// sizes and digests, only has to look alike.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		defer w.close()
		require.NoError(t, w.do(with(session.UpFlags{}, session.Up)))
		key, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		identity := filepath.Join(w.dir, "key.txt")
		require.NoError(t, os.WriteFile(identity, []byte(key.String()+"\n"), 0o600))
		file := filepath.Join(w.dir, "home.backup.age")

		require.ErrorContains(t, w.do(with(BackupFlags{}, Backup)), "who may decrypt the backup?")
		to := BackupFlags{To: file, Recipient: key.Recipient().String()}
		pages.Compare(t, "docs/restore.md", "backup", w.said(w.do(with(to, Backup))), *update)
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, "-rw-------", info.Mode().String())
		require.ErrorContains(t, w.do(with(to, Backup)), "the file exists already")

		from := SourceFlags{From: file, Identity: identity}
		pages.Compare(t, "docs/restore.md", "verify", w.said(Verify(t.Context(), session.Options{Console: w.console()}, VerifyFlags{SourceFlags: from})), *update)

		restore := RestoreFlags{SourceFlags: from}
		pages.Compare(t, "docs/restore.md", "restore", w.said(w.do(with(restore, Restore))), *update) // nobody is there to agree
		assert.Contains(t, w.talk.String(), ", a key of this cluster\n")
		restore.Yes = true
		require.NoError(t, w.do(with(restore, Restore)))
		assert.Contains(t, w.talk.String(), "Kubernetes is as it was then.")
		w.strangers(from, key)

		time.Sleep(time.Minute)
		pages.Compare(t, "docs/restore.md", "certs", w.said(w.do(with(CertsFlags{}, Certs))), *update)
		err = w.do(with(CertsFlags{Warn: 400}, Certs))
		require.ErrorContains(t, err, "on 4 nodes a certificate ends within 400 days: homelab cluster:certs -rotate renews them")
		require.NoError(t, w.do(with(CertsFlags{Rotate: true}, Certs)))
		assert.Contains(t, w.talk.String(), "All certificates are less than a month old.")

		other, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(identity, []byte(other.String()+"\n"), 0o600))
		require.ErrorContains(t, w.do(with(restore, Restore)), "none of these identities decrypts it")
		for flags, want := range map[RestoreFlags]string{
			{}:                                     "which backup? write -from=FILE",
			{SourceFlags: SourceFlags{From: file}}: "what decrypts it?",
			{SourceFlags: SourceFlags{From: file}, Snapshot: "s"}:          "write one of them",
			{ChangeFlags: session.ChangeFlags{Yes: true}, Snapshot: "x-1"}: "there is no snapshot of that name",
		} {
			require.ErrorContains(t, w.do(with(flags, Restore)), want)
		}
	})
}

// strangers restores a backup that somebody made who has only the recipient's public key.
func (w *site) strangers(from SourceFlags, key *age.X25519Identity) {
	t := w.t
	t.Helper()
	whole, err := os.ReadFile(from.From)
	require.NoError(t, err)
	r, err := backup.Open(bytes.NewReader(whole), key)
	require.NoError(t, err)
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	stranger, err := ssh.ParseSigner(private)
	require.NoError(t, err)
	snapshot, err := io.ReadAll(r)
	require.NoError(t, err)
	for want, by := range map[string]ssh.Signer{"nobody can know: it is not signed": nil, ", no key of this cluster": stranger} {
		var forged bytes.Buffer
		sum, err := backup.Write(&forged, []age.Recipient{key.Recipient()}, by, r.Contents, bytes.NewReader(snapshot))
		require.NoError(t, err)
		forgery := from
		forgery.From = filepath.Join(t.TempDir(), "forged.age")
		require.NoError(t, os.WriteFile(forgery.From, forged.Bytes(), 0o600))
		yes := session.ChangeFlags{Yes: true}
		err = w.do(with(RestoreFlags{SourceFlags: forgery, ChangeFlags: yes}, Restore))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "add -digest=")
		var coded *session.Error
		require.ErrorAs(t, err, &coded)
		assert.Equal(t, 4, coded.Code)
		assert.Contains(t, w.talk.String(), want, "the table says so too")
		require.ErrorContains(t, w.do(with(RestoreFlags{SourceFlags: forgery, ChangeFlags: yes, Digest: "00"}, Restore)), "not that of -digest")
		require.NoError(t, w.do(func(s *session.Session, ctx context.Context) error {
			defer func() {
				assert.NotContains(t, s.Redact.Redact("a "+r.Token.Reveal()), r.Token.Reveal(), "the backup's token is a secret of this run")
			}()
			return Restore(s, ctx, RestoreFlags{SourceFlags: forgery, ChangeFlags: yes, Digest: sum})
		}))
	}
}
