package charttest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/secret"
)

func isGone(err error) bool {
	var noKind *kube.NoKindError
	return errors.Is(err, kube.ErrNotFound) || errors.As(err, &noKind)
}

// TestLife takes a release through its life. The parts build on each other.
func TestLife(t *testing.T) {
	p := form(t, 1)
	u := newUser(t, p)
	t.Run("install", u.installs)
	t.Run("what was changed by hand is put right", u.repairs)
	t.Run("upgrade", u.upgrades)
	t.Run("an upgrade that fails is rolled back", u.rollsBack)
	t.Run("an upgrade whose hook fails is rolled back", u.hookFails)
	t.Run("definitions of kinds are upgraded", u.crds)
	t.Run("Helm's own driver reads our records", u.records)
	t.Run("history is short", u.history)
	t.Run("what belongs to others is not taken", u.foreign)
	t.Run("a first install that fails leaves nothing", u.failsFirst)
	t.Run("somebody else's Helm is waited for", u.somebodyElse)
	t.Run("uninstall", u.uninstalls)
}

func (u *user) installs(t *testing.T) {
	r := web("1.0.0", nil)
	s := u.see(t, r)
	assert.False(t, s.Installed)
	assert.Equal(t, "web-1.0.0", s.Diff().String())
	var said []string
	ctx := converge.WithProgress(t.Context(), func(p converge.ProgressUpdate) { said = append(said, p.String()) })
	began := time.Now()
	require.NoError(t, u.Apply(ctx, r))
	t.Logf("installed after %s: %q", time.Since(began).Round(time.Millisecond), said)
	u.done(t, r, 1)
	require.NoError(t, u.Apply(ctx, r))
	_, writes := u.reset()
	assert.Empty(t, writes, "applying what is there writes nothing")
	assert.Equal(t, "blue", u.config(t, "site")["color"])
	assert.NotNil(t, u.get(t, "test.example.com/v1", "Widget", "web", "site"))
	assert.NotNil(t, u.get(t, "batch/v1", "Job", "web", "site-pre-install"), "a hook stays until it runs again")
	assert.Nil(t, u.get(t, "batch/v1", "Job", "web", "site-post-install"), "hook-succeeded")
}

func (u *user) repairs(t *testing.T) {
	r := web("1.0.0", nil)
	password := u.password(t, "site-drawn")
	_, err := u.kube.WithFieldManager("kubectl-edit").Apply(t.Context(), &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "site"},
		Data: map[string]string{"color": "pink"}})
	require.NoError(t, err)
	_, err = u.kube.WithFieldManager("kubectl-edit").Apply(t.Context(), &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "site-drawn"},
		Data: map[string][]byte{"password": []byte("hunter2")}})
	require.NoError(t, err)
	require.NoError(t, u.kube.Delete(t.Context(), &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "site"}}))
	s := u.see(t, r)
	text := s.Diff().String()
	assert.Contains(t, text, "configmap/web/site/data.color: pink → blue")
	assert.Contains(t, text, "service/web/site: new")
	assert.Contains(t, text, "secret/web/site-drawn/data.password: "+secret.Mask+" → "+secret.Mask)
	assert.Len(t, s.Changes, 3, text)
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 1)
	assert.Equal(t, password, u.password(t, "site-drawn"), "what was drawn once stays")
}

func (u *user) upgrades(t *testing.T) {
	remembered := u.password(t, "site-remembered")
	r := web("1.0.0", map[string]any{"color": "green", "extra": true})
	s := u.see(t, r)
	text := s.Diff().String()
	assert.Contains(t, text, "values/color: green")
	assert.Contains(t, text, "configmap/web/site/data.color: blue → green")
	assert.Contains(t, text, "configmap/web/site-extra: new")
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 2)
	assert.Equal(t, remembered, u.password(t, "site-remembered"), "the chart looked it up")
	assert.Equal(t, "green", u.config(t, "site")["color"])
	assert.NotNil(t, u.config(t, "site-extra"))

	r = web("1.0.0", map[string]any{"color": "green"})
	s = u.see(t, r)
	assert.Contains(t, s.Diff().String(), "configmap/web/site-extra: obsolete → (none)")
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 3)
	assert.Nil(t, u.config(t, "site-extra"))
}

func (u *user) rollsBack(t *testing.T) {
	was := web("1.0.0", map[string]any{"color": "green"})
	drawn := u.password(t, "site-drawn")
	r := web("1.0.0", map[string]any{"cpu": "900", "extra": true})
	r.Timeout = 20 * time.Second // the rollback has as long
	err := u.Apply(t.Context(), r)
	var failed *helm.FailedError
	require.ErrorAs(t, err, &failed)
	require.NoError(t, failed.Undo)
	t.Log(err)
	assert.Contains(t, err.Error(), "not ready within 20s: still waiting: deployment web/site")
	assert.Contains(t, err.Error(), "Insufficient cpu")
	assert.Contains(t, err.Error(), "revision 3 was restored")
	u.done(t, was, 5)
	assert.Nil(t, u.config(t, "site-extra"))
	assert.Equal(t, drawn, u.password(t, "site-drawn"))
	s := u.see(t, r)
	assert.Contains(t, s.Diff().String(), "values/cpu: 900")
}

func (u *user) hookFails(t *testing.T) {
	was := web("1.0.0", map[string]any{"color": "green"})
	r := web("1.0.0", map[string]any{"hook": map[string]any{"exit": 3}})
	err := u.Apply(t.Context(), r)
	require.Error(t, err)
	t.Log(err)
	assert.Contains(t, err.Error(), "post-upgrade hook web/templates/hooks.yaml: job web/site-post-upgrade has failed")
	assert.Contains(t, err.Error(), "the command ended with 3")
	u.done(t, was, 7)
	assert.Equal(t, "green", u.config(t, "site")["color"])
}

func (u *user) crds(t *testing.T) {
	r := web("1.1.0", map[string]any{"color": "green"})
	s := u.see(t, r)
	text := s.Diff().String()
	assert.Contains(t, text, "chart: web-1.0.0 → web-1.1.0")
	assert.Contains(t, text, "customresourcedefinition/widgets.test.example.com/")
	require.NoError(t, u.Apply(t.Context(), r))
	u.done(t, r, 8)
	o := u.get(t, "test.example.com/v1", "Widget", "web", "site")
	color, _, _ := unstructured.NestedString(o.Object, "spec", "color")
	assert.Equal(t, "green", color)
}

func (u *user) records(t *testing.T) {
	s := u.record(t, 8)
	rel := helmReads(t, s)
	assert.Equal(t, "site is green.\n", rel.Info.Notes)
	assert.Equal(t, "web", rel.Chart.Metadata.Name)
	assert.Equal(t, 8, rel.Version)
	assert.EqualValues(t, "helm.sh/release.v1", s.Type)
}

func (u *user) history(t *testing.T) {
	list, err := u.kube.List(t.Context(), "v1", "Secret", "web", "owner=helm,name=site")
	require.NoError(t, err)
	assert.Len(t, list, 5)
}

func (u *user) foreign(t *testing.T) {
	r := web("1.0.0", nil)
	r.Name = "second"
	_, err := u.kube.Apply(t.Context(), &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "second"}})
	require.NoError(t, err)
	u.reset()
	err = u.Apply(t.Context(), r)
	require.Error(t, err)
	t.Log(err)
	assert.Contains(t, err.Error(), "configmap web/second is there already, made without Helm")
	s := u.see(t, r)
	assert.False(t, s.Installed)
	assert.Empty(t, s.Status, "there is no record of it")
}

func (u *user) failsFirst(t *testing.T) {
	r := web("1.1.0", map[string]any{"cpu": "900"})
	r.Name, r.Namespace, r.Timeout = "third", "web3", 20*time.Second // until the scheduler has said it
	err := u.Apply(t.Context(), r)
	require.Error(t, err)
	t.Log(err)
	assert.Contains(t, err.Error(), "Insufficient cpu")
	assert.Contains(t, err.Error(), "the installed objects were removed again")
	s := u.see(t, r)
	assert.False(t, s.Installed)
	assert.Empty(t, s.Status)
	assert.Nil(t, u.get(t, "apps/v1", "Deployment", "web3", "third"))
	assert.Nil(t, u.get(t, "batch/v1", "Job", "web3", "third-pre-install"))
	good := web("1.1.0", nil)
	good.Name, good.Namespace = "third", "web3"
	require.NoError(t, u.Apply(t.Context(), good))
	u.done(t, good, 1)
	require.NoError(t, u.Uninstall(t.Context(), "web3", "third"))
}

// somebodyElse puts Helm's record of an upgrade that is under way beside ours.
func (u *user) somebodyElse(t *testing.T) {
	r := web("1.1.0", map[string]any{"color": "green"})
	u.done(t, r, 8)
	for _, c := range []struct {
		name string
		age  time.Duration
		err  string
	}{
		{"one that is at work", time.Second, "revision 9 is pending-upgrade by another Helm"},
		{"one that was killed", time.Hour, ""},
	} {
		rel := helmReads(t, u.record(t, 8))
		rel.Version, rel.Info.LastDeployed = 9, helmtime.Time{Time: time.Now().Add(-c.age)}
		rel.SetStatus(release.StatusPendingUpgrade, "Preparing upgrade")
		_, err := u.kube.WithFieldManager("helm").ServerSideApply(t.Context(), helmWrites(t, rel))
		require.NoError(t, err)
		brief := r
		brief.Timeout = 3 * time.Second
		if c.err == "" {
			brief.Timeout = time.Minute
		}
		err = u.Apply(t.Context(), brief)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.name)
			continue
		}
		require.NoError(t, err, c.name)
	}
	u.done(t, r, 10)
}

// record reads the Secret of a revision of site.
func (u *user) record(t *testing.T, revision int) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: fmt.Sprintf("sh.helm.release.v1.site.v%d", revision)}}
	require.NoError(t, u.kube.Get(t.Context(), s))
	return s
}

func (u *user) uninstalls(t *testing.T) {
	require.NoError(t, u.Uninstall(t.Context(), "web", "site"))
	assert.Nil(t, u.get(t, "apps/v1", "Deployment", "web", "site"))
	assert.Nil(t, u.config(t, "site"))
	assert.NotNil(t, u.config(t, "site-kept"))
	assert.NotNil(t, u.get(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.test.example.com"))
	list, err := u.kube.List(t.Context(), "v1", "Secret", "web", "owner=helm")
	require.NoError(t, err)
	assert.Empty(t, list)
	u.reset()
	require.NoError(t, u.Uninstall(t.Context(), "web", "site"), "what is not there is fine")
	_, writes := u.reset()
	assert.Empty(t, writes)
	r := web("1.0.0", nil)
	require.NoError(t, u.Apply(t.Context(), r), "what was kept is taken over again")
	u.done(t, r, 1)
	require.NoError(t, u.Uninstall(t.Context(), "web", "site"))
}
