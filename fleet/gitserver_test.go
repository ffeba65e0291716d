package fleet_test

import (
	"bytes"
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // a server on loopback, for a moment
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

const (
	user     = "homelab"
	password = "correct horse battery" //nolint:gosec // of a server that lives in this test
)

// git runs this machine's Git in a folder, with no settings of anyone who runs the test.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, gitEnv()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Somebody Else", "GIT_AUTHOR_EMAIL=else@localhost", "GIT_COMMITTER_NAME=Somebody Else", "GIT_COMMITTER_EMAIL=else@localhost")
}

// server is a Git server with one repository, reached one way.
type server struct {
	bare   string       // the repository's folder
	remote fleet.Remote // right in everything
	wrong  fleet.Remote // with credentials that are not
	gone   fleet.Remote // of a repository that is not there
	tap    *tap
}

// somebodyElse commits files to the branch behind our back.
func (s server) somebodyElse(t *testing.T, files map[string]string) string {
	t.Helper()
	work := t.TempDir()
	git(t, work, "clone", "-q", s.bare, ".")
	for name, content := range files {
		full := filepath.Join(work, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
	}
	git(t, work, "add", "-A")
	git(t, work, "commit", "-q", "-m", "a change of theirs")
	git(t, work, "push", "-q", "origin", "HEAD:main")
	return git(t, work, "rev-parse", "HEAD")
}

func (s server) show(t *testing.T, spec string) string {
	t.Helper()
	return git(t, s.bare, "show", spec)
}

func (s server) files(t *testing.T, ref string) []string {
	t.Helper()
	return strings.Fields(git(t, s.bare, "ls-tree", "-r", "--name-only", ref))
}

// hook installs a script that the server runs when it is pushed to.
func (s server) hook(t *testing.T, name, script string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(s.bare, "hooks"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.bare, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755)) //nolint:gosec // a program
}

// bareRepo makes an empty repository, in a folder of its own.
func bareRepo(t *testing.T) string {
	t.Helper()
	facts.Program(t, "git", "git")
	bare := filepath.Join(t.TempDir(), "infra.git")
	git(t, "", "init", "-q", "--bare", "-b", "main", bare)
	git(t, bare, "config", "http.receivepack", "true")
	return bare
}

// eachServer runs a test against Git over HTTP and over SSH. The repository is empty.
func eachServer(t *testing.T, test func(t *testing.T, s server)) {
	for name, serve := range map[string]func(*testing.T, string) server{"http": serveHTTP, "ssh": serveSSH} {
		t.Run(name, func(t *testing.T) { test(t, serve(t, bareRepo(t))) })
	}
}

// eachWithCommit is eachServer with a commit on the branch.
func eachWithCommit(t *testing.T, test func(t *testing.T, s server)) {
	eachServer(t, func(t *testing.T, s server) {
		s.somebodyElse(t, map[string]string{"README.md": "theirs\n", "apps/fleet.yaml": "namespace: apps\n"})
		test(t, s)
	})
}

// backend is Git's own program for HTTP, behind a password.
func backend(root string, b *tap) http.Handler {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		panic(err)
	}
	h := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Dir: root,
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "REMOTE_USER=" + user},
		Stderr: io.Discard,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if u != user || subtle.ConstantTimeCompare([]byte(p), []byte(password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="Git"`)
			http.Error(w, "you said "+u+":"+p, http.StatusUnauthorized) // what a careless server does
			return
		}
		if strings.HasSuffix(r.URL.Path, "/"+receivePack) && b.at(whileSending) {
			panic(http.ErrAbortHandler)
		}
		abort := func() { panic(http.ErrAbortHandler) }
		h.ServeHTTP(tappedResponse{w, b.answer(w, abort)}, r)
	})
}

func serveHTTP(t *testing.T, bare string) server {
	b := &tap{}
	srv := httptest.NewServer(backend(filepath.Dir(bare), b))
	t.Cleanup(srv.Close)
	r := fleet.Remote{URL: srv.URL + "/infra.git", Path: "fleet/lab", Username: user, Password: secret.New(password)}
	s := server{bare: bare, remote: r, wrong: r, gone: r, tap: b}
	s.wrong.Password = secret.New("letmein-123456")
	s.gone.URL = srv.URL + "/other.git"
	return s
}

func serveSSH(t *testing.T, bare string) server {
	host, ours, theirs := sshKey(t), sshKey(t), sshKey(t)
	b := &tap{}
	srv := &sshserver.Server{HostKey: host, Exec: b.gitOnly}
	authorized := bytes.Clone(ours.PublicKey().Marshal())
	srv.Authorize = func(u string, k ssh.PublicKey) error {
		if u != "git" || !bytes.Equal(k.Marshal(), authorized) {
			return fmt.Errorf("permission denied")
		}
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(ctx, tapped{l, b}) }()
	t.Cleanup(func() { stop(); <-ended })

	r := fleet.Remote{URL: "ssh://git@" + l.Addr().String() + bare, Path: "fleet/lab", Signers: []ssh.Signer{ours}, HostKeys: ssh.Pin(host.PublicKey())}
	s := server{bare: bare, remote: r, wrong: r, gone: r, tap: b}
	s.wrong.Signers = []ssh.Signer{theirs}
	s.gone.URL = "ssh://git@" + l.Addr().String() + filepath.Dir(bare) + "/other.git"
	return s
}

// gitOnly runs Git's two services by git-shell, the login shell of a user who may do
// nothing else: it takes the command line as Git itself writes it.
func (b *tap) gitOnly(ctx context.Context, u, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	in := readerFunc(func(p []byte) (int, error) {
		n, err := stdin.Read(p)
		if n > 0 && strings.Contains(command, receivePack) && b.at(whileSending) {
			b.hangUp()
			return 0, io.EOF
		}
		return n, err
	})
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	return sshserver.LocalExec(ctx, u, `GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null exec "$(git --exec-path)/git-shell" -c `+quoted, in, b.answer(stdout, b.hangUp), stderr)
}

const receivePack = "git-receive-pack"

// tap breaks the connection at a moment, once.
type tap struct {
	moment atomic.Value // one of those below
	mu     sync.Mutex
	conns  []net.Conn
}

// Moments at which a connection may break.
const (
	whileReading  = "half of the pack is sent"
	whileSending  = "the commit arrives, and Git has not seen it"
	whileAnswered = "Git has taken the commit, and its answer is not sent"
)

func (b *tap) set(moment string) { b.moment.Store(moment) }

// at reports whether the connection is to break now.
func (b *tap) at(moment string) bool { return b.moment.CompareAndSwap(moment, "") }

// hang up on everybody.
func (b *tap) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		_ = c.Close()
	}
	b.conns = nil
}

// Accept of a listener whose connections tap knows.
type tapped struct {
	net.Listener
	tap *tap
}

func (l tapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.tap.mu.Lock()
		l.tap.conns = append(l.tap.conns, c)
		l.tap.mu.Unlock()
	}
	return c, err
}

// answer watches what Git sends. broken is called instead of the rest.
func (b *tap) answer(w io.Writer, broken func()) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		switch {
		case bytes.Contains(p, []byte("PACK")) && b.at(whileReading):
			_, _ = w.Write(p[:len(p)/2])
			broken()
			return 0, io.ErrClosedPipe
		case bytes.Contains(p, []byte("unpack ok")) && b.at(whileAnswered):
			broken()
			return 0, io.ErrClosedPipe
		}
		return w.Write(p)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// tappedResponse is an HTTP response that a tap watches.
type tappedResponse struct {
	http.ResponseWriter
	body io.Writer
}

func (r tappedResponse) Write(p []byte) (int, error) { return r.body.Write(p) }
