package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// StatusOptions select the GitRepo and commit.
type StatusOptions struct {
	Tool      Tool   // who deploys; default Fleet
	Name      string // of the GitRepo; default homelab
	Namespace string // default fleet-local; only of Fleet
	// Commit is the one that should be deployed: without it the state before the last push
	// looks like success. Empty: any.
	Commit string
}

// States of a bundle in addition to Fleet's own.
const (
	StateReady   = string(api.Ready)
	StateWaiting = "Waiting" // for another bundle
	StateNowhere = "Nowhere" // no cluster is its target
	StateOld     = "Old"     // of a commit before the one that is wanted
	StateKept    = "Kept"    // no longer in Git; what it deployed stays (Flux, Argo CD)

	StateErrApplied = string(api.ErrApplied)
	StateNotReady   = string(api.NotReady)
	StateOutOfSync  = string(api.OutOfSync)
	StateModified   = string(api.Modified)
)

// badness orders states, the worst first: failed before waiting.
func (b BundleState) badness() int {
	switch b.State {
	case StateNowhere:
		return api.StateRank[api.ErrApplied]
	case StateWaiting, StateOld:
		return api.StateRank[api.NotReady]
	}
	return api.StateRank[api.BundleState(b.State)]
}

// State is the observed state of a GitRepo and its bundles, the worst first.
type State struct {
	Name    string        `json:"name"`
	There   bool          `json:"there"`
	Want    string        `json:"want,omitempty"`   // the commit that should be deployed
	Commit  string        `json:"commit,omitempty"` // the one that Fleet has read
	Job     string        `json:"job,omitempty"`    // how Fleet's reading went, "Current" when it went well
	Wrong   []string      `json:"wrong,omitempty"`  // what keeps the repository as a whole, in words
	Bundles []BundleState `json:"bundles"`
}

// BundleState is a bundle on one cluster.
type BundleState struct {
	Name      string     `json:"bundle"`
	Part      string     `json:"part,omitempty"`
	Cluster   string     `json:"cluster,omitempty"` // empty where it is on none
	State     string     `json:"state"`             // Fleet's word, or one of ours
	Obstacles []Obstacle `json:"why,omitempty"`
}

// Obstacle is an object that blocks a bundle, and the reason.
type Obstacle struct {
	Object string `json:"object,omitempty"` // e.g. "deployment jupyterhub/hub"; empty: the bundle as a whole
	Reason string `json:"why"`
}

// String returns e.g. "deployment jupyterhub/hub: 0/1 ready".
func (o Obstacle) String() string {
	if o.Object == "" {
		return o.Reason
	}
	return o.Object + ": " + o.Reason
}

// Observe reads a GitRepo and the state of each of its bundles.
func Observe(ctx context.Context, k *kube.Client, o StatusOptions) (*State, error) {
	switch o.Tool {
	case ToolFlux:
		return observeFlux(ctx, k, o)
	case ToolArgo:
		return observeArgo(ctx, k, o)
	}
	o.Name, o.Namespace = cmp.Or(o.Name, defaultRepoName), cmp.Or(o.Namespace, localNamespace)
	s := &State{Name: o.Name, Want: o.Commit}
	u := fleetObject("GitRepo", o.Namespace, o.Name)
	var noKind *kube.NoKindError
	err := k.Get(ctx, u)
	switch {
	case errors.Is(err, kube.ErrNotFound), errors.As(err, &noKind):
		return s, nil
	case err != nil:
		return nil, err
	}
	var repo api.GitRepo
	if err := decodeInto(*u, &repo); err != nil {
		return nil, err
	}
	s.There, s.Commit, s.Job = true, repo.Status.Commit, repo.Status.GitJobStatus
	s.Wrong = repoWrong(&repo)

	bundles, err := list[api.Bundle](ctx, k, "Bundle", o.Namespace, api.RepoLabel+"="+o.Name)
	if err != nil {
		return nil, err
	}
	deployments, err := list[api.BundleDeployment](ctx, k, "BundleDeployment", "", api.RepoLabel+"="+o.Name+","+api.BundleNamespaceLabel+"="+o.Namespace)
	if err != nil {
		return nil, err
	}
	byBundle := map[string][]*api.BundleDeployment{}
	for i := range deployments {
		name := deployments[i].Labels[api.BundleLabel]
		byBundle[name] = append(byBundle[name], &deployments[i])
	}
	for i := range bundles {
		s.Bundles = append(s.Bundles, bundleStates(&bundles[i], byBundle[bundles[i].Name], o.Commit)...)
	}
	s.sort()
	return s, nil
}

// sort orders bundles, the worst first.
func (s *State) sort() {
	slices.SortFunc(s.Bundles, func(a, b BundleState) int {
		return cmp.Or(b.badness()-a.badness(), strings.Compare(a.Name, b.Name), strings.Compare(a.Cluster, b.Cluster))
	})
}

func list[T any](ctx context.Context, k *kube.Client, kind, namespace, selector string) ([]T, error) {
	found, err := k.List(ctx, api.SchemeGroupVersion.String(), kind, namespace, selector)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(found))
	for i := range found {
		if err := decodeInto(found[i], &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// repoWrong says what blocks a repository as a whole. Its condition Ready repeats that of one
// of its bundles, which are checked one by one.
func repoWrong(repo *api.GitRepo) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if repo.Spec.Paused {
		add("it is paused (spec.paused): nothing new is deployed")
	}
	if repo.Status.ObservedGeneration < repo.Generation {
		add("Fleet has not seen the last change of the GitRepo yet")
	}
	for _, c := range repo.Status.Conditions {
		bad := c.Status == "False" && (c.Type == api.GitRepoAcceptedCondition || c.Type == "GitPolling") || c.Status == "True" && c.Type == "Stalled"
		if !bad {
			continue
		}
		switch said := oneLine(c.Message); c.Type {
		case "GitPolling":
			add("Fleet cannot read the repository: %s", said)
		case "Stalled":
			add("Fleet cannot make bundles of it: %s", said)
		default:
			add("Fleet does not accept it: %s", said)
		}
	}
	if job := repo.Status.GitJobStatus; job != "Current" && len(out) == 0 {
		add("Fleet is reading it (job: %s)", cmp.Or(job, "not started"))
	}
	return out
}

// Diff says what is still missing until everything of the wanted commit is deployed.
func (s *State) Diff() converge.Diff {
	d := s.Source()
	for _, b := range s.Bundles {
		d = append(d, b.diff()...)
	}
	if d.Empty() && len(s.Bundles) == 0 {
		return converge.Diff{{Path: "gitrepo/" + s.Name, Have: "no bundles", Want: "some", Effect: converge.Update,
			Note: "there is no bundle below its paths, or they are still being processed"}}
	}
	return d
}

// Source says what is still missing until the wanted commit is read, and what of it is to be deployed is known.
func (s *State) Source() converge.Diff {
	path := "gitrepo/" + s.Name
	if !s.There {
		return converge.Missing("GitRepo " + s.Name).WithPrefix(path)
	}
	var d converge.Diff
	if s.Want != "" && s.Want != s.Commit {
		d = append(d, converge.Field{Path: path + "/commit", Have: cmp.Or(shortCommit(s.Commit), "none"), Want: shortCommit(s.Want),
			Effect: converge.Update})
	}
	for _, why := range s.Wrong {
		d = append(d, converge.Field{Path: path, Have: why, Want: StateReady, Effect: converge.Update})
	}
	return d
}

// Part says what is still missing until a part of the platform is deployed: problems of the
// repository as a whole, and of the part's bundles.
func (s *State) Part(part string) converge.Diff {
	d := s.Source()
	found := false
	for _, b := range s.Bundles {
		if b.Part == part && b.State != StateKept {
			found = true
			d = append(d, b.diff()...)
		}
	}
	if !found && d.Empty() {
		return converge.Missing("a bundle of " + part + " in Git").WithPrefix("bundle/" + part)
	}
	return d
}

func shortCommit(commit string) string { return commit[:min(12, len(commit))] }

func (b BundleState) diff() converge.Diff {
	if b.State == StateReady || b.State == StateKept {
		return nil
	}
	f := converge.Field{Path: "bundle/" + b.Name, Have: b.State, Want: StateReady, Effect: converge.Update}
	if b.Cluster != "" && b.Cluster != localCluster {
		f.Path += "@" + b.Cluster
	}
	var why []string
	for _, o := range b.Obstacles {
		why = append(why, o.String())
	}
	f.Note = strings.Join(why, "; ")
	return converge.Diff{f}
}
