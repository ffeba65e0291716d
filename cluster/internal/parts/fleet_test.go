package parts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// A permanent error of Git ends the wait at once; one that may pass does not.
func TestGitErrorsThatLast(t *testing.T) {
	for _, err := range []error{fleet.ErrCredentials, fleet.ErrHostKey, fleet.ErrNoRepository, fleet.ErrNoBranch, fleet.ErrRefused, &fleet.ForeignError{}} {
		assert.True(t, converge.IsPermanent(markPermanent(fmt.Errorf("git: %w", err))), "%v", err)
		assert.ErrorIs(t, markPermanent(err), err)
	}
	assert.False(t, converge.IsPermanent(markPermanent(errors.New("connection reset"))))
	assert.NoError(t, markPermanent(nil))
}

// The way into the repository is made of what the file refers to, and it is said of which word
// something cannot be read.
func TestLoginToTheRepository(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	key, known, ca, bad := file("key", string(private)), file("known", "git.example ssh-ed25519 AAAA\n"), file("ca", "the CA"), file("bad", "no key")
	t.Setenv("GIT_TOKEN", "correct horse battery")
	none := filepath.Join(dir, "none")
	ref := func(text string) spec.SecretRef {
		r, err := spec.ParseSecretRef(text)
		require.NoError(t, err)
		return r
	}
	for name, tt := range map[string]struct {
		f   *spec.Fleet
		err string
	}{
		"nothing":             {f: nil, err: "the file names no Git repository"},
		"no repository":       {f: &spec.Fleet{}, err: "the file names no Git repository"},
		"open":                {f: &spec.Fleet{Repo: "https://g/a", Branch: "main", Path: "x", Author: "Teacher <teacher@lab.example>", Username: "teacher"}},
		"a password":          {f: &spec.Fleet{Repo: "https://g/a", Username: "teacher", Password: ref("env:GIT_TOKEN"), CAFile: ca}},
		"a key":               {f: &spec.Fleet{Repo: "ssh://git@g/a", SSHKey: ref("file:" + key), KnownHosts: known}},
		"no password":         {f: &spec.Fleet{Repo: "https://g/a", Password: ref("file:" + none)}, err: "fleet.password: "},
		"no key":              {f: &spec.Fleet{Repo: "https://g/a", SSHKey: ref("file:" + none), KnownHosts: known}, err: "fleet.sshKey: "},
		"a key that is none":  {f: &spec.Fleet{Repo: "https://g/a", SSHKey: ref("file:" + bad), KnownHosts: known}, err: "fleet.sshKey: "},
		"no known hosts":      {f: &spec.Fleet{Repo: "https://g/a", SSHKey: ref("file:" + key), KnownHosts: none}, err: "fleet.knownHosts: "},
		"no CA":               {f: &spec.Fleet{Repo: "https://g/a", CAFile: none}, err: "fleet.ca: "},
		"neither, known only": {f: &spec.Fleet{Repo: "https://g/a", KnownHosts: none}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Spec: &spec.Spec{Platform: spec.Platform{Fleet: tt.f}}})
			r, err := s.FleetRemote()
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				assert.NotContains(t, err.Error(), "horse")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []string{tt.f.Repo, tt.f.Branch, tt.f.Path, tt.f.Author, tt.f.Username}, []string{r.URL, r.Branch, r.Path, r.Author, r.Username})
			assert.True(t, r.Create)
			assert.Equal(t, !tt.f.Password.IsZero(), r.Password.Reveal() == "correct horse battery")
			assert.Equal(t, tt.f.CAFile != "", string(r.CA) == "the CA")
			assert.Equal(t, !tt.f.SSHKey.IsZero(), len(r.Signers) == 1 && r.HostKeys != nil)
			g, err := platform.GitLogin(&spec.Platform{Fleet: tt.f})
			require.NoError(t, err)
			assert.Equal(t, !tt.f.SSHKey.IsZero(), strings.HasPrefix(g.KnownHosts, "git.example"))
		})
	}
}

// Several steps share a look at Fleet's bundles, and while it is at a commit of somebody else
// the branch is looked at again, now and then.
func TestFleetElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, sim, way := failing(t)
		put := func(commit string) {
			require.NoError(t, sim.Apply(t.Context(), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}\n---\n"+
				"{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, status: {commit: "+commit+"}}")))
		}
		require.NoError(t, sim.Apply(t.Context(), []byte(kubetest.FleetKinds())))
		put("aaaa")
		way.On = true
		ctx := t.Context()
		looks := func() int { n := len(way.Seen); way.Seen = nil; return n }
		s.pushed.commit, s.pushed.asked = "aaaa", time.Now().Add(-time.Hour)
		_, pending, err := s.fleetState(ctx)
		require.NoError(t, err, "Fleet is where it should be: nobody asks Git")
		assert.False(t, pending)
		assert.NotZero(t, looks())
		time.Sleep(stateAge - 1)
		_, _, err = s.fleetState(ctx)
		require.NoError(t, err)
		assert.Zero(t, looks(), "the look before is young enough")
		time.Sleep(time.Nanosecond)
		_, _, err = s.fleetState(ctx)
		require.NoError(t, err)
		assert.NotZero(t, looks())

		put("bbbb")
		time.Sleep(stateAge)
		s.pushed.asked = time.Now().Add(-movedTime)
		_, _, err = s.fleetState(ctx)
		require.NoError(t, err, "it was looked at just now")
		time.Sleep(stateAge)
		state, _, err := s.fleetState(ctx)
		require.ErrorContains(t, err, "no way to Git")
		assert.Equal(t, "bbbb", state.Commit)
		assert.Equal(t, time.Now(), s.pushed.asked)
		assert.Equal(t, "aaaa", s.pushed.commit, "nobody knows of another")
		time.Sleep(movedTime)
		_, _, err = s.fleetState(ctx)
		require.NoError(t, err)
		time.Sleep(stateAge)
		_, _, err = s.fleetState(ctx)
		require.ErrorContains(t, err, "no way to Git")

		looks()
		time.Sleep(time.Hour)
		s.pushed.pending = true
		_, pending, err = s.fleetState(ctx)
		require.NoError(t, err)
		assert.True(t, pending)
		assert.Zero(t, looks(), "what is not pushed is not there")
		d, err := s.bundleStep(addon.Recipe{Part: chart.Part{Name: "jupyterhub"}}).Observe(ctx)
		require.NoError(t, err)
		assert.Equal(t, "an earlier commit → the one that is to be pushed", d.String())
	})
}

// What Fleet deploys is not applied by us as well; what comes before any Fleet is.
func TestPartThatIsStillFleets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, sim, _ := failing(t)
		require.NoError(t, sim.Apply(t.Context(), []byte(kubetest.FleetKinds()+"---\n{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}\n---\n"+
			"{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, status: {commit: aaaa}}\n---\n"+
			"{apiVersion: fleet.cattle.io/v1alpha1, kind: Bundle, metadata: {name: homelab-hub, namespace: fleet-local, labels: {fleet.cattle.io/repo-name: homelab, "+fleet.PartLabel+": hub}}, spec: {}}")))
		of := func(name string) addon.Recipe { return addon.Recipe{Part: chart.Part{Name: name}} }
		err := s.checkNotInFleet(t.Context(), client, of("hub"))
		require.ErrorContains(t, err, "Fleet still deploys hub (bundle homelab-hub)")
		assert.True(t, converge.IsPermanent(err))
		base, network := of("hub"), of("hub")
		base.Direct, network.Direct, network.Network = "it is Fleet itself", "no pod has a network before it", true
		for _, p := range []addon.Recipe{of("nfs"), base, network} {
			require.NoError(t, s.checkNotInFleet(t.Context(), client, p))
		}
		for _, f := range []*spec.Fleet{nil, {}} {
			s.Spec.Platform.Fleet = f
			require.NoError(t, s.checkNotInFleet(t.Context(), client, of("hub")))
		}
	})
}
