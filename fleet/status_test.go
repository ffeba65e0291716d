package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// world is a Kubernetes API in which a test plays Fleet's controllers.
type world struct {
	*kube.Client
	raw http.RoundTripper
}

func newWorld(t *testing.T) world {
	t.Helper()
	sim, err := kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, 1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = sim.Close() })
	var w world
	w.Client, err = kube.New(kube.Config{
		Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
		Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
		Wrap:       func(rt http.RoundTripper) http.RoundTripper { w.raw = rt; return rt },
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// fleet installs Fleet's kinds.
func (w world) fleet(t *testing.T) world {
	t.Helper()
	for _, kind := range []string{"GitRepo", "Bundle", "BundleDeployment", "Cluster"} {
		w.kind(t, api.SchemeGroupVersion.Group, "v1alpha1", kind)
	}
	return w
}

// kind installs one.
func (w world) kind(t *testing.T, group, version, kind string) {
	t.Helper()
	_, err := w.Apply(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural(kind) + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural(kind), "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}})
	require.NoError(t, err)
}

func plural(kind string) string {
	if stem, ok := strings.CutSuffix(strings.ToLower(kind), "y"); ok {
		return stem + "ies"
	}
	return strings.ToLower(kind) + "s"
}

// create puts objects into the cluster as they are, with their status.
func (w world) create(t *testing.T, manifest []byte) {
	t.Helper()
	objs, err := kube.Decode(manifest)
	require.NoError(t, err)
	for _, o := range objs {
		u := o.(*unstructured.Unstructured)
		path := "/apis/" + u.GetAPIVersion()
		if !strings.Contains(u.GetAPIVersion(), "/") {
			path = "/api/" + u.GetAPIVersion()
		}
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": u.GetNamespace()}}}
		_, err := w.Apply(t.Context(), ns)
		require.NoError(t, err)
		body, err := json.Marshal(u.Object)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://10.0.0.10:6443"+path+"/namespaces/"+u.GetNamespace()+"/"+plural(u.GetKind()), bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := w.raw.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Less(t, resp.StatusCode, 300, "%s %s", u.GetKind(), u.GetName())
	}
}

const wanted = "1111111111111111111111111111111111111111"

// TestStatusSaysWhatIsInTheWay: for each state of testdata/status, what is between it
// and everything being deployed.
func TestStatusSaysWhatIsInTheWay(t *testing.T) {
	files, err := filepath.Glob("testdata/status/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	got := fleet.Tree{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		w := newWorld(t).fleet(t)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		w.create(t, text)
		s, err := fleet.Observe(t.Context(), w.Client, fleet.StatusOptions{Commit: wanted})
		require.NoError(t, err, name)
		var b strings.Builder
		for _, f := range s.Diff() {
			b.WriteString(f.String() + "\n")
		}
		got[name+".txt"] = []byte(b.String())
		if name == "ready" {
			assert.Empty(t, b.String())
			assert.Empty(t, s.Part("jupyterhub"))
			assert.NotEmpty(t, s.Part("scratch"), "no bundle of it is there")
			continue
		}
		assert.NotEmpty(t, b.String(), name)
	}
	golden(t, "status-said", got)
}

func TestStatusWhereNothingIs(t *testing.T) {
	w := newWorld(t)
	s, err := fleet.Observe(t.Context(), w.Client, fleet.StatusOptions{})
	require.NoError(t, err, "Fleet's kinds are not there yet")
	assert.NotEmpty(t, s.Diff())
	s, err = fleet.Observe(t.Context(), w.fleet(t).Client, fleet.StatusOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, s.Diff())
}
