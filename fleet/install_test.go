package fleet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/secret"
)

// deployment is one of no pods: the simulated controllers have no node to run them on.
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: %s, labels: {app: %[1]s}}
spec: {replicas: 0, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: x, image: x}]}}}
`

func TestNeverTwoFleets(t *testing.T) {
	w := newWorld(t)
	look := func() fleet.Copies {
		c, err := fleet.ObserveCopies(t.Context(), w.Client)
		require.NoError(t, err)
		return c
	}
	assert.NoError(t, look().CheckCompatible(true))
	assert.NoError(t, look().CheckCompatible(false))

	w.create(t, []byte(fmt.Sprintf(deployment, "fleet-controller", "cattle-fleet-system")))
	assert.NoError(t, look().CheckCompatible(true), "ours")
	assert.ErrorContains(t, look().CheckCompatible(false), "not installed by Rancher")

	w.create(t, []byte(fmt.Sprintf(deployment, "rancher", "cattle-system")))
	assert.NoError(t, look().CheckCompatible(false), "Rancher's")
	assert.ErrorContains(t, look().CheckCompatible(true), "brings its own")

	w.create(t, []byte(fmt.Sprintf(deployment, "fleet-controller", "fleet-system")))
	assert.ErrorContains(t, look().CheckCompatible(false), "cattle-fleet-system fleet-system")
}

func TestFleetIsReadyWhenItsAgentHasCheckedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		waits := func(words string) {
			t.Helper()
			time.Sleep(time.Second) // for the Deployments' controller
			why, err := fleet.ToolFleet.UnreadyReason(t.Context(), w.Client)
			require.NoError(t, err)
			if words == "" {
				assert.Empty(t, why)
				return
			}
			assert.Contains(t, why, words)
		}
		waits("fleet-controller is not there yet")
		w.create(t, []byte(fmt.Sprintf(deployment, "fleet-controller", "cattle-fleet-system")))
		waits("gitjob is not there yet")
		w.create(t, []byte(fmt.Sprintf(deployment, "gitjob", "cattle-fleet-system")))
		waits("not registered this cluster yet")
		w.fleet(t)
		cluster := `{apiVersion: fleet.cattle.io/v1alpha1, kind: Cluster, metadata: {name: local, namespace: fleet-local}, status: {agent: {lastSeen: %s}}}`
		w.create(t, []byte(fmt.Sprintf(cluster, "null")))
		waits("has not checked in yet")
		require.NoError(t, w.Delete(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster", "metadata": map[string]any{"name": "local", "namespace": "fleet-local"}}}))
		w.create(t, []byte(fmt.Sprintf(cluster, `"2026-11-20T10:00:00Z"`)))
		waits("")
	})
}

func TestGitRepo(t *testing.T) {
	objs, s, err := fleet.GitRepo{URL: "https://git.example.com/infra.git", Paths: []string{"fleet/lab"}, Username: "robot", Password: secret.New("x"), CA: []byte("PEM")}.Objects()
	require.NoError(t, err)
	text, err := json.Marshal(objs[0])
	require.NoError(t, err)
	var repo map[string]any
	require.NoError(t, json.Unmarshal(text, &repo))
	assert.Equal(t, map[string]any{"repo": "https://git.example.com/infra.git", "branch": "main", "paths": []any{"fleet/lab"}, "pollingInterval": "15s",
		"clientSecretName": "homelab-git", "caBundle": "UEVN"}, repo["spec"])
	assert.Equal(t, "kubernetes.io/basic-auth", s.Type)
	assert.Equal(t, "fleet-local", s.Namespace)
	assert.Equal(t, "x", s.Data["password"].Reveal())

	_, s, err = fleet.GitRepo{URL: "https://git.example.com/public.git"}.Objects()
	require.NoError(t, err)
	assert.Nil(t, s, "nothing is needed to read what is public")

	_, s, err = fleet.GitRepo{URL: "git@git.example.com:infra.git", SSHKey: secret.New("PEM"), KnownHosts: "git.example.com ssh-ed25519 AAAA"}.Objects()
	require.NoError(t, err)
	assert.Equal(t, "kubernetes.io/ssh-auth", s.Type)
	assert.Contains(t, s.Data, "known_hosts")
	assert.Contains(t, s.Data, "ssh-privatekey")

	for words, g := range map[string]fleet.GitRepo{
		"known_hosts":         {URL: "git@git.example.com:infra.git", SSHKey: secret.New("PEM")},
		"no key":              {URL: "git@git.example.com:infra.git"},
		"no user":             {URL: "https://git.example.com/infra.git", Password: secret.New("x")},
		"contains a password": {URL: "https://a:b@git.example.com/infra.git"},
	} {
		_, _, err := g.Objects()
		require.ErrorContains(t, err, words)
	}
}

// TestGitRepoApplies: what is applied is applied again without a change.
func TestGitRepoApplies(t *testing.T) {
	w := newWorld(t).fleet(t)
	w.create(t, []byte("{apiVersion: fleet.cattle.io/v1alpha1, kind: Cluster, metadata: {name: local, namespace: fleet-local}}"))
	objs, _, err := fleet.GitRepo{URL: "https://git.example.com/infra.git"}.Objects()
	require.NoError(t, err)
	_, err = w.Apply(t.Context(), objs...)
	require.NoError(t, err)
	d, err := w.Diff(t.Context(), objs...)
	require.NoError(t, err)
	assert.Empty(t, d)
}

// FuzzAddress: whatever a URL is, it is read or refused, and a password in it appears
// neither in an error nor in the cluster.
func FuzzAddress(f *testing.F) {
	for _, u := range []string{"https://host/x", "ssh://git@host:22/x", "git@host:x", "https://hunter2hunter2@host/x", "https://a:hunter2hunter2@host/x", "ssh://a:hunter2hunter2@h/%zz", "://hunter2hunter2@", "a:hunter2hunter2@h:p", "[::1]:x"} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, url string) {
		objs, _, err := fleet.GitRepo{URL: url, Username: "u", Password: secret.New("p"), SSHKey: secret.New("k"), KnownHosts: "h"}.Objects()
		text := fmt.Sprint(err)
		if err == nil {
			written, err := json.Marshal(objs)
			require.NoError(t, err)
			text = string(written)
		}
		// Between the first colon and an @, with nothing but a password there.
		if head, after, ok := strings.Cut(url, ":hunter2hunter2@"); ok && !strings.ContainsAny(strings.TrimPrefix(strings.TrimPrefix(head, "https://"), "ssh://"), "/?#@") && !strings.Contains(head+after, "hunter2") {
			assert.NotContains(t, text, "hunter2hunter2")
		}
	})
}

// What a tool is told to deploy is read back, however the URL is written.
func TestSourceIsWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).fleet(t).flux(t).argo(t)
		w.kind(t, "argoproj.io", "v1alpha1", "AppProject")
		for _, name := range []string{"fleet-local", "homelab-flux", "argocd"} {
			_, err := w.Apply(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}})
			require.NoError(t, err)
		}
		for _, tool := range fleet.Tools() {
			none, err := tool.Source(t.Context(), w.Client)
			require.NoError(t, err)
			assert.Empty(t, none.Paths)
			wrote := fleet.GitRepo{Tool: tool, URL: "git@git.example.com:infra.git", Branch: "next", Paths: []string{"clusters/lab", "extra"}, SSHKey: secret.New("x"), KnownHosts: "y"}
			objects, _, err := wrote.Objects()
			require.NoError(t, err)
			_, err = w.Apply(t.Context(), objects...)
			require.NoError(t, err)
			read, err := tool.Source(t.Context(), w.Client)
			require.NoError(t, err)
			assert.ElementsMatch(t, wrote.Paths, read.Paths, tool)
			assert.True(t, read.IsAt(wrote), "%s: %+v", tool, read)
			assert.False(t, read.IsAt(fleet.GitRepo{URL: wrote.URL}), "another branch")
			assert.False(t, read.IsAt(fleet.GitRepo{URL: "git@git.example.com:other.git", Branch: "next"}))
		}
	})
}
