package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setConditions gives an object conditions: a type, a status and a message each.
func setConditions(into any, parts ...string) {
	var out []map[string]string
	for i := 0; i < len(parts); i += 3 {
		out = append(out, map[string]string{"type": parts[i], "status": parts[i+1], "message": parts[i+2]})
	}
	text, err := json.Marshal(out)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err)
	}
}

// What keeps a repository as a whole.
func TestRepoWrong(t *testing.T) {
	repo := func(change func(*api.GitRepo)) []string {
		r := &api.GitRepo{}
		r.Status.GitJobStatus = "Current"
		change(r)
		return repoWrong(r)
	}
	assert.Empty(t, repo(func(*api.GitRepo) {}))
	assert.Equal(t, []string{"it is paused (spec.paused): nothing new is deployed"}, repo(func(r *api.GitRepo) { r.Spec.Paused = true }))
	assert.Equal(t, []string{"Fleet has not seen the last change of the GitRepo yet"}, repo(func(r *api.GitRepo) { r.Generation = 1 }))
	assert.Empty(t, repo(func(r *api.GitRepo) { r.Generation, r.Status.ObservedGeneration = 1, 1 }))
	assert.Equal(t, []string{"Fleet is reading it (job: not started)"}, repo(func(r *api.GitRepo) { r.Status.GitJobStatus = "" }))
	assert.Equal(t, []string{"Fleet is reading it (job: InProgress)"}, repo(func(r *api.GitRepo) { r.Status.GitJobStatus = "InProgress" }))
	assert.Equal(t, []string{"it is paused (spec.paused): nothing new is deployed"}, repo(func(r *api.GitRepo) { r.Spec.Paused, r.Status.GitJobStatus = true, "" }))
	accepted := string(api.GitRepoAcceptedCondition)
	for _, c := range []struct {
		kind, status, want string
	}{
		{"GitPolling", "False", "Fleet cannot read the repository: words"}, {"GitPolling", "True", ""},
		{"Stalled", "True", "Fleet cannot make bundles of it: words"}, {"Stalled", "False", ""},
		{accepted, "False", "Fleet does not accept it: words"}, {accepted, "True", ""}, {"Ready", "False", ""}, {"Ready", "True", ""},
	} {
		got := repo(func(r *api.GitRepo) {
			setConditions(&r.Status.Conditions, "Other", "False", "x", c.kind, c.status, "words")
		})
		assert.Equal(t, c.want, strings.Join(got, "|"), "%s %s", c.kind, c.status)
	}
}

// How a bundle is that is on no cluster, and how one is on a cluster.
func TestBundleStates(t *testing.T) {
	bundle := func(change func(*api.Bundle)) BundleState {
		b := &api.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{PartLabel: "p", api.CommitLabel: "new"}}}
		change(b)
		return bundleStates(b, nil, "new")[0]
	}
	assert.Equal(t, "Pending", bundle(func(*api.Bundle) {}).State)
	assert.Equal(t, "Pending", bundle(func(b *api.Bundle) { b.Generation = 1; setConditions(&b.Status.Conditions, "Ready", "True", "") }).State)
	assert.Equal(t, StateNowhere, bundle(func(b *api.Bundle) { setConditions(&b.Status.Conditions, "Ready", "True", "words") }).State)
	assert.Equal(t, "ErrApplied", bundle(func(b *api.Bundle) { setConditions(&b.Status.Conditions, "Ready", "False", "words") }).State)
	both := bundle(func(b *api.Bundle) {
		setConditions(&b.Status.Conditions, "Accepted", "False", "other words")
		setConditions(&b.Status.Conditions, "Ready", "False", "words")
	})
	assert.Equal(t, []Obstacle{{Reason: "words"}}, both.Obstacles, "each condition speaks for itself")
	assert.Equal(t, StateOld, bundle(func(b *api.Bundle) { b.Labels[api.CommitLabel] = "old" }).State)
	assert.Equal(t, "Pending", bundle(func(b *api.Bundle) { delete(b.Labels, api.CommitLabel) }).State)
	old := &api.Bundle{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{api.CommitLabel: "old"}}}
	assert.Equal(t, "Pending", bundleStates(old, nil, "")[0].State, "whichever commit Fleet has")

	well := func() *api.BundleDeployment {
		d := &api.BundleDeployment{}
		d.Spec.DeploymentID, d.Spec.StagedDeploymentID, d.Status.AppliedDeploymentID = "1", "1", "1"
		d.Status.Ready, d.Status.NonModified = true, true
		return d
	}
	deploys := string(api.BundleDeploymentConditionDeployed)
	for name, c := range map[string]struct {
		change func(*api.BundleDeployment)
		state  string
		why    string
	}{
		"ready":     {func(*api.BundleDeployment) {}, StateReady, ""},
		"not taken": {func(d *api.BundleDeployment) { d.Status.AppliedDeploymentID = "0" }, "WaitApplied", "the cluster's agent has not deployed it yet"},
		"failed": {func(d *api.BundleDeployment) {
			d.Status.AppliedDeploymentID = "0"
			setConditions(&d.Status.Conditions, deploys, "False", "words")
		}, "ErrApplied", "words"},
		"waits": {func(d *api.BundleDeployment) {
			d.Status.AppliedDeploymentID = "0"
			setConditions(&d.Status.Conditions, deploys, "False", "dependent bundle(s) are not ready: [a b]")
		}, StateWaiting, "it waits for a, b"},
		"for nobody": {func(d *api.BundleDeployment) {
			d.Status.AppliedDeploymentID = "0"
			setConditions(&d.Status.Conditions, deploys, "False", "no bundles matching labels x=y in")
		}, "ErrApplied", "it depends on a bundle that does not exist (x=y): it waits forever"},
		"not ready": {func(d *api.BundleDeployment) { d.Status.Ready = false }, "NotReady", "the agent gives no reason"},
		"installed": {func(d *api.BundleDeployment) {
			d.Status.Ready = false
			setConditions(&d.Status.Conditions, "Installed", "False", "no room")
		}, "NotReady", "no room"},
		"held back": {func(d *api.BundleDeployment) { d.Spec.StagedDeploymentID = "2" }, "OutOfSync", "a newer version is not deployed: it is paused, outside its schedule, or its rollout waits for other clusters"},
		"modified":  {func(d *api.BundleDeployment) { d.Status.NonModified = false }, "Modified", "somebody changed what it deployed; Fleet reports the drift and does not correct it"},
		"an object": {func(d *api.BundleDeployment) {
			d.Status.NonModified = false
			d.Status.ModifiedStatus = []api.ModifiedStatus{{Kind: "Secret", APIVersion: "v1", Name: "s", Patch: "{}"}}
		}, "Modified", "secret s: somebody changed it: {}"},
		"another's": {func(d *api.BundleDeployment) {
			d.Status.NonModified = false
			d.Status.ModifiedStatus = []api.ModifiedStatus{{Kind: "Secret", APIVersion: "v1", Name: "s", Create: true, Exist: true}}
		}, "Modified", "secret s: it belongs to another bundle or Helm release"},
		"removed": {func(d *api.BundleDeployment) {
			d.Status.NonModified = false
			d.Status.ModifiedStatus = []api.ModifiedStatus{{Kind: "Secret", APIVersion: "v1", Name: "s", Create: true}}
		}, "Modified", "secret s: somebody removed it"},
		"left over": {func(d *api.BundleDeployment) {
			d.Status.NonModified = false
			d.Status.ModifiedStatus = []api.ModifiedStatus{{Kind: "Secret", APIVersion: "v1", Name: "s", Delete: true}}
		}, "Modified", "secret s: it exists and is no longer in Git"},
		"and more": {func(d *api.BundleDeployment) {
			d.Status.Ready, d.Status.IncompleteState = false, true
			d.Status.NonReadyStatus = []api.NonReadyStatus{{Kind: "Pod", APIVersion: "v1", Name: "p"}}
		}, "NotReady", "pod p: it is not ready; and more than these 1"},
		"none of them": {func(d *api.BundleDeployment) { d.Status.Ready, d.Status.IncompleteState = false, true }, "NotReady", "the agent gives no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			d := well()
			c.change(d)
			for _, paused := range []bool{false, true} {
				b := &api.Bundle{}
				b.Spec.Paused = paused
				got := bundleStates(b, []*api.BundleDeployment{d}, "")[0]
				var why []string
				for _, o := range got.Obstacles {
					why = append(why, o.String())
				}
				want := c.why
				if paused && c.state != StateReady {
					want = "the bundle is paused; " + want
				}
				assert.Equal(t, c.state, got.State)
				assert.Equal(t, want, strings.Join(why, "; "))
			}
		})
	}
}

// What is between a state and everything being deployed, as a whole and for a part.
func TestStateDiff(t *testing.T) {
	assert.Contains(t, (&State{Name: "g"}).Diff().String(), "GitRepo g")
	s := &State{Name: "g", There: true}
	assert.Contains(t, s.Diff().String(), "no bundles")
	assert.Contains(t, s.Part("p").String(), "a bundle of p in Git")
	s.Bundles = []BundleState{{Name: "b", Part: "p", Cluster: "local", State: StateReady}, {Name: "c", Part: "q", Cluster: "other", State: "Modified", Obstacles: []Obstacle{{Reason: "x"}, {Object: "o", Reason: "y"}}}}
	assert.Equal(t, "bundle/c@other: Modified → Ready [x; o: y]", s.Diff().String())
	assert.Empty(t, s.Part("p"))
	assert.Equal(t, "bundle/c@other: Modified → Ready [x; o: y]", s.Part("q").String())
	assert.Contains(t, s.Part("none").String(), "a bundle of none in Git")
	s.Want, s.Commit = "0123456789abcdef", "0123456789abcdef"
	assert.Empty(t, s.Part("p"))
	s.Commit = ""
	assert.Equal(t, "gitrepo/g/commit: none → 0123456789ab", s.Part("p").String())
	assert.Equal(t, s.Part("p"), s.Part("none"), "what the repository lacks is said once")
	s.Want, s.Wrong = "", []string{"it is paused"}
	assert.Equal(t, "gitrepo/g: it is paused → Ready", s.Part("p").String())
	s.Bundles = []BundleState{{Name: "b", Cluster: "local", State: "NotReady"}}
	assert.Contains(t, s.Diff().String(), "bundle/b: NotReady → Ready")
	assert.Less(t, BundleState{State: StateWaiting}.badness(), BundleState{State: "ErrApplied"}.badness())
	assert.Equal(t, BundleState{State: StateNowhere}.badness(), BundleState{State: "ErrApplied"}.badness())
	assert.Equal(t, BundleState{State: StateOld}.badness(), BundleState{State: "NotReady"}.badness())
	assert.Less(t, BundleState{State: StateReady}.badness(), BundleState{State: StateOld}.badness())
}
