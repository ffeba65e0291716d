package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

	"github.com/cps-gpu/homelab/kube"
)

// bundleStates returns a bundle's state on each of its clusters.
func bundleStates(b *api.Bundle, deployments []*api.BundleDeployment, commit string) []BundleState {
	state := BundleState{Name: b.Name, Part: b.Labels[PartLabel]}
	if has, ok := b.Labels[api.CommitLabel]; ok && commit != "" && has != commit {
		state.State = StateOld
		state.Obstacles = []Obstacle{{Reason: "it is at commit " + shortCommit(has) + ", and Fleet is still processing the next"}}
		return []BundleState{state}
	}
	if len(deployments) == 0 {
		state.State, state.Obstacles = undeployedReason(b)
		return []BundleState{state}
	}
	var out []BundleState
	for _, d := range deployments {
		s := state
		s.Cluster = d.Labels[api.ClusterLabel]
		s.State, s.Obstacles = deploymentState(d)
		if b.Spec.Paused && s.State != StateReady {
			s.Obstacles = append([]Obstacle{{Reason: "the bundle is paused"}}, s.Obstacles...)
		}
		out = append(out, s)
	}
	return out
}

// undeployedReason says why a bundle is on no cluster.
func undeployedReason(b *api.Bundle) (string, []Obstacle) {
	if said := bundleSays(b, "Ready"); said != "" {
		return string(api.ErrApplied), []Obstacle{{Reason: said}}
	}
	if b.Status.ObservedGeneration < b.Generation || len(b.Status.Conditions) == 0 {
		return string(api.Pending), []Obstacle{{Reason: "Fleet has not processed it yet"}}
	}
	return StateNowhere,
		[]Obstacle{{Reason: "it has no target cluster: Fleet's own cluster is called local, and is a target of bundles in " + localNamespace + " only"}}
}

// notReady matches the agent's message about a bundle that waits for others
// (internal/cmd/agent/deployer/deployer.go, NotReadyDependenciesError).
var notReady = regexp.MustCompile(`dependent bundle\(s\) are not ready: \[([^\]]*)\]`)

// noneMatch matches the agent's message about a missing dependency (checkDependency).
var noneMatch = regexp.MustCompile(`no bundles matching labels (\S+)`)

// deploymentState returns a bundle's state on a cluster, as Fleet itself computes it
// (internal/cmd/controller/summary, GetDeploymentState), except that waiting for another
// bundle is not an error.
func deploymentState(d *api.BundleDeployment) (string, []Obstacle) {
	said := agentSays(d, api.BundleDeploymentConditionDeployed)
	switch {
	case d.Status.AppliedDeploymentID != d.Spec.DeploymentID:
		if m := notReady.FindStringSubmatch(said); m != nil {
			return StateWaiting, []Obstacle{{Reason: "it waits for " + strings.Join(strings.Fields(m[1]), ", ")}}
		}
		if m := noneMatch.FindStringSubmatch(said); m != nil {
			return string(api.ErrApplied), []Obstacle{{Reason: "it depends on a bundle that does not exist (" + m[1] + "): it waits forever"}}
		}
		if said != "" {
			return string(api.ErrApplied), []Obstacle{{Reason: said}}
		}
		return string(api.WaitApplied), []Obstacle{{Reason: "the cluster's agent has not deployed it yet"}}
	case !d.Status.Ready:
		return string(api.NotReady), cmpObstacles(notReadyObjects(d), agentSays(d, api.BundleDeploymentConditionInstalled),
			said, agentSays(d, api.BundleDeploymentConditionReady), "the agent gives no reason")
	case d.Spec.DeploymentID != d.Spec.StagedDeploymentID:
		return string(api.OutOfSync),
			[]Obstacle{{Reason: "a newer version is not deployed: it is paused, outside its schedule, or its rollout waits for other clusters"}}
	case !d.Status.NonModified:
		return string(api.Modified), cmpObstacles(modifiedObjects(d), agentSays(d, api.BundleDeploymentConditionMonitored),
			"somebody changed what it deployed; Fleet reports the drift and does not correct it")
	}
	return StateReady, nil
}

// cmpObstacles returns the objects, or else the first reason.
func cmpObstacles(objects []Obstacle, reasons ...string) []Obstacle {
	if len(objects) > 0 {
		return objects
	}
	return []Obstacle{{Reason: cmp.Or(reasons...)}}
}

// bundleSays returns why a bundle's condition is False, and agentSays why a deployment's is;
// nothing otherwise.
func bundleSays(b *api.Bundle, condition string) string {
	for _, c := range b.Status.Conditions {
		if c.Type == condition && c.Status == "False" {
			return oneLine(c.Message)
		}
	}
	return ""
}

func agentSays(d *api.BundleDeployment, condition string) string {
	for _, c := range d.Status.Conditions {
		if c.Type == condition && c.Status == "False" {
			return oneLine(c.Message)
		}
	}
	return ""
}

func objectText(apiVersion, kind, namespace, name string) string {
	return kube.Ref{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}.String()
}

func notReadyObjects(d *api.BundleDeployment) []Obstacle {
	var out []Obstacle
	for _, o := range d.Status.NonReadyStatus {
		why := cmp.Or(oneLine(strings.Join(o.Summary.Message, ", ")), o.Summary.State, "it is not ready")
		out = append(out, Obstacle{Object: objectText(o.APIVersion, o.Kind, o.Namespace, o.Name), Reason: why})
	}
	return andMore(out, d)
}

func modifiedObjects(d *api.BundleDeployment) []Obstacle {
	var out []Obstacle
	for _, o := range d.Status.ModifiedStatus {
		var why string
		switch {
		case o.Create && o.Exist:
			why = "it belongs to another bundle or Helm release"
		case o.Create:
			why = "somebody removed it"
		case o.Delete:
			why = "it exists and is no longer in Git"
		default:
			why = "somebody changed it: " + cmp.Or(oneLine(o.Patch), "Fleet does not say what")
		}
		out = append(out, Obstacle{Object: objectText(o.APIVersion, o.Kind, o.Namespace, o.Name), Reason: why})
	}
	return andMore(out, d)
}

// andMore counts the objects that Fleet does not list: it lists ten at most.
func andMore(out []Obstacle, d *api.BundleDeployment) []Obstacle {
	if len(out) > 0 && d.Status.IncompleteState {
		out = append(out, Obstacle{Reason: fmt.Sprintf("and more than these %d", len(out))})
	}
	return out
}
