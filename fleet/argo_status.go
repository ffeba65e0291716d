package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
)

// argoApp has of an Application what its state is read from (argo-cd pkg/apis/application/v1alpha1/types.go).
type argoApp struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		SyncPolicy struct {
			Automated *struct {
				Enabled *bool `json:"enabled"`
				Prune   bool  `json:"prune"`
			} `json:"automated"`
		} `json:"syncPolicy"`
	} `json:"spec"`
	Status struct {
		Sync       argoSync       `json:"sync"`
		Health     argoHealth     `json:"health"`
		Conditions []argoNote     `json:"conditions"`
		Resources  []argoResource `json:"resources"`
		Operation  *argoOperation `json:"operationState"`
	} `json:"status"`
}

type argoSync struct {
	Status   string `json:"status"`
	Revision string `json:"revision"`
}

type argoHealth struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type argoNote struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type argoResource struct {
	Group     string      `json:"group"`
	Version   string      `json:"version"`
	Kind      string      `json:"kind"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Status    string      `json:"status"`
	Health    *argoHealth `json:"health"`
	Pruning   bool        `json:"requiresPruning"` // it is no longer in Git
	Message   string      `json:"message"`         // of an operation
	HookPhase string      `json:"hookPhase"`       // of an operation
}

type argoOperation struct {
	Phase      string `json:"phase"`
	Message    string `json:"message"`
	FinishedAt string `json:"finishedAt"` // while it runs: it failed, and is tried again
	Result     *struct {
		Revision  string         `json:"revision"`
		Resources []argoResource `json:"resources"`
	} `json:"syncResult"`
}

func (r argoResource) String() string {
	return objectText(strings.TrimPrefix(r.Group+"/"+r.Version, "/"), r.Kind, r.Namespace, r.Name)
}

// observeArgo reads the Applications of the folders and of the bundles.
func observeArgo(ctx context.Context, k *kube.Client, o StatusOptions) (*State, error) {
	s := &State{Name: cmp.Or(o.Name, defaultRepoName), Want: o.Commit}
	found, err := k.List(ctx, argoAPI, "Application", argoNamespace, "")
	var noKind *kube.NoKindError
	if errors.As(err, &noKind) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var bundles []argoApp
	kept := map[string]bool{}
	for _, u := range found {
		var a argoApp
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &a); err != nil {
			return nil, fmt.Errorf("application %s/%s does not have the format of this version of Argo CD: %w", u.GetNamespace(), u.GetName(), err)
		}
		switch {
		case strings.HasPrefix(u.GetName(), argoRoot):
			s.root(a, kept)
		case strings.HasPrefix(u.GetName(), argoPrefix) && a.Metadata.Labels[PartLabel] != "":
			bundles = append(bundles, a)
		}
	}
	for _, a := range bundles {
		if b := a.bundle(o.Commit); s.There && !kept[a.Metadata.Name] { // without a root none is in Git
			s.Bundles = append(s.Bundles, b)
			continue
		}
		b := BundleState{Name: a.bundleName(), Part: a.Metadata.Labels[PartLabel], Cluster: localCluster, State: StateKept}
		b.Obstacles = []Obstacle{{Object: "application " + a.Metadata.Name, Reason: "it is no longer in Git, and what it deployed keeps running"}}
		s.Bundles = append(s.Bundles, b)
	}
	s.sort()
	return s, nil
}

// root adds what the Application of a folder says. Its health does not count: it is that of the bundles, if
// Argo CD is told to look at that.
func (s *State) root(a argoApp, kept map[string]bool) {
	s.There = true
	if commit := a.Status.Sync.Revision; s.Commit == "" || commit != s.Want {
		s.Commit = commit
	}
	for _, r := range a.Status.Resources {
		if r.Kind == "Application" && r.Namespace == argoNamespace && r.Pruning {
			kept[r.Name] = true
		}
	}
	a.Status.Health = argoHealth{Status: "Healthy"}
	if b := a.bundle(s.Want); b.State != StateReady {
		s.Wrong = append(s.Wrong, fmt.Sprintf("Argo CD has not applied application %s: %s", a.Metadata.Name, b.Obstacles[0]))
	}
}

func (a argoApp) bundleName() string { return strings.TrimPrefix(a.Metadata.Name, argoPrefix) }

// bundle is the state of a bundle's Application.
func (a argoApp) bundle(commit string) BundleState {
	b := BundleState{Name: a.bundleName(), Part: a.Metadata.Labels[PartLabel], Cluster: localCluster, State: StateReady}
	say := func(state, reason string) { b.State, b.Obstacles = state, []Obstacle{{Reason: reason}} }
	sync := a.Status.Sync
	failed, why := a.failure()
	switch drift := a.drift(); {
	case failed != "":
		say(StateErrApplied, failed)
		b.Obstacles = append(b.Obstacles, why...)
	case sync.Status == "":
		say(StateNotReady, "Argo CD has not processed it yet")
	case commit != "" && sync.Revision != commit:
		say(StateOld, "it is at commit "+cmp.Or(shortCommit(sync.Revision), "none")+", and Argo CD is still processing the next")
	case a.running():
		say(StateNotReady, oneLine(cmp.Or(a.Status.Operation.Message, "it is being deployed")))
		b.Obstacles = append(b.Obstacles, a.unhealthy()...)
	case len(drift) > 0 && !a.automated():
		say(StateOutOfSync, "automatic sync is off (spec.syncPolicy.automated)")
	case len(drift) > 0 && a.lastCommit() == sync.Revision:
		b.State, b.Obstacles = StateModified, drift
	case len(drift) > 0:
		say(StateOld, "Argo CD is about to deploy it")
	case sync.Status != "Synced" && sync.Status != "OutOfSync":
		say(StateNotReady, "Argo CD cannot compare it (sync status "+sync.Status+")")
	case a.Status.Health.Status != "Healthy" && a.Status.Health.Status != "Suspended":
		b.State = StateNotReady
		b.Obstacles = cmpObstacles(a.unhealthy(), oneLine(a.Status.Health.Message), "its health is "+cmp.Or(a.Status.Health.Status, "not known yet"))
	}
	return b
}

// failure says why it cannot be deployed. Operations with an older commit count only while they go on.
func (a argoApp) failure() (string, []Obstacle) {
	for _, c := range a.Status.Conditions {
		if c.Type == "ComparisonError" || c.Type == "InvalidSpecError" || c.Type == "UnknownError" {
			return oneLine(c.Message), nil
		}
	}
	op := a.Status.Operation
	if op == nil {
		return "", nil
	}
	again := a.running() && op.FinishedAt != ""
	over := (op.Phase == "Failed" || op.Phase == "Error") && (op.Result == nil || a.lastCommit() == a.Status.Sync.Revision)
	if !again && !over {
		return "", nil
	}
	var why []Obstacle
	if op.Result != nil {
		for _, r := range op.Result.Resources {
			if r.Status == "SyncFailed" || r.HookPhase == "Failed" || r.HookPhase == "Error" {
				why = append(why, Obstacle{Object: r.String(), Reason: oneLine(r.Message)})
			}
		}
	}
	return oneLine(op.Message), why
}

func (a argoApp) running() bool {
	op := a.Status.Operation
	return op != nil && (op.Phase == "Running" || op.Phase == "Terminating")
}

// lastCommit is the commit of the last operation.
func (a argoApp) lastCommit() string {
	if op := a.Status.Operation; op != nil && op.Result != nil {
		return op.Result.Revision
	}
	return ""
}

// automated reports whether a new commit is deployed without a person.
func (a argoApp) automated() bool {
	auto := a.Spec.SyncPolicy.Automated
	return auto != nil && (auto.Enabled == nil || *auto.Enabled)
}

// drift are the objects that differ from Git. Those that are no longer in Git stay, where Argo CD may not
// delete them; where it may, it does so with the next operation.
func (a argoApp) drift() []Obstacle {
	var out []Obstacle
	for _, r := range a.Status.Resources {
		prunes := a.automated() && a.Spec.SyncPolicy.Automated.Prune && a.lastCommit() != a.Status.Sync.Revision
		if r.Status == "OutOfSync" && (!r.Pruning || prunes) {
			why := "it differs from Git"
			if r.Health != nil && r.Health.Status == "Missing" {
				why = "somebody removed it"
			}
			out = append(out, Obstacle{Object: r.String(), Reason: why})
		}
	}
	if len(out) == 0 && a.Status.Sync.Status == "OutOfSync" && len(a.Status.Resources) == 0 {
		out = append(out, Obstacle{Reason: "it differs from Git"})
	}
	return out
}

// unhealthy are the objects that do not run. Since 3.0 Argo CD lists them only if it is told to
// (controller.resource.health.persist).
func (a argoApp) unhealthy() []Obstacle {
	var out []Obstacle
	for _, r := range a.Status.Resources {
		if r.Health != nil && r.Health.Status != "Healthy" && r.Health.Status != "Suspended" {
			out = append(out, Obstacle{Object: r.String(), Reason: cmp.Or(oneLine(r.Health.Message), "it is "+r.Health.Status)})
		}
	}
	return out
}
