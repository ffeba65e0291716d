package secrets_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"filippo.io/age"
	"github.com/siderolabs/talos/pkg/machinery/config"
	talos "github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// nothing is a cluster without machines.
func nothing(context.Context) (*secrets.Bundle, error) { return nil, nil }

// given is a cluster whose machines have secrets: to make some takes seconds, for a key of RSA.
func given(context.Context) (*secrets.Bundle, error) { return made() }

var made = sync.OnceValues(func() (*secrets.Bundle, error) {
	b, err := talos.NewBundle(talos.NewClock(), config.TalosVersion1_13)
	b.Clock = nil
	return b, err
})

// notAsked fails where the file has to be enough.
func notAsked(t *testing.T) secrets.Running {
	return func(context.Context) (*secrets.Bundle, error) {
		t.Helper()
		t.Error("the machines were asked")
		return nil, nil
	}
}

func pair(t *testing.T) (*age.X25519Identity, string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return id, id.Recipient().String()
}

func store(t *testing.T) (*secrets.Store, *age.X25519Identity) {
	t.Helper()
	id, public := pair(t)
	return &secrets.Store{Folder: t.TempDir(), Cluster: "home", Token: secret.New("f1e2"), Recipients: []string{public}}, id
}

func open(t *testing.T, s *secrets.Store, running secrets.Running) *secrets.Bundle {
	t.Helper()
	b, err := s.Open(t.Context(), running)
	require.NoError(t, err)
	require.NoError(t, b.Validate())
	b.Clock = nil
	return b
}

// TestOnce: secrets are made once. With the token they are found, and the file then stays as it is.
func TestOnce(t *testing.T) {
	s, id := store(t)
	made := open(t, s, nothing)
	file, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(s.Folder, "home.secrets.age"), s.Path())

	second := &secrets.Store{Folder: t.TempDir(), Cluster: "home", Token: secret.New("f1e2"), Recipients: s.Recipients}
	require.NoError(t, os.WriteFile(second.Path(), file, 0o644)) // a clone of the repository, by CI or on a second machine
	assert.Equal(t, made, open(t, second, notAsked(t)))

	assert.Equal(t, made, open(t, s, notAsked(t)))
	again, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	assert.Equal(t, file, again)

	r, err := age.Decrypt(newReader(file), id) // by the recipient, without homelab
	require.NoError(t, err)
	plain := filepath.Join(t.TempDir(), "secrets.yaml")
	require.NoError(t, os.WriteFile(plain, readAll(t, r), 0o600))
	theirs, err := talos.LoadBundle(plain) // talosctl gen config --with-secrets
	require.NoError(t, err)
	theirs.Clock = nil
	assert.Equal(t, made, theirs)
}

// TestAnotherToken: with the new token and a recipient's key the file is written again, for the new token alone.
func TestAnotherToken(t *testing.T) {
	s, id := store(t)
	made := open(t, s, given)
	old := *s
	s.Token = secret.New("0new")

	_, err := s.Open(t.Context(), nothing)
	require.ErrorIs(t, err, secrets.ErrLocked)
	assert.NotContains(t, err.Error(), "0new")

	s.Identities = []age.Identity{id}
	assert.Equal(t, made, open(t, s, notAsked(t)))
	s.Identities = nil
	assert.Equal(t, made, open(t, s, notAsked(t)), "the token alone")
	_, err = old.Open(t.Context(), nothing)
	assert.ErrorIs(t, err, secrets.ErrLocked)
}

// TestOtherRecipients: a recipient who was removed cannot decrypt what is written from then on, a new one can.
func TestOtherRecipients(t *testing.T) {
	s, gone := store(t)
	made := open(t, s, given)
	came, public := pair(t)
	s.Recipients = []string{public}
	assert.Equal(t, made, open(t, s, notAsked(t)))

	file, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	_, err = age.Decrypt(newReader(file), gone)
	require.ErrorAs(t, err, new(*age.NoIdentityMatchError))
	_, err = age.Decrypt(newReader(file), came)
	require.NoError(t, err)
}

// TestLost: a file that is gone, or that nobody here decrypts, comes back from what the machines have; and
// new secrets are never made for machines that have some.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(s *secrets.Store) error{
		"gone":   func(s *secrets.Store) error { return os.Remove(s.Path()) },
		"locked": func(s *secrets.Store) error { s.Token = secret.New("another"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := store(t)
			made := open(t, s, given)
			require.NoError(t, lose(s))

			_, err := s.Open(t.Context(), func(context.Context) (*secrets.Bundle, error) { return nil, secrets.ErrLost })
			require.ErrorIs(t, err, secrets.ErrLost)
			assert.Equal(t, name == "locked", errors.Is(err, secrets.ErrLocked))

			from := func(context.Context) (*secrets.Bundle, error) { return made, nil }
			assert.Equal(t, made, open(t, s, from))
			assert.Equal(t, made, open(t, s, notAsked(t)))
		})
	}
}

// TestKilled: a run that is killed anywhere leaves no file, or a whole one that the next run takes.
func TestKilled(t *testing.T) {
	s, _ := store(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.Folder, ".home.secrets.age.1234"), []byte("half"), 0o600)) // before the file had its name
	made := open(t, s, given)
	assert.Equal(t, made, open(t, s, notAsked(t)), "before the first machine got anything")
}

// TestTwoAtOnce: the second of two runs does not replace what the first has written.
func TestTwoAtOnce(t *testing.T) {
	s, _ := store(t)
	var first *secrets.Bundle
	_, err := s.Open(t.Context(), func(context.Context) (*secrets.Bundle, error) {
		first = open(t, s, given)
		return first, nil
	})
	require.ErrorIs(t, err, os.ErrExist)
	assert.Equal(t, first, open(t, s, notAsked(t)))
}

// TestWrong: what is not the cluster's file is refused, and none of its text is repeated.
func TestWrong(t *testing.T) {
	s, id := store(t)
	open(t, s, given)
	file, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	to := id.Recipient()

	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"cut off":     {file[:len(file)-20], "is damaged"},
		"empty":       {nil, "is damaged"},
		"other text":  {seal(t, to, "hunter2: [hunter2]\n"), "not the secrets of a cluster"},
		"no label":    {seal(t, to, bundleText(t)), "not the secrets of a cluster"},
		"another one": {seal(t, to, bundleText(t)+"---\ncluster: work\nrecipients: []\n"), `of the cluster "work"`},
		"later":       {seal(t, to, bundleText(t)+"---\ncluster: home\nrecipients: []\nmore: 1\n"), "of a later homelab"},
		"three":       {seal(t, to, bundleText(t)+"---\ncluster: home\nrecipients: []\n---\n{}\n"), "of a later homelab"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(s.Path(), c.file, 0o644))
			s := *s
			s.Identities = []age.Identity{id}
			_, err := s.Open(t.Context(), notAsked(t))
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, fmt.Sprintf("%+v", err), "hunter2")
		})
	}
}

// TestNobody: a file that only the token decrypts would be lost with its host.
func TestNobody(t *testing.T) {
	s, _ := store(t)
	none, private, empty := *s, *s, *s
	none.Recipients = nil
	id, _ := pair(t)
	private.Recipients = []string{id.String()}
	empty.Token = secret.Value{}
	for want, s := range map[string]*secrets.Store{"snapshots.recipients": &none, "a private key of age": &private, "no secret": &empty} {
		_, err := s.Open(t.Context(), nothing)
		require.ErrorContains(t, err, want)
		assert.NoFileExists(t, s.Path())
	}
}

func bundleText(t *testing.T) string {
	t.Helper()
	b, err := made()
	require.NoError(t, err)
	return marshal(t, b)
}
