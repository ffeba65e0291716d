package charttest_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/cps-gpu/homelab/sim/guest"
)

// helm is what a person's Helm does, by the code of its commands.
func realHelm(t *testing.T, p guest.Plane, namespace string) *action.Configuration {
	t.Helper()
	kubeconfig := t.TempDir() + "/kubeconfig"
	require.NoError(t, os.WriteFile(kubeconfig, p.Kubeconfig("https://"+vip+":6443"), 0o600))
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }
		return c
	}
	cfg := &action.Configuration{}
	require.NoError(t, cfg.Init(flags, namespace, "secrets", t.Logf))
	return cfg
}

// TestTakeOver: what Helm made by hand is ours from then on, and stays Helm's too.
func TestTakeOver(t *testing.T) {
	p := form(t, 1)
	u := newUser(t, p)
	cfg := realHelm(t, p, "hand")
	helmkube.ManagedFieldsManager = "helm" // as its command line sets it
	ch, err := loader.Load("../../../kube/helm/testdata/charts/web-1.0.0")
	require.NoError(t, err)
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.Wait, install.Timeout = "site", "hand", true, true, time.Minute
	_, err = install.RunWithContext(t.Context(), ch, map[string]any{"color": "green", "extra": true})
	require.NoError(t, err)

	r := web("1.0.0", map[string]any{"color": "green", "extra": true})
	r.Namespace = "hand"
	u.done(t, r, 1)
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 1)

	drawn := func() string {
		s, _, err := unstructured.NestedString(u.get(t, "v1", "Secret", "hand", "site-remembered").Object, "data", "password")
		require.NoError(t, err)
		return s
	}
	before := drawn()
	r = web("1.1.0", map[string]any{"color": "blue"})
	r.Namespace = "hand"
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 2)
	assert.Equal(t, before, drawn())
	assert.Nil(t, u.get(t, "v1", "ConfigMap", "hand", "site-extra"))

	list := action.NewList(cfg)
	found, err := list.Run()
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, 2, found[0].Version)
	assert.Equal(t, "1.1.0", found[0].Chart.Metadata.Version)

	ch, err = loader.Load("../../../kube/helm/testdata/charts/web-1.1.0")
	require.NoError(t, err)
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.Wait, upgrade.Timeout = "hand", true, time.Minute
	_, err = upgrade.RunWithContext(t.Context(), "site", ch, map[string]any{"color": "green"})
	require.NoError(t, err, "Helm goes on where we were")
	s := u.see(t, r)
	assert.Contains(t, s.Diff().String(), "values/color: green → blue", "what Helm changed is seen, though it carries our label on")
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 4)

	back := action.NewRollback(cfg)
	back.Version, back.Wait, back.Timeout = 2, true, time.Minute
	require.NoError(t, back.Run("site"), "and back to a revision of ours")
	u.done(t, r, 5)
	_, err = action.NewUninstall(cfg).Run("site")
	require.NoError(t, err)
	assert.False(t, u.see(t, r).Installed)
}
