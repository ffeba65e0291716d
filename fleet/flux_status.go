package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
)

// fluxStatus has of Flux's objects what their state is read from; all their kinds say it alike.
type fluxStatus struct {
	Name, Part string `json:"-"`
	Metadata   struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		Suspend bool `json:"suspend"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Artifact   struct {
			Revision string `json:"revision"`
		} `json:"artifact"`
		LastAppliedRevision string `json:"lastAppliedRevision"`
	} `json:"status"`
}

func fluxStatusOf(u unstructured.Unstructured) (fluxStatus, error) {
	var s fluxStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return s, fmt.Errorf("%s %s/%s does not have the format of this version of Flux: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	s.Name, s.Part = u.GetName(), u.GetLabels()[PartLabel]
	return s, nil
}

// ready is the condition Ready; of an earlier generation it does not count. The generation of the whole
// status does not tell: kustomize-controller sets it only when all is well.
func (s fluxStatus) ready() metav1.Condition {
	for _, c := range s.Status.Conditions {
		if c.Type == "Ready" && c.ObservedGeneration >= s.Metadata.Generation {
			return c
		}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Progressing", Message: "Flux has not processed it yet"}
}

// commitOf is the commit of a revision, e.g. main@sha1:COMMIT.
func commitOf(revision string) string {
	_, commit, _ := strings.Cut(revision, ":")
	return commit
}

// observeFlux reads the GitRepository, and the state of the Kustomization of each bundle. Bundles may be
// there without it.
func observeFlux(ctx context.Context, k *kube.Client, o StatusOptions) (*State, error) {
	s := &State{Name: cmp.Or(o.Name, defaultRepoName), Want: o.Commit}
	u := newObject(fluxSource, "GitRepository", fluxNamespace, s.Name, nil)
	var noKind *kube.NoKindError
	switch err := k.Get(ctx, u); {
	case errors.As(err, &noKind):
		return s, nil
	case err == nil:
		repo, err := fluxStatusOf(*u)
		if err != nil {
			return nil, err
		}
		s.There, s.Commit, s.Wrong = true, commitOf(repo.Status.Artifact.Revision), repo.sourceWrong()
	case !errors.Is(err, kube.ErrNotFound):
		return nil, err
	}
	applied, err := listFlux(ctx, k, fluxKustomize, "Kustomization")
	if err != nil {
		return nil, err
	}
	releases, err := listFlux(ctx, k, fluxHelm, "HelmRelease")
	if err != nil {
		return nil, err
	}
	for _, a := range applied {
		b := fluxBundle(a, releases, o.Commit)
		switch {
		case a.Part != "":
			s.Bundles = append(s.Bundles, b)
		case b.State != StateReady: // of a folder: what is new in it becomes a bundle with that
			s.Wrong = append(s.Wrong, fmt.Sprintf("Flux has not applied kustomization %s: %s", a.Name, b.Obstacles[0]))
		}
	}
	for _, r := range releases {
		if !slices.ContainsFunc(applied, func(a fluxStatus) bool { return a.Name == r.Name }) {
			s.Bundles = append(s.Bundles, BundleState{Name: r.Name, Part: r.Part, Cluster: localCluster, State: StateKept,
				Obstacles: []Obstacle{{Object: "helmrelease " + r.Name, Reason: "it is no longer in Git, and keeps running"}}})
		}
	}
	s.sort()
	return s, nil
}

// sourceWrong says what keeps the repository as a whole.
func (s fluxStatus) sourceWrong() []string {
	ready := s.ready()
	switch {
	case s.Spec.Suspend:
		return []string{"it is suspended (spec.suspend): nothing new is deployed"}
	case ready.Status == metav1.ConditionFalse:
		return []string{"Flux cannot read the repository: " + oneLine(ready.Message)}
	case ready.Status != metav1.ConditionTrue:
		return []string{"Flux is reading it: " + oneLine(ready.Message)}
	}
	return nil
}

func listFlux(ctx context.Context, k *kube.Client, apiVersion, kind string) ([]fluxStatus, error) {
	found, err := k.List(ctx, apiVersion, kind, fluxNamespace, "")
	if err != nil {
		return nil, err
	}
	out := make([]fluxStatus, len(found))
	for i, u := range found {
		if out[i], err = fluxStatusOf(u); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fluxBundle is the state of a bundle's Kustomization. Its reasons are those of kustomize-controller's
// api/v1 and fluxcd/pkg/apis/meta.
func fluxBundle(a fluxStatus, releases []fluxStatus, commit string) BundleState {
	b := BundleState{Name: a.Name, Part: a.Part, Cluster: localCluster, State: StateReady}
	ready := a.ready()
	say := func(state string) { b.State, b.Obstacles = state, []Obstacle{{Reason: oneLine(ready.Message)}} }
	switch {
	case a.Spec.Suspend:
		b.State, b.Obstacles = StateOutOfSync, []Obstacle{{Reason: "it is suspended (spec.suspend)"}}
	case ready.Status == metav1.ConditionFalse && ready.Reason == "DependencyNotReady":
		say(StateWaiting)
	case ready.Status == metav1.ConditionFalse && ready.Reason == "HealthCheckFailed", ready.Status == metav1.ConditionUnknown:
		say(StateNotReady)
	case ready.Status == metav1.ConditionFalse:
		say(StateErrApplied)
	case commit != "" && commitOf(a.Status.LastAppliedRevision) != commit:
		b.State = StateOld
		b.Obstacles = []Obstacle{{Reason: "it is at commit " + cmp.Or(shortCommit(commitOf(a.Status.LastAppliedRevision)), "none") + ", and Flux is still processing the next"}}
	}
	if b.State == StateReady {
		return b
	}
	for _, r := range releases {
		if why := r.ready(); r.Name == a.Name && why.Status != metav1.ConditionTrue {
			b.Obstacles = append(b.Obstacles, Obstacle{Object: "helmrelease " + r.Name, Reason: oneLine(why.Message)})
		}
	}
	return b
}

// fluxUnreadyReason says what Flux lacks before it can deploy.
func fluxUnreadyReason(ctx context.Context, k *kube.Client) (string, error) {
	for _, name := range []string{"source-controller", "kustomize-controller", "helm-controller"} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: fluxSystem, Name: name}}
		if why, ok, err := k.Ready(ctx, d); err != nil || !ok {
			return why, err
		}
	}
	return "", nil
}

// CheckNoFlux refuses to install Flux beside one that is there: the two would undo each other's work.
func CheckNoFlux(ctx context.Context, k *kube.Client) error {
	found, err := k.List(ctx, "apps/v1", "Deployment", "", "")
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.GetName() != "kustomize-controller" {
			continue
		}
		if release := d.GetAnnotations()["meta.helm.sh/release-name"]; release != string(ToolFlux) || d.GetNamespace() != fluxSystem {
			return fmt.Errorf("Flux is there already, in the namespace %s: write flux.standalone: false to use it", d.GetNamespace())
		}
	}
	return nil
}
