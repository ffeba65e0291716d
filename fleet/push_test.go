package fleet_test

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// tree renders the test's parts.
func tree(t *testing.T) fleet.Tree {
	t.Helper()
	bundles, err := fleet.BundlesOfAll(parts()...)
	require.NoError(t, err)
	out, err := fleet.Render(bundles, fleet.Options{Cluster: "lab", Path: "fleet/lab"})
	require.NoError(t, err)
	return out
}

func push(t *testing.T, r fleet.Remote, want fleet.Tree) *fleet.PushResult {
	t.Helper()
	done, err := r.Push(t.Context(), want, fleet.PushOptions{})
	require.NoError(t, err)
	return done
}

func TestPushAndPushAgain(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		want := tree(t)
		before := git(t, s.bare, "rev-parse", "main")
		seen, err := s.remote.Observe(t.Context(), want)
		require.NoError(t, err)
		assert.Equal(t, before, seen.Commit)
		assert.Len(t, seen.Changes, len(want))
		assert.Len(t, seen.Diff(), len(want))

		done := push(t, s.remote, want)
		assert.Equal(t, git(t, s.bare, "rev-parse", "main"), done.Commit)
		assert.Equal(t, before, git(t, s.bare, "rev-parse", "main^"), "one commit, on top")
		git(t, s.bare, "fsck", "--strict")
		assert.Equal(t, "theirs", s.show(t, "main:README.md"))
		assert.Equal(t, strings.TrimSpace(string(want["nfs/fleet.yaml"])), s.show(t, "main:fleet/lab/nfs/fleet.yaml"))
		assert.Len(t, s.files(t, "main"), len(want)+2)
		assert.Equal(t, "homelab <homelab@localhost>", git(t, s.bare, "log", "-1", "--format=%an <%ae>", "main"))
		assert.Contains(t, git(t, s.bare, "log", "-1", "--format=%B", "main"), "added fleet.yaml"[:5])

		again := push(t, s.remote, want)
		assert.Equal(t, done.Commit, again.Commit)
		assert.Empty(t, again.Changes, "nothing changed: no commit")

		delete(want, "scratch/fleet.yaml")
		want["nfs/fleet.yaml"] = append(want["nfs/fleet.yaml"], "# changed\n"...)
		relist(want)
		done = push(t, s.remote, want)
		assert.Equal(t, []string{"D fleet/lab/scratch/fleet.yaml", "M fleet/lab/.homelab-files", "M fleet/lab/nfs/fleet.yaml"}, changed(t, s, done.Commit))
	})
}

// changed lists what a commit changed.
func changed(t *testing.T, s server, commit string) []string {
	out := strings.Split(strings.ReplaceAll(git(t, s.bare, "show", "--format=", "--name-status", "--no-renames", commit), "\t", " "), "\n")
	var sorted []string
	for _, letter := range []string{"A", "D", "M"} {
		for _, line := range out {
			if strings.HasPrefix(line, letter) {
				sorted = append(sorted, line)
			}
		}
	}
	return sorted
}

func TestPushIntoAnEmptyRepository(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		want := tree(t)
		done := push(t, s.remote, want)
		assert.Equal(t, "1", git(t, s.bare, "rev-list", "--count", "main"))
		assert.Equal(t, done.Commit, git(t, s.bare, "rev-parse", "main"))
		git(t, s.bare, "fsck", "--strict")
	})
}

func TestPushSaysWhatIsWrong(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		want := tree(t)
		_, err := s.wrong.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrCredentials)
		assert.NotContains(t, err.Error(), "letmein")

		_, err = s.gone.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrNoRepository)

		branch := s.remote
		branch.Branch = "mian"
		_, err = branch.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrNoBranch)
		assert.Contains(t, err.Error(), "there are main")

		branch.Create, branch.Branch = true, "clusters/lab"
		push(t, branch, want)
		assert.Equal(t, git(t, s.bare, "rev-parse", "main"), git(t, s.bare, "rev-parse", "clusters/lab^"))

		git(t, s.bare, "symbolic-ref", "HEAD", "refs/heads/nowhere")
		branch.Branch = "off/nothing"
		_, err = branch.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrNoBranch, "there is no default branch that it could be made off")

		s.hook(t, "pre-receive", "echo 'this branch is protected' >&2; exit 1")
		_, err = s.remote.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrRefused)
		assert.Contains(t, err.Error(), "this branch is protected")
		assert.NotEqual(t, "fleet", git(t, s.bare, "ls-tree", "--name-only", "main", "fleet"))
	})
}

// moveOnce is a hook that lets the branch move to another commit while the server
// takes ours, once: what happens when two push at the same time.
func (s server) moveOnce(t *testing.T, to string) {
	s.hook(t, "pre-receive", "test -e moved || { touch moved; unset GIT_QUARANTINE_PATH; git update-ref refs/heads/main "+to+"; }\nexit 0\n")
}

// aside commits files behind our back, and takes the branch back to where it was.
func (s server) aside(t *testing.T, files map[string]string) string {
	before := git(t, s.bare, "rev-parse", "main")
	commit := s.somebodyElse(t, files)
	git(t, s.bare, "update-ref", "refs/heads/main", before)
	return commit
}

func TestPushToABranchThatMoves(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		want := tree(t)
		theirs := s.aside(t, map[string]string{"apps/fleet.yaml": "namespace: other\n"})
		s.moveOnce(t, theirs)
		done := push(t, s.remote, want)
		assert.Equal(t, theirs, git(t, s.bare, "rev-parse", done.Commit+"^"), "recreated on top of theirs")
		assert.Equal(t, "namespace: other", s.show(t, "main:apps/fleet.yaml"))
	})
}

func TestPushStopsWhereOursWasChanged(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		want := tree(t)
		first := push(t, s.remote, want)

		// Between our look and our push.
		theirs := s.aside(t, map[string]string{"fleet/lab/nfs/values.yaml": "theirs: true\n"})
		s.moveOnce(t, theirs)
		next := tree(t)
		next["cert-manager/values.yaml"] = append(next["cert-manager/values.yaml"], "# more\n"...)
		relist(next)
		_, err := s.remote.Push(t.Context(), next, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrMoved)
		assert.Contains(t, err.Error(), "nfs/values.yaml")
		assert.Contains(t, err.Error(), "Somebody Else")
		assert.Equal(t, theirs, git(t, s.bare, "rev-parse", "main"), "nothing was pushed")

		// Long before.
		_, err = s.remote.Push(t.Context(), next, fleet.PushOptions{})
		var foreign *fleet.ForeignError
		require.ErrorAs(t, err, &foreign)
		assert.Equal(t, []fleet.ForeignFile{{Path: "nfs/values.yaml", Reason: "changed by hand"}}, foreign.Files)
		assert.Equal(t, first.Commit, git(t, s.bare, "rev-parse", "main^"))

		done, err := s.remote.Push(t.Context(), next, fleet.PushOptions{Overwrite: true})
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSpace(string(want["nfs/values.yaml"])), s.show(t, done.Commit+":fleet/lab/nfs/values.yaml"))
	})
}

func TestPushLeavesForeignFilesAlone(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		want := tree(t)
		push(t, s.remote, want)
		s.somebodyElse(t, map[string]string{"fleet/lab/team/fleet.yaml": "namespace: team\n", "fleet/lab/nfs/notes.txt": "theirs\n"})
		for name := range want {
			if strings.HasPrefix(name, "nfs/") {
				delete(want, name)
			}
		}
		relist(want)
		push(t, s.remote, want)
		assert.Contains(t, s.files(t, "main"), "fleet/lab/team/fleet.yaml")
		assert.Contains(t, s.files(t, "main"), "fleet/lab/nfs/notes.txt")
		assert.NotContains(t, s.files(t, "main"), "fleet/lab/nfs/fleet.yaml")
	})
}

func TestPushOverALostConnection(t *testing.T) {
	eachWithCommit(t, func(t *testing.T, s server) {
		want := tree(t)
		before := git(t, s.bare, "rev-parse", "main")
		s.tap.set(whileReading)
		_, err := s.remote.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrLost)
		assert.Equal(t, before, git(t, s.bare, "rev-parse", "main"))

		s.tap.set(whileSending)
		_, err = s.remote.Push(t.Context(), want, fleet.PushOptions{})
		require.ErrorIs(t, err, fleet.ErrLost)
		assert.Contains(t, err.Error(), "the branch did not change")
		assert.Equal(t, before, git(t, s.bare, "rev-parse", "main"))

		s.tap.set(whileAnswered)
		done, err := s.remote.Push(t.Context(), want, fleet.PushOptions{})
		require.NoError(t, err, "looking again finds the commit")
		assert.Equal(t, done.Commit, git(t, s.bare, "rev-parse", "main"))
		assert.Equal(t, before, git(t, s.bare, "rev-parse", "main^"))
	})
}

func TestPushObeysItsContext(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan struct{}, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			accepted <- struct{}{} // and not a word
		}
	}()
	signer := sshKey(t)
	for _, url := range []string{"http://" + l.Addr().String() + "/x.git", "ssh://git@" + l.Addr().String() + "/x.git"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-accepted; cancel() }()
		r := fleet.Remote{URL: url, Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(signer.PublicKey())}
		_, err := r.Push(ctx, tree(t), fleet.PushOptions{})
		require.ErrorIs(t, err, context.Canceled, url)
	}
}

func sshKey(t *testing.T) ssh.Signer {
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := ssh.ParseSigner(private)
	require.NoError(t, err)
	return signer
}

func TestPushTrustsNobodyUnknown(t *testing.T) {
	s := serveSSH(t, bareRepo(t))
	other := sshKey(t)
	r := s.remote
	r.HostKeys = ssh.Pin(other.PublicKey())
	_, err := r.Push(t.Context(), tree(t), fleet.PushOptions{})
	require.ErrorIs(t, err, fleet.ErrHostKey)
	r.HostKeys = nil
	_, err = r.Push(t.Context(), tree(t), fleet.PushOptions{})
	require.ErrorContains(t, err, "known_hosts")

	bare := bareRepo(t)
	srv := httptest.NewTLSServer(backend(filepath.Dir(bare), &tap{}))
	defer srv.Close()
	h := fleet.Remote{URL: srv.URL + "/infra.git", Username: user, Password: secret.New(password)}
	_, err = h.Push(t.Context(), tree(t), fleet.PushOptions{})
	require.ErrorContains(t, err, "certificate")
	h.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	push(t, h, tree(t))
	h.CA = []byte("nothing")
	_, err = h.Push(t.Context(), tree(t), fleet.PushOptions{})
	require.ErrorContains(t, err, "must be PEM")
}

func TestPushSendsThePasswordNowhereElse(t *testing.T) {
	var seen string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
	}))
	defer srv.Close()
	r := fleet.Remote{URL: srv.URL + "/infra.git", Username: user, Password: secret.New(password)}
	_, err := r.Push(t.Context(), tree(t), fleet.PushOptions{})
	require.ErrorContains(t, err, "redirects")
	assert.Empty(t, seen)
}

func TestAddressesThatAreNone(t *testing.T) {
	for url, words := range map[string]string{
		"":                               "write https://",
		"git@host":                       "user@host:path",
		"git@host:":                      "user@host:path",
		"me:hunter2@host:x.git":          "contains a password",
		"https://ghp_hunter2@host/x.git": "contains a password",
		"https://me:hunter2@host/x.git":  "contains a password",
		"file:///tmp/x":                  "write https://",
		"git://host/x":                   "use https or ssh",
		"http://git.example.com/x.git":   "unencrypted",
	} {
		_, err := fleet.Remote{URL: url, Password: secret.New(password)}.Push(t.Context(), tree(t), fleet.PushOptions{})
		require.ErrorContains(t, err, words, url)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	_, err := fleet.Remote{URL: "https://127.0.0.1:1/x", Path: "../up"}.Push(t.Context(), tree(t), fleet.PushOptions{})
	require.ErrorContains(t, err, "not a folder")
}
