package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// How a Git server fails, and what is said of it.
func TestExplain(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind error
		hint string
	}{
		"cancelled":        {context.Canceled, nil, ""},
		"too late":         {fmt.Errorf("x: %w", context.DeadlineExceeded), nil, ""},
		"401":              {&statusError{code: 401}, ErrCredentials, "give them by reference"},
		"403":              {&statusError{code: 403}, ErrCredentials, "the right to write"},
		"404":              {&statusError{code: 404}, ErrNoRepository, "create it on the server"},
		"500":              {&statusError{code: 500}, nil, ""},
		"let in by no key": {&ssh.AuthError{Err: errors.New("x")}, ErrCredentials, ""},
		"broke off":        {&ssh.AuthError{Err: io.ErrUnexpectedEOF}, ErrLost, ""},
		"another host":     {&ssh.HostKeyError{}, ErrHostKey, ""},
		"moved":            {&refusal{status: "failed to lock"}, ErrMoved, ""},
		"refused":          {&refusal{status: "pre-receive hook declined"}, ErrRefused, "protected"},
		"no repository":    {&remote.ExitError{Code: 128, Stderr: "fatal: '/x' does not appear to be a git repository"}, ErrNoRepository, "create it on the server"},
		"another exit":     {&remote.ExitError{Code: 1, Stderr: "bash: no"}, nil, ""},
		"lost":             {&ssh.LostError{Err: errors.New("x")}, ErrLost, ""},
		"unreachable":      {&ssh.UnreachableError{Err: errors.New("x")}, ErrLost, ""},
		"network":          {&net.OpError{Op: "dial", Err: errors.New("x")}, ErrLost, ""},
		"end":              {io.EOF, ErrLost, ""},
		"early end":        {io.ErrUnexpectedEOF, ErrLost, ""},
		"anything":         {errors.New("x"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Remote{}.explain(place{text: "https://git"}, "look", c.err)
			var known *GitError
			require.ErrorAs(t, err, &known)
			assert.Equal(t, c.kind, known.Kind)
			assert.Contains(t, known.Hint, c.hint)
			assert.Equal(t, c.hint == "", known.Hint == "")
			assert.Equal(t, "https://git", known.Repo)
			assert.Same(t, err, Remote{}.explain(place{}, "push", err), "what is explained stays so")
		})
	}
	assert.NoError(t, Remote{}.explain(place{}, "look", nil))
	hint, _ := Remote{Password: secret.New("x")}.explainStatus(401)
	assert.Contains(t, hint, "wrong, or the token has expired")
	for _, words := range []string{"Repository not found.", "repository does not exist", "no such repository", "The project could not be found", "could not find repository"} {
		assert.True(t, unknownRepository(words), words)
	}
}

// What an address is taken for, or why it is none.
func TestAddresses(t *testing.T) {
	for url, want := range map[string]place{
		"git@host:x/y.git":        {scheme: "ssh", user: "git", addr: "host:22", path: "x/y.git", text: "git@host:x/y.git"},
		"me@host:x":               {scheme: "ssh", user: "me", addr: "host:22", path: "x", text: "me@host:x"},
		"ssh://host/x":            {scheme: "ssh", user: "git", addr: "host:22", path: "/x", text: "ssh://host/x"},
		"ssh://me@host:2222/x":    {scheme: "ssh", user: "me", addr: "host:2222", path: "/x", text: "ssh://me@host:2222/x"},
		"https://host/x/":         {scheme: "https", url: "https://host/x", text: "https://host/x/"},
		"https://me@host/x":       {scheme: "https", user: "me", url: "https://host/x", text: "https://host/x"},
		"http://127.0.0.1:3000/x": {scheme: "http", url: "http://127.0.0.1:3000/x", text: "http://127.0.0.1:3000/x"},
		"http://localhost/x":      {scheme: "http", url: "http://localhost/x", text: "http://localhost/x"},
		"https://host/x@y":        {scheme: "https", url: "https://host/x@y", text: "https://host/x@y"},
		"http://[::1]:3000/x":     {scheme: "http", url: "http://[::1]:3000/x", text: "http://[::1]:3000/x"},
	} {
		got, err := Remote{URL: url, Password: secret.New("x")}.address()
		require.NoError(t, err, url)
		assert.Equal(t, want, got, url)
	}
	for url, words := range map[string]string{
		"": "is not one", "host": "is not one", "https://": "is not one", "https://%zz": "is not one", "a/b@host:x": "is not one",
		"git@host": "user@host:path", "git@:x": "user@host:path", "git@host:": "user@host:path",
		"a:b@host:x": "contains a password", "https://a:b@host/x": "contains a password", "ghp_x@host:x": "contains a password", "https://glpat-x@host/x": "contains a password",
		"http://host/x": "unencrypted", "http://192.168.1.1/x": "unencrypted", "file:///x": "is not one", "ftp://host/x": "not a supported protocol",
	} {
		_, err := Remote{URL: url, Password: secret.New("x")}.address()
		assert.ErrorContains(t, err, words, url)
	}
	_, err := Remote{URL: "http://host/x"}.address()
	assert.NoError(t, err, "nothing secret is sent")
}

func TestFolders(t *testing.T) {
	for in, want := range map[string]string{"": "", ".": "", "/": "", "a": "a", "/a/b/": "a/b", "a/../b": "b", ".github": ".github", ".gitx/a": ".gitx/a"} {
		got, err := Remote{Path: in}.folder()
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"..", "../a", "a/../../b", ".git", ".git/hooks", "/.git/x", "a/../.git"} {
		_, err := Remote{Path: in}.folder()
		assert.Error(t, err, in)
	}
}

func TestMessageSaysWhatChanged(t *testing.T) {
	of := func(names ...string) string {
		var changes []Change
		for _, n := range names {
			changes = append(changes, Change{Path: n, What: Added})
		}
		subject, _, _ := strings.Cut(Remote{}.messageOf(changes), "\n")
		return subject
	}
	assert.Equal(t, "fleet: README", of(ListFile, "README.md"))
	assert.Equal(t, "fleet: a", of("a/x", "a/y", ListFile))
	assert.Equal(t, "fleet: a, b, c, d", of("a/x", "b/x", "c/x", "d/x"))
	assert.Equal(t, "fleet: a, b, c, d and 1 more", of("a/x", "b/x", "c/x", "d/x", "e/x"))
	assert.Equal(t, "fleet: a, b, c, d and 2 more", of("a/x", "b/x", "c/x", "d/x", "e/x", "f/x", "f/y"))
	assert.Equal(t, "fleet: a\n\nadded a/x\nremoved a/y\n", Remote{}.messageOf([]Change{{Path: ListFile, What: Changed}, {Path: "a/x", What: Added}, {Path: "a/y", What: Removed}}))
}

// Between two looks each file that is another one is named, a link for a file, too.
func TestDiffering(t *testing.T) {
	a := Tree{"same": []byte("x"), "other": []byte("x"), "gone": []byte("x"), "link": nil, "empty": []byte("")}
	b := Tree{"same": []byte("x"), "other": []byte("y"), "come": []byte("x"), "link": []byte(""), "empty": []byte("")}
	assert.Equal(t, []string{"come", "gone", "link", "other"}, differing(a, b))
	assert.Empty(t, differing(a, a))
}

// What may be pushed: nothing over a folder that has changed since it was seen, or over
// files of others, unless that is said.
func TestAllowed(t *testing.T) {
	change := []Change{{Path: "a", What: Changed}}
	one, two := plumbing.NewHash("01"), plumbing.NewHash("02")
	parent := &object.Commit{Author: object.Signature{Name: "Eve"}, Message: "words\nmore", Hash: two}
	for name, c := range map[string]struct {
		s, seen *Repo
		force   bool
		err     string
		changes int
	}{
		"first look":         {s: &Repo{Changes: change}, changes: 1},
		"as seen":            {s: &Repo{Changes: change, folder: one}, seen: &Repo{folder: one}, changes: 1},
		"changed in between": {s: &Repo{Changes: change, folder: two, have: Tree{"a": []byte("b")}, parent: parent}, seen: &Repo{folder: one}, err: "changed in between by Eve (or before it: commit 020000000000, words)"},
		"by nobody known":    {s: &Repo{Changes: change, folder: two, have: Tree{"a": []byte("b")}}, seen: &Repo{folder: one}, err: "changed in between by somebody"},
		"as wanted":          {s: &Repo{folder: two}, seen: &Repo{folder: one}},
		"forced":             {s: &Repo{Changes: change, folder: two}, seen: &Repo{folder: one}, force: true, changes: 1},
		"another's":          {s: &Repo{Changes: change, Foreign: []ForeignFile{{"b", "it was not written by homelab"}}}, err: "it was not written by homelab"},
		"another's, forced":  {s: &Repo{Changes: change, have: Tree{"b": []byte("x")}, Foreign: []ForeignFile{{"b", "it was not written by homelab"}}}, force: true, changes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Remote{}.allowedChanges(place{text: "repo"}, c.s, c.seen, Tree{"a": []byte("a"), "b": []byte("b")}, PushOptions{Overwrite: c.force})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, "repo, branch main")
				return
			}
			require.NoError(t, err)
			assert.Len(t, got, c.changes)
		})
	}
}

func TestOneLineIsNotTooLong(t *testing.T) {
	assert.Equal(t, "a b c", oneLine(" a\x1b\n\tb\x7fc "))
	assert.Equal(t, strings.Repeat("x", maxSaid), oneLine(strings.Repeat("x", maxSaid)))
	assert.Equal(t, strings.Repeat("x", maxSaid)+"…", oneLine(strings.Repeat("x", maxSaid+1)))
}

func TestTip(t *testing.T) {
	one, two := plumbing.NewHash("01"), plumbing.NewHash("02")
	refs := packp.NewAdvRefs()
	assert.Equal(t, tip{}, tipOf(refs, "main"))
	refs.References = map[string]plumbing.Hash{"refs/heads/main": one, "refs/heads/dev": two, "refs/tags/main": two}
	refs.Head = &two
	assert.Equal(t, tip{commit: one, branches: []string{"dev", "main"}, head: two}, tipOf(refs, "main"))
	assert.Equal(t, tip{branches: []string{"dev", "main"}, head: two}, tipOf(refs, "none"))
	for text, want := range map[string]string{"": "unexpected EOF", "000fERR no way\n": "it says: no way", "nonsense": "pkt-len"} {
		_, err := readAdvertisement(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
	none, err := readAdvertisement(strings.NewReader("0000"))
	require.NoError(t, err)
	require.Empty(t, none.References)
}

// Which Fleets go together with which wish.
func TestCopiesFit(t *testing.T) {
	for _, rancher := range []bool{false, true} {
		for n := range 3 {
			c := Copies{Rancher: rancher, Namespaces: []string{"a", "b"}[:n]}
			assert.Equal(t, n < 2 && !rancher, c.CheckCompatible(true) == nil, "%v, alone", c)
			assert.Equal(t, n == 0 || n == 1 && rancher, c.CheckCompatible(false) == nil, "%v, Rancher's", c)
		}
	}
}

// A folder of ours goes with the last file in it, and no folder in which something is.
func TestFoldersGoWithTheirLastFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Write(dir, Tree{"a/b/c/x": []byte("x"), "a/d/x": []byte("x"), "z": []byte("z"), ListFile: Tree{"a/b/c/x": []byte("x"), "a/d/x": []byte("x"), "z": []byte("z")}.list()}, false)
	require.NoError(t, err)
	left := Tree{"a/d/x": []byte("x")}
	left[ListFile] = left.list()
	changes, err := Write(dir, left, false)
	require.NoError(t, err)
	require.Equal(t, ListFile, changes[len(changes)-1].Path, "the list comes last")
	assert.NoDirExists(t, filepath.Join(dir, "a/b"))
	assert.FileExists(t, filepath.Join(dir, "a/d/x"))
	assert.NoFileExists(t, filepath.Join(dir, "z"))
	require.NoError(t, os.Remove(filepath.Join(dir, "a/d/x")))
	_, err = Write(dir, Tree{ListFile: Tree{}.list()}, true)
	require.NoError(t, err, "what is gone already may go")
}

// Names of bundles and releases, up to the longest.
func TestBundleNamesThatFit(t *testing.T) {
	long := strings.Repeat("a", maxName)
	for name, ok := range map[string]bool{long: true, long + "a": false, "": false, "a": true, "-a": false, "a-": false, "A": false, "a.b": false, "a-1": true} {
		assert.Equal(t, ok, Bundle{Name: name, Namespace: "n"}.validate() == nil, name)
		r := &chart.Release{Name: name, Namespace: "n", Chart: "c", Version: "1.0.0", Repo: "https://c"}
		assert.Equal(t, ok, Bundle{Name: "b", Namespace: "n", Release: r}.validate() == nil, name)
	}
}

// Up to four objects are named, and the rest counted.
func TestContentsOfABundle(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "Secret a", 4: "Secret a, Secret b, Secret c, Secret d", 5: "Secret a, Secret b, Secret c, Secret d and 1 more objects", 6: "Secret a, Secret b, Secret c, Secret d and 2 more objects"} {
		var b Bundle
		for i := range n {
			o := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret"}}
			o.SetName(string(rune('a' + i)))
			b.Objects = append(b.Objects, o)
		}
		assert.Equal(t, want, b.contents())
	}
}
