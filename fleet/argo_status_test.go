package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/fleet"
)

// argo installs Argo CD's kind.
func (w world) argo(t *testing.T) world {
	t.Helper()
	w.kind(t, "argoproj.io", "v1alpha1", "Application")
	return w
}

const argoRoot = "homelab-git-argocd-lab"

// app is an Application with a status.
func app(name, part, status string) string { return appOf(name, part, "{prune: true}", status) }

func appOf(name, part, automated, status string) string {
	labels := "{}"
	if part != "" {
		labels = fmt.Sprintf("{%s: %s}", fleet.PartLabel, part)
	}
	return fmt.Sprintf("---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd, labels: %s}\n"+
		"spec: {syncPolicy: {automated: %s}}\nstatus: {%s}\n", name, labels, automated, status)
}

// What a status consists of.
const (
	synced  = "sync: {status: Synced, revision: '" + wanted + "'}, health: {status: Healthy}, "
	differs = "sync: {status: OutOfSync, revision: '" + wanted + "'}, health: {status: Healthy}, "
	done    = "operationState: {phase: Succeeded, syncResult: {revision: '" + wanted + "'}}, "
	before  = "operationState: {phase: Succeeded, syncResult: {revision: '" + older + "'}}, "
	drifted = "resources: [{version: v1, kind: Service, namespace: web, name: a, status: Synced}, {group: apps, version: v1, kind: Deployment, namespace: web, name: hub, status: OutOfSync}], "
)

// TestArgoSaysWhatIsInTheWay: what is between a state and everything being deployed.
func TestArgoSaysWhatIsInTheWay(t *testing.T) {
	fine := app(argoRoot, "", synced)
	hub := func(status string) string { return fine + app("homelab-hub", "hub", status) }
	rooted := func(status string) string { return app(argoRoot, "", status) + app("homelab-hub", "hub", synced) }
	gone := "resources: [{group: argoproj.io, version: v1alpha1, kind: Application, namespace: argocd, name: homelab-hub, status: OutOfSync, requiresPruning: true}], "
	pruned := "resources: [{version: v1, kind: ConfigMap, namespace: web, name: a, status: OutOfSync, requiresPruning: true}], "
	for name, tt := range map[string]struct {
		there string
		says  []string // of the whole
		part  string   // of the part hub; empty: it is done
	}{
		"all is well":     {there: hub(synced + done)},
		"nothing changed": {there: hub(synced + before)},
		"nothing":         {says: []string{"gitrepo/homelab: "}, part: "GitRepo homelab"},
		"not read": {there: rooted("sync: {status: Unknown, revision: '" + older + "'}, conditions: [{type: ComparisonError, message: 'Failed to load target state: authentication required'}]"),
			says: []string{"Argo CD has not applied application " + argoRoot + ": Failed to load target state: authentication required", "gitrepo/homelab/commit: 222222222222"}, part: "authentication required"},
		"root unhealthy":  {there: rooted(strings.Replace(synced, "Healthy", "Degraded", 1))},
		"root behind":     {there: rooted(strings.Replace(synced, wanted, older, 1)), says: []string{"it is at commit 222222222222"}, part: "222222222222"},
		"a root behind":   {there: hub(synced) + app("homelab-git-more", "", strings.Replace(synced, wanted, older, 1)), says: []string{"application homelab-git-more: it is at commit 222222222222"}, part: "222222222222"},
		"no bundle":       {there: fine, says: []string{"no bundles"}, part: "a bundle of hub in Git"},
		"of somebody":     {there: hub(synced) + app("homelab-mine", "", "") + app("other", "hub", "")},
		"not seen yet":    {there: hub(""), says: []string{"bundle/hub: NotReady → Ready", "Argo CD has not processed it yet"}, part: "NotReady"},
		"older commit":    {there: hub(strings.Replace(synced, wanted, older, 1)), says: []string{"bundle/hub: Old → Ready", "it is at commit 222222222222, and Argo CD is still processing the next"}, part: "Old"},
		"cannot be built": {there: hub("sync: {status: Unknown, revision: ''}, conditions: [{type: ComparisonError, message: \"helm dependency build failed:\\nno such version\"}]"), says: []string{"bundle/hub: ErrApplied → Ready", "helm dependency build failed: no such version"}, part: "ErrApplied"},
		"is tried again": {there: hub(differs + "operationState: {phase: Running, finishedAt: '2026-11-29T10:00:00Z', retryCount: 2, message: 'one or more objects failed to apply. Retrying attempt #2 at 10:01AM.', " +
			"syncResult: {revision: '" + wanted + "', resources: [{group: apps, version: v1, kind: Deployment, namespace: web, name: hub, status: SyncFailed, message: denied by policy}, {version: v1, kind: Service, name: b, status: Synced}]}}"),
			says: []string{"bundle/hub: ErrApplied → Ready", "Retrying attempt #2", "deployment web/hub: denied by policy"}, part: "ErrApplied"},
		"gave up":          {there: hub(differs + "operationState: {phase: Failed, message: hook failed, syncResult: {revision: '" + wanted + "'}}"), says: []string{"bundle/hub: ErrApplied → Ready", "hook failed"}, part: "ErrApplied"},
		"failed before":    {there: hub(differs + drifted + "operationState: {phase: Failed, message: hook failed, syncResult: {revision: '" + older + "'}}"), says: []string{"bundle/hub: Old → Ready", "Argo CD is about to deploy it"}, part: "Old"},
		"is deployed":      {there: hub(differs + "operationState: {phase: Running, message: 'waiting for completion of hook batch/Job/a'}"), says: []string{"bundle/hub: NotReady → Ready", "waiting for completion of hook batch/Job/a"}, part: "NotReady"},
		"is to be":         {there: hub(differs + drifted + before), says: []string{"bundle/hub: Old → Ready", "Argo CD is about to deploy it"}, part: "Old"},
		"was changed":      {there: hub(differs + drifted + done), says: []string{"bundle/hub: Modified → Ready", "deployment web/hub: it differs from Git"}, part: "Modified"},
		"was removed":      {there: hub(differs + done + "resources: [{version: v1, kind: Service, namespace: web, name: a, status: OutOfSync, health: {status: Missing}}]"), says: []string{"service web/a: somebody removed it"}, part: "Modified"},
		"is not automatic": {there: fine + appOf("homelab-hub", "hub", "null", differs+drifted+done), says: []string{"bundle/hub: OutOfSync → Ready", "automatic sync is off"}, part: "OutOfSync"},
		"is switched off":  {there: fine + appOf("homelab-hub", "hub", "{enabled: false}", differs+drifted+before), says: []string{"bundle/hub: OutOfSync → Ready"}, part: "OutOfSync"},
		"keeps the rest":   {there: hub(differs + pruned + done)},
		"prunes the rest":  {there: hub(differs + pruned + before), says: []string{"Argo CD is about to deploy it"}, part: "Old"},
		"never prunes":     {there: fine + appOf("homelab-hub", "hub", "{prune: false}", differs+pruned+before)},
		"not compared":     {there: hub("sync: {status: Unknown, revision: '" + wanted + "'}"), says: []string{"Argo CD cannot compare it"}, part: "NotReady"},
		"does not run": {there: hub(strings.Replace(synced, "Healthy", "Degraded", 1) + done + "resources: [{group: apps, version: v1, kind: Deployment, namespace: web, name: hub, status: Synced, health: {status: Degraded, message: 'exceeded its progress deadline'}}]"),
			says: []string{"bundle/hub: NotReady → Ready", "deployment web/hub: exceeded its progress deadline"}, part: "NotReady"},
		"health elsewhere": {there: hub(strings.Replace(synced, "Healthy", "Progressing", 1)), says: []string{"bundle/hub: NotReady → Ready", "its health is Progressing"}, part: "NotReady"},
		"suspended":        {there: hub(strings.Replace(synced, "Healthy", "Suspended", 1))},
		"another part":     {there: hub(synced) + app("homelab-nfs", "nfs", "conditions: [{type: InvalidSpecError, message: no project}]"), says: []string{"bundle/nfs: ErrApplied → Ready", "no project"}},
		"kept": {there: appOf(argoRoot, "", "{prune: false}", differs+gone) + app("homelab-nfs", "nfs", synced) + app("homelab-hub", "hub", "conditions: [{type: ComparisonError, message: 'app path does not exist'}]"),
			part: "a bundle of hub in Git"},
		"kept, without a root": {there: app("homelab-hub", "hub", synced), says: []string{"gitrepo/homelab: "}, part: "GitRepo homelab"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).argo(t)
			if tt.there != "" {
				w.create(t, []byte(tt.there))
			}
			saysState(t, w, fleet.ToolArgo, tt.says, tt.part, strings.HasPrefix(name, "kept"))
		})
	}
}

// Without Argo CD's kinds there is nothing, and no error.
func TestArgoWhereNothingIs(t *testing.T) {
	s, err := fleet.Observe(t.Context(), newWorld(t).Client, fleet.StatusOptions{Tool: fleet.ToolArgo})
	require.NoError(t, err)
	assert.False(t, s.There)
	assert.Empty(t, s.Bundles)
	assert.NotEmpty(t, s.Diff())
}

// An Argo CD that is too old, or that changes the labels of what it deploys, is refused; so is a second one.
func TestArgoIsFit(t *testing.T) { synctest.Test(t, argoIsFit) }

func argoIsFit(t *testing.T) {
	w := newWorld(t)
	why, err := fleet.ToolArgo.UnreadyReason(t.Context(), w.Client)
	require.NoError(t, err)
	assert.Contains(t, why, "argocd-repo-server")

	ready := ""
	for kind, names := range map[string][]string{"Deployment": {"argocd-repo-server", "argocd-redis"}, "StatefulSet": {"argocd-application-controller"}} {
		for _, name := range names {
			ready += fmt.Sprintf("---\napiVersion: apps/v1\nkind: %s\nmetadata: {name: %s, namespace: argocd, annotations: {meta.helm.sh/release-name: argocd}}\n"+
				"spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}\n", kind, name)
		}
	}
	w.create(t, []byte(ready))
	w.argo(t)
	time.Sleep(time.Second) // for the controllers of workloads
	_, err = fleet.ToolArgo.UnreadyReason(t.Context(), w.Client)
	require.ErrorContains(t, err, "came with 3.2")

	refresh := map[string]any{"type": "object"}
	for _, key := range []string{"refresh", "retry", "syncPolicy", "spec"} {
		refresh = map[string]any{"type": "object", "properties": map[string]any{key: refresh}}
	}
	_, err = w.Apply(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "applications.argoproj.io"},
		"spec": map[string]any{"group": "argoproj.io", "scope": "Namespaced", "names": map[string]any{"kind": "Application", "plural": "applications", "singular": "application"},
			"versions": []any{map[string]any{"name": "v1alpha1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": refresh}}}}}})
	require.NoError(t, err)
	why, err = fleet.ToolArgo.UnreadyReason(t.Context(), w.Client)
	require.NoError(t, err)
	assert.Empty(t, why)

	w.create(t, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\ndata: {application.resourceTrackingMethod: label}\n"))
	_, err = fleet.ToolArgo.UnreadyReason(t.Context(), w.Client)
	require.ErrorContains(t, err, "tracks objects by label")

	require.NoError(t, fleet.CheckNoArgo(t.Context(), w.Client), "it is homelab's")
	w.create(t, []byte(strings.ReplaceAll(ready, "namespace: argocd", "namespace: gitops")))
	require.ErrorContains(t, fleet.CheckNoArgo(t.Context(), w.Client), "in the namespace gitops: write argocd.standalone: false")
}
