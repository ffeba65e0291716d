package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
)

// flux installs Flux's kinds.
func (w world) flux(t *testing.T) world {
	t.Helper()
	w.kind(t, "source.toolkit.fluxcd.io", "v1", "GitRepository")
	w.kind(t, "kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
	w.kind(t, "helm.toolkit.fluxcd.io", "v2", "HelmRelease")
	return w
}

const older = "2222222222222222222222222222222222222222"

// said is an object of Flux, with what its controller says of it. The generation that it has seen as a whole is
// always an old one: the controllers set it only when all is well.
func said(kind, name, part, spec, ready, more string) string {
	apiVersion := map[string]string{"GitRepository": "source.toolkit.fluxcd.io/v1", "Kustomization": "kustomize.toolkit.fluxcd.io/v1",
		"HelmRelease": "helm.toolkit.fluxcd.io/v2"}[kind]
	labels := "{}"
	if part != "" {
		labels = fmt.Sprintf("{%s: %s}", fleet.PartLabel, part)
	}
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: homelab-flux, generation: 1, labels: %s}\nspec: {%s}\n"+
		"status: {observedGeneration: -1, conditions: [{type: Ready, lastTransitionTime: 2026-11-29T10:00:00Z, %s}]%s}\n", apiVersion, kind, name, labels, spec, ready, more)
}

// Conditions.
const (
	good     = `status: "True", observedGeneration: 1, reason: Succeeded, message: done`
	working  = `status: "Unknown", observedGeneration: 1, reason: Progressing, message: Reconciliation in progress`
	outdated = `status: "True", observedGeneration: 0, reason: Succeeded, message: of what was there before`
)

func failed(reason, message string) string {
	return fmt.Sprintf(`status: "False", observedGeneration: 1, reason: %s, message: %q`, reason, message)
}

func source(spec, ready string) string {
	return said("GitRepository", "homelab", "", spec, ready, ", artifact: {revision: 'main@sha1:"+wanted+"'}")
}

func applied(name, part, ready, commit string) string {
	return said("Kustomization", name, part, "", ready, ", lastAppliedRevision: 'main@sha1:"+commit+"'")
}

// TestFluxSaysWhatIsInTheWay: what is between a state and everything being deployed.
func TestFluxSaysWhatIsInTheWay(t *testing.T) {
	const root = "homelab-flux-lab"
	fine := source("", good) + applied(root, "", good, wanted)
	hub := applied("hub", "hub", good, wanted)
	for name, tt := range map[string]struct {
		there string
		says  []string // of the whole
		part  string   // of the part hub; empty: it is done
	}{
		"all is well":      {there: fine + hub + said("HelmRelease", "hub", "hub", "", good, "")},
		"nothing":          {there: "", says: []string{"gitrepo/homelab: "}, part: "GitRepo homelab"},
		"not read":         {there: source("", failed("GitOperationFailed", "authentication required")) + applied(root, "", good, wanted) + hub, says: []string{"Flux cannot read the repository: authentication required"}, part: "authentication required"},
		"being read":       {there: source("", working) + applied(root, "", good, wanted) + hub, says: []string{"Flux is reading it: Reconciliation in progress"}, part: "Flux is reading it"},
		"suspended":        {there: source("suspend: true", good) + applied(root, "", good, wanted) + hub, says: []string{"it is suspended (spec.suspend): nothing new is deployed"}, part: "suspended"},
		"no bundle":        {there: fine, says: []string{"no bundles"}, part: "a bundle of hub in Git"},
		"root not applied": {there: source("", good) + applied(root, "", failed("BuildFailed", "kustomize build failed: no such file"), older) + hub, says: []string{"Flux has not applied kustomization " + root + ": kustomize build failed: no such file"}, part: "kustomize build failed"},
		"root behind":      {there: source("", good) + applied(root, "", good, older) + hub, says: []string{"Flux has not applied kustomization " + root + ": it is at commit 222222222222"}, part: "it is at commit 222222222222"},
		"older commit":     {there: fine + applied("hub", "hub", good, older), says: []string{"bundle/hub: Old → Ready", "it is at commit 222222222222, and Flux is still processing the next"}, part: "Old"},
		"not seen yet":     {there: fine + applied("hub", "hub", outdated, wanted), says: []string{"bundle/hub: NotReady → Ready", "Flux has not processed it yet"}, part: "NotReady"},
		"waits":            {there: fine + applied("hub", "hub", failed("DependencyNotReady", "dependency 'homelab-flux/nfs' is not ready"), older), says: []string{"bundle/hub: Waiting → Ready", "dependency 'homelab-flux/nfs' is not ready"}, part: "Waiting"},
		"refused":          {there: fine + applied("hub", "hub", failed("ReconciliationFailed", "Ingress/hub/hub dry-run failed: denied"), older), says: []string{"bundle/hub: ErrApplied → Ready", "dry-run failed: denied"}, part: "ErrApplied"},
		"paused":           {there: fine + said("Kustomization", "hub", "hub", "suspend: true", good, ""), says: []string{"bundle/hub: OutOfSync → Ready", "it is suspended (spec.suspend)"}, part: "OutOfSync"},
		"not ready": {there: fine + applied("hub", "hub", failed("HealthCheckFailed", "health check failed after 15m0s: timeout waiting for: [HelmRelease/homelab-flux/hub status: 'InProgress']"), older) +
			said("HelmRelease", "hub", "hub", "", failed("InstallFailed", "Helm install failed for release jupyterhub/hub: context deadline exceeded"), ""),
			says: []string{"bundle/hub: NotReady → Ready", "health check failed after 15m0s", "helmrelease hub: Helm install failed for release jupyterhub/hub: context deadline exceeded"}, part: "NotReady"},
		"installs":           {there: fine + applied("hub", "hub", working, older) + said("HelmRelease", "hub", "hub", "", working, ""), says: []string{"bundle/hub: NotReady → Ready", "helmrelease hub: Reconciliation in progress"}, part: "NotReady"},
		"another part":       {there: fine + hub + applied("nfs", "nfs", failed("ReconciliationFailed", "denied"), older), says: []string{"bundle/nfs: ErrApplied → Ready"}},
		"kept, beside one":   {there: fine + applied("nfs", "nfs", good, wanted) + said("HelmRelease", "hub", "hub", "", good, ""), part: "a bundle of hub in Git"},
		"kept, and all gone": {there: said("HelmRelease", "hub", "hub", "", good, ""), says: []string{"gitrepo/homelab: "}, part: "GitRepo homelab"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).flux(t)
			if tt.there != "" {
				w.create(t, []byte(tt.there))
			}
			saysState(t, w, fleet.ToolFlux, tt.says, tt.part, strings.HasPrefix(name, "kept"))
		})
	}
}

// saysState holds what is observed of a tool against what its state and the part hub say of it; empty: all is well.
func saysState(t *testing.T, w world, tool fleet.Tool, says []string, ofHub string, isKept bool) {
	t.Helper()
	s, err := fleet.Observe(t.Context(), w.Client, fleet.StatusOptions{Tool: tool, Commit: wanted})
	require.NoError(t, err)
	text := s.Diff().String()
	for _, said := range says {
		assert.Contains(t, text, said)
	}
	assert.Equal(t, len(says) == 0, text == "", text)
	part := s.Part("hub").String()
	assert.Contains(t, part, ofHub)
	assert.Equal(t, ofHub == "", part == "", part)
	kept := 0
	for _, b := range s.Bundles {
		if b.State == fleet.StateKept {
			kept++
		}
	}
	assert.Equal(t, isKept, kept == 1)
}

// Without Flux's kinds there is nothing, and no error.
func TestFluxWhereNothingIs(t *testing.T) {
	s, err := fleet.Observe(t.Context(), newWorld(t).Client, fleet.StatusOptions{Tool: fleet.ToolFlux})
	require.NoError(t, err)
	assert.False(t, s.There)
	assert.Empty(t, s.Bundles)
	assert.NotEmpty(t, s.Diff())
}
