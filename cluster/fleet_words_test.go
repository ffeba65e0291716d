package cluster

import (
	"context"
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

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/spec"
)

// What another try does not mend ends the waiting at once; what may be over soon does not.
func TestGitErrorsThatLast(t *testing.T) {
	for _, err := range []error{fleet.ErrCredentials, fleet.ErrHostKey, fleet.ErrNoRepository, fleet.ErrNoBranch, fleet.ErrRefused, &fleet.ForeignError{}} {
		assert.True(t, wait.IsPermanent(lasting(fmt.Errorf("git: %w", err))), "%v", err)
		assert.ErrorIs(t, lasting(err), err)
	}
	assert.False(t, wait.IsPermanent(lasting(errors.New("connection reset"))))
	assert.NoError(t, lasting(nil))
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
		"open":                {f: &spec.Fleet{Repo: "https://g/a", Branch: "main", Path: "x", Author: "Ada <ada@lab.example>", Username: "ada"}},
		"a password":          {f: &spec.Fleet{Repo: "https://g/a", Username: "ada", Password: ref("env:GIT_TOKEN"), CAFile: ca}},
		"a key":               {f: &spec.Fleet{Repo: "ssh://git@g/a", SSHKey: ref("file:" + key), KnownHosts: known}},
		"no password":         {f: &spec.Fleet{Repo: "https://g/a", Password: ref("file:" + none)}, err: "fleet.password: "},
		"no key":              {f: &spec.Fleet{Repo: "https://g/a", SSHKey: ref("file:" + none), KnownHosts: known}, err: "fleet.sshKey: "},
		"a key that is none":  {f: &spec.Fleet{Repo: "https://g/a", SSHKey: ref("file:" + bad), KnownHosts: known}, err: "fleet.sshKey: "},
		"no known hosts":      {f: &spec.Fleet{Repo: "https://g/a", SSHKey: ref("file:" + key), KnownHosts: none}, err: "fleet.knownHosts: "},
		"no CA":               {f: &spec.Fleet{Repo: "https://g/a", CAFile: none}, err: "fleet.ca: "},
		"neither, known only": {f: &spec.Fleet{Repo: "https://g/a", KnownHosts: none}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Cluster{spec: &spec.Spec{Platform: spec.Platform{Fleet: tt.f}}}
			r, err := c.FleetRemote()
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
			g, err := platform.GitLogin(tt.f)
			require.NoError(t, err)
			assert.Equal(t, !tt.f.SSHKey.IsZero(), strings.HasPrefix(g.KnownHosts, "git.example"))
		})
	}
}

// Several steps share a look at Fleet's bundles, and while it is at a commit of somebody else
// the branch is looked at again, now and then.
func TestFleetElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sim, way := thorny(t, thornsFile)
		put := func(commit string) {
			require.NoError(t, sim.Apply(t.Context(), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}\n---\n"+
				"{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, status: {commit: "+commit+"}}")))
		}
		require.NoError(t, sim.Apply(t.Context(), []byte(fleetKinds())))
		put("aaaa")
		way.on = true
		ctx := run.Begin(t.Context())
		looks := func() int { n := len(way.seen); way.seen = nil; return n }
		c.pushed.commit, c.pushed.asked = "aaaa", time.Now().Add(-time.Hour)
		_, pending, err := c.fleetState(ctx)
		require.NoError(t, err, "Fleet is where it should be: nobody asks Git")
		assert.False(t, pending)
		assert.NotZero(t, looks())
		time.Sleep(stateAge - 1)
		_, _, err = c.fleetState(ctx)
		require.NoError(t, err)
		assert.Zero(t, looks(), "the look before is young enough")
		time.Sleep(time.Nanosecond)
		_, _, err = c.fleetState(ctx)
		require.NoError(t, err)
		assert.NotZero(t, looks())

		put("bbbb")
		time.Sleep(stateAge)
		c.pushed.asked = time.Now().Add(-movedTime)
		_, _, err = c.fleetState(ctx)
		require.NoError(t, err, "it was looked at just now")
		time.Sleep(stateAge)
		state, _, err := c.fleetState(ctx)
		require.ErrorContains(t, err, "no way to Git")
		assert.Equal(t, "bbbb", state.Commit)
		assert.Equal(t, time.Now(), c.pushed.asked)
		assert.Equal(t, "aaaa", c.pushed.commit, "nobody knows of another")
		time.Sleep(movedTime)
		_, _, err = c.fleetState(ctx)
		require.NoError(t, err)
		time.Sleep(stateAge)
		_, _, err = c.fleetState(ctx)
		require.ErrorContains(t, err, "no way to Git")

		looks()
		time.Sleep(time.Hour)
		c.pushed.pending = true
		_, pending, err = c.fleetState(ctx)
		require.NoError(t, err)
		assert.True(t, pending)
		assert.Zero(t, looks(), "what is not pushed is not there")
		d, err := c.bundleStep(platform.Piece{Part: chart.Part{Name: "jupyterhub"}}).Observe(ctx)
		require.NoError(t, err)
		assert.Equal(t, "an earlier commit → the one that is to be pushed", d.String())
	})
}

// What Fleet deploys is not applied by us as well; what comes before any Fleet is.
func TestPartThatIsStillFleets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sim, _ := thorny(t, thornsFile)
		require.NoError(t, sim.Apply(t.Context(), []byte(fleetKinds()+"---\n{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}\n---\n"+
			"{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, status: {commit: aaaa}}\n---\n"+
			"{apiVersion: fleet.cattle.io/v1alpha1, kind: Bundle, metadata: {name: homelab-hub, namespace: fleet-local, labels: {fleet.cattle.io/repo-name: homelab, "+fleet.PartLabel+": hub}}, spec: {}}")))
		of := func(name string) platform.Piece { return platform.Piece{Part: chart.Part{Name: name}} }
		err := c.stillInFleet(t.Context(), c.api.client, of("hub"))
		require.ErrorContains(t, err, "Fleet still deploys hub (bundle homelab-hub)")
		assert.True(t, wait.IsPermanent(err))
		base, network := of("hub"), of("hub")
		base.Base, network.Network = true, true
		for _, p := range []platform.Piece{of("nfs"), base, network} {
			require.NoError(t, c.stillInFleet(t.Context(), c.api.client, p))
		}
		for _, f := range []*spec.Fleet{nil, {}} {
			c.spec.Platform.Fleet = f
			require.NoError(t, c.stillInFleet(t.Context(), c.api.client, of("hub")))
		}
	})
}

// What the cluster remembers of parts and the file does not name goes, what needs others first;
// what is Fleet's now and was applied is handed over.
func TestPartsThatAreRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := thorny(t, thornsFile)
		ctx := run.Begin(t.Context())
		ref := kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "x"}
		for _, r := range []record{
			{Part: "a"}, {Part: "b", Needs: []string{"c"}}, {Part: "c", Needs: []string{"d"}}, {Part: "d"}, {Part: "nfs", Release: "nfs"}, {Part: "jupyterhub", Secrets: []kube.Ref{ref}},
		} {
			_, err := c.api.client.Apply(ctx, r.object())
			require.NoError(t, err)
		}
		names := func(all []record) (out []string) {
			for _, r := range all {
				out = append(out, r.Part)
			}
			return out
		}
		gone, given, err := c.retired(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c", "d"}, names(gone))
		assert.Empty(t, given, "Fleet's part has nothing but its Secrets of us")
		for _, r := range []record{{Part: "jupyterhub", Release: "hub"}, {Part: "jupyterhub", Before: []kube.Ref{ref}}, {Part: "jupyterhub", After: []kube.Ref{ref}}} {
			_, err := c.api.client.Apply(ctx, r.object())
			require.NoError(t, err)
			_, given, err = c.retired(ctx)
			require.NoError(t, err)
			assert.Equal(t, []string{"jupyterhub"}, names(given))
			d := c.leftoversStep().Diff(unneeded{parts: gone[:1], given: given})
			assert.Equal(t, "part/a: objects → (none) [no longer in the file]; jupyterhub: applied by us → Fleet's [it is kept]", d.String())
		}
		r := record{Part: "jupyterhub", Release: "hub", After: []kube.Ref{ref}, Secrets: []kube.Ref{ref}, Namespace: "hub"}
		require.NoError(t, c.handOver(ctx, r))
		kept, err := c.recorded(ctx, c.api.client, "jupyterhub")
		require.NoError(t, err)
		assert.Equal(t, &record{Part: "jupyterhub", Namespace: "hub", Secrets: []kube.Ref{ref}}, kept)
		r.Secrets = nil
		require.NoError(t, c.handOver(ctx, r))
		kept, err = c.recorded(ctx, c.api.client, "jupyterhub")
		require.NoError(t, err)
		assert.Nil(t, kept)

		cm := record{Part: "a"}.object()
		cm.Data[recordKey] = "{"
		_, err = c.api.client.Apply(ctx, cm)
		require.NoError(t, err)
		for _, look := range []func() error{
			func() error { _, _, err := c.retired(ctx); return err }, func() error { return c.enter(ctx, c.api.client, platform.Piece{Part: chart.Part{Name: "a"}}) },
			func() error { return c.closeRecord(ctx, c.api.client, platform.Piece{Part: chart.Part{Name: "a"}}) },
			func() error { return c.supersede(ctx, platform.Piece{Replaces: []string{"a"}}) },
			func() error {
				_, err := c.recordDiff(ctx, c.api.client, platform.Piece{Part: chart.Part{Name: "a"}})
				return err
			},
		} {
			assert.ErrorContains(t, look(), "configmap kube-system/homelab-part-a: ")
		}
	})
}

// What a part costs that goes is said also where its API gives no answer.
func TestCostsOfAPartThatCannotBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, way := thorny(t, thornsFile)
		gone := unneeded{parts: []record{{Part: "old", Namespace: "old"}}}
		cost := c.costsOfLeftovers(run.Begin(t.Context()), gone, nil)
		require.Len(t, cost, 1)
		assert.Empty(t, cost[0].Holds, "nothing is in it")
		assert.Equal(t, "old: no longer in the file", cost[0].Machine+": "+cost[0].Why)

		way.on, way.at = true, 1
		cost = c.costsOfLeftovers(run.Begin(t.Context()), gone, nil)
		require.Len(t, cost, 1)
		require.Len(t, cost[0].Holds, 1)
		assert.True(t, strings.HasPrefix(cost[0].Holds[0], notLooked) && strings.Contains(cost[0].Holds[0], thorn), cost[0].Holds[0])

		c.api.client = nil
		cost = c.costsOfLeftovers(run.Begin(t.Context()), gone, nil)
		require.Len(t, cost, 1)
		require.Len(t, cost[0].Holds, 1)
		assert.True(t, strings.HasPrefix(cost[0].Holds[0], notLooked), cost[0].Holds[0])
	})
}

// A password that is not there is no password.
func TestPasswordThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sim, _ := thorny(t, thornsFile)
		require.NoError(t, sim.Apply(context.Background(), []byte("{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: kube-system}, data: {k: aGk=, e: ''}}")))
		got, err := c.ReadPassword(t.Context(), Password{Namespace: "kube-system", Name: "s", Key: "k"})
		require.NoError(t, err)
		assert.Equal(t, "hi", got.Reveal())
		for _, key := range []string{"e", "other"} {
			_, err = c.ReadPassword(t.Context(), Password{Namespace: "kube-system", Name: "s", Key: key})
			require.EqualError(t, err, "secret kube-system/s has no "+key)
		}
	})
}
