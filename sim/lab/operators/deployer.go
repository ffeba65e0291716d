package operators

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// clusterNamespace is where Fleet keeps what it deploys to its own cluster.
const clusterNamespace = "cluster-fleet-local-local-1a3d67d0a899"

// deployer deploys bundles to the cluster.
type deployer struct {
	*instance
	repos map[uid]*repoSeen

	mu    sync.Mutex
	state map[string]*progress // by bundle
}

// progress is the state of one bundle.
type progress struct {
	id      string // of what is deployed, or being deployed
	running bool
	err     error
	done    bool
}

func newDeployer(ctx context.Context, i *instance) (*deployer, error) {
	if err := i.apply(ctx, object.New("v1", "Namespace", "", clusterNamespace, nil)); err != nil {
		return nil, err
	}
	return &deployer{instance: i, repos: map[uid]*repoSeen{}, state: map[string]*progress{}}, nil
}

// temporary writes a file that only we can read.
func temporary(data []byte) (string, error) {
	f, err := os.CreateTemp("", "known-hosts-")
	if err != nil {
		return "", fmt.Errorf("known_hosts: %w", err)
	}
	defer f.Close()
	_, err = f.Write(data)
	return f.Name(), err
}

// busy reports whether a deployment is in progress.
func (g *deployer) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.state {
		if d.running || !d.done {
			return true
		}
	}
	return false
}

// reconcile brings one GitRepo's bundles a step further and writes its status.
func (g *deployer) reconcile(ctx context.Context, repo *api.GitRepo) error {
	seen := g.repos[repo.UID]
	if !seen.blocked() && !repo.Spec.Paused {
		for n := range seen.bundles {
			if err := g.bundle(ctx, repo, seen, &seen.bundles[n]); err != nil {
				return err
			}
		}
		if seen.commit != "" {
			if err := g.prune(ctx, repo, seen); err != nil {
				return err
			}
		}
	}
	return g.repoStatus(ctx, repo, seen)
}

func (g *deployer) repoStatus(ctx context.Context, repo *api.GitRepo, seen *repoSeen) error {
	obj, err := one[unstructured.Unstructured](g.instance, gitRepos(), repo.Namespace, repo.Name)
	if err != nil || obj == nil {
		return err
	}
	ready, why := 0, ""
	for _, b := range seen.bundles {
		g.mu.Lock()
		d := g.state[b.Name]
		if d != nil && d.done && d.err == nil {
			ready++
		} else if why == "" {
			why = "NotReady(1) [Bundle " + b.Name + "]"
		}
		g.mu.Unlock()
	}
	total := len(seen.bundles)
	whole := [4]string{"Ready", "True", "", ""}
	if ready < total || seen.jobErr != nil || total == 0 {
		whole = [4]string{"Ready", "False", "", why}
	}
	poll, stalled, job := [4]string{"GitPolling", "True", "", ""}, [4]string{"Stalled", "False", "", ""}, "Current"
	if seen.pollErr != nil {
		poll = [4]string{"GitPolling", "False", "", seen.pollErr.Error()}
	}
	if seen.jobErr != nil {
		stalled, job = [4]string{"Stalled", "True", "", seen.jobErr.Error()}, "Failed"
	}
	if seen.commit == "" {
		job = ""
	}
	clusters := 0
	if ready == total && total > 0 {
		clusters = 1
	}
	return g.patchStatus(ctx, obj, map[string]any{
		"commit": seen.commit, "gitJobStatus": job, "observedGeneration": repo.Generation,
		"summary":       map[string]any{"desiredReady": total, "ready": ready, "notReady": total - ready},
		"readyClusters": clusters, "desiredReadyClusters": 1,
		"display":    map[string]any{"readyBundleDeployments": fmt.Sprintf("%d/%d", ready, total)},
		"conditions": setConditions(obj, whole, [4]string{"Accepted", "True", "", ""}, poll, stalled, [4]string{"Reconciling", "False", "", ""}),
	})
}

// bundle makes the objects of a bundle, and deploys it when its dependencies exist.
func (g *deployer) bundle(ctx context.Context, repo *api.GitRepo, seen *repoSeen, b *fleetread.Bundle) error {
	id := identity(b)
	all := map[string]any{"fleet.cattle.io/repo-name": repo.Name, "fleet.cattle.io/commit": seen.commit}
	for key, value := range b.Labels {
		all[key] = value
	}
	depends := []any{}
	for _, d := range b.Options.DependsOn {
		depends = append(depends, d)
	}
	obj := object.New("fleet.cattle.io/v1alpha1", "Bundle", repo.Namespace, b.Name, map[string]any{
		"metadata": map[string]any{"labels": all},
		"spec":     map[string]any{"defaultNamespace": b.Options.DefaultNamespace, "dependsOn": depends, "targets": []any{map[string]any{"clusterName": "local"}}},
	})
	marks := map[string]any{"fleet.cattle.io/bundle-name": b.Name, "fleet.cattle.io/bundle-namespace": repo.Namespace,
		"fleet.cattle.io/cluster": "local", "fleet.cattle.io/cluster-namespace": repo.Namespace}
	for key, value := range all {
		marks[key] = value
	}
	on := object.New("fleet.cattle.io/v1alpha1", "BundleDeployment", clusterNamespace, b.Name, map[string]any{
		"metadata": map[string]any{"labels": marks}, "spec": map[string]any{"deploymentID": id, "stagedDeploymentID": id, "options": map[string]any{"keepResources": b.Options.KeepResources}},
	})
	if err := g.apply(ctx, obj, on); err != nil {
		return err
	}
	waits, err := g.waitsFor(ctx, repo.Namespace, b)
	if err != nil {
		return err
	}
	g.begin(ctx, b, id, waits)
	return g.bundleStatus(ctx, repo, b, id, waits)
}

// identity identifies the contents of a bundle.
func identity(b *fleetread.Bundle) string {
	sum := sha256.New()
	fmt.Fprint(sum, plainJSON(b.Options))
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		fmt.Fprintf(sum, "\x00%s\x00%s", name, b.Files[name])
	}
	return "s-" + hex.EncodeToString(sum.Sum(nil))[:32] + ":" + hex.EncodeToString(sum.Sum(nil))[32:]
}

// waitsFor says in Fleet's words which bundles must exist first: all bundles of the cluster
// that a name or a selector matches, in an accepted state (fleet v0.16.1
// internal/cmd/agent/deployer/deployer.go, checkDependency).
func (g *deployer) waitsFor(ctx context.Context, namespace string, b *fleetread.Bundle) (string, error) {
	var pending []string
	for _, d := range b.Options.DependsOn {
		wanted := &metav1.LabelSelector{}
		if d.Selector != nil {
			wanted = d.Selector.DeepCopy()
		}
		if d.Name != "" {
			wanted = metav1.AddLabelToSelector(wanted, api.BundleLabel, d.Name)
			wanted = metav1.AddLabelToSelector(wanted, api.BundleNamespaceLabel, namespace)
		}
		selector, err := metav1.LabelSelectorAsSelector(wanted)
		if err != nil {
			return err.Error(), nil
		}
		found, err := g.Dynamic.Resource(bundleDeployments().gvr()).Namespace(clusterNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return "", fmt.Errorf("bundles: %w", err)
		}
		if len(found.Items) == 0 {
			return fmt.Sprintf("list bundledeployments: no bundles matching labels %s in namespace %s", selector, namespace), nil
		}
		for n := range found.Items {
			if !accepted(stateOf(&found.Items[n]), d.AcceptedStates) {
				pending = append(pending, found.Items[n].GetName())
			}
		}
	}
	if len(pending) == 0 {
		return "", nil
	}
	return fmt.Sprintf("dependent bundle(s) are not ready: %v", pending), nil
}

func accepted(state api.BundleState, states []api.BundleState) bool {
	return slices.Contains(states, state) || len(states) == 0 && state == api.Ready
}

// stateOf is the part of a bundle's state that the lab has (fleet v0.16.1
// internal/cmd/controller/summary, GetDeploymentState).
func stateOf(on *unstructured.Unstructured) api.BundleState {
	ready, _, _ := unstructured.NestedBool(on.Object, "status", "ready")
	switch {
	case object.Text(on, "status", "appliedDeploymentID") != object.Text(on, "spec", "deploymentID"):
		return api.WaitApplied
	case !ready:
		return api.NotReady
	}
	return api.Ready
}

// begin deploys a bundle in the background, once for each content, and retries a while after a
// failure.
func (g *deployer) begin(ctx context.Context, b *fleetread.Bundle, id, waits string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.state[b.Name]
	if d == nil {
		d = &progress{}
		g.state[b.Name] = d
	}
	if d.running || waits != "" || d.id == id && d.done && d.err == nil {
		return
	}
	d.id, d.running, d.done = id, true, false
	g.all.Go(func() {
		err := g.deploy(ctx, b, id)
		if err != nil {
			pause(ctx, 5*time.Second) // Fleet's agent backs off too
		}
		g.mu.Lock()
		d.running, d.done, d.err = false, err == nil, err
		g.mu.Unlock()
	})
}

func (g *deployer) bundleStatus(ctx context.Context, repo *api.GitRepo, b *fleetread.Bundle, id, waits string) error {
	on, err := g.Dynamic.Resource(bundleDeployments().gvr()).Namespace(clusterNamespace).Get(ctx, b.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	g.mu.Lock()
	d := *g.state[b.Name]
	g.mu.Unlock()
	up := d.id == id && d.done && d.err == nil
	deployed := [4]string{"Deployed", "True", "", ""}
	switch {
	case waits != "":
		deployed = [4]string{"Deployed", "False", "Error", waits}
	case d.err != nil:
		deployed = [4]string{"Deployed", "False", "Error", d.err.Error()}
	case !up:
		deployed = [4]string{"Deployed", "Unknown", "", "it is being deployed"}
	}
	word := map[bool]string{true: "True", false: "False"}[up]
	status := map[string]any{"ready": up, "nonModified": true, "conditions": setConditions(on,
		[4]string{"Installed", word, "", ""}, deployed, [4]string{"Ready", word, "", ""}, [4]string{"Monitored", "True", "", ""})}
	if up {
		status["appliedDeploymentID"] = id
	}
	if r, err := b.Release(); err == nil {
		status["release"] = r.Namespace + "/" + r.Name + ":1"
	}
	if err := g.patchStatus(ctx, on, status); err != nil {
		return err
	}
	obj, err := g.Dynamic.Resource(bundles().gvr()).Namespace(repo.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	n := map[bool]int{true: 1}[up]
	return g.patchStatus(ctx, obj, map[string]any{"observedGeneration": obj.GetGeneration(), "summary": map[string]any{"desiredReady": 1, "ready": n},
		"conditions": setConditions(obj, [4]string{"Ready", word, "", deployed[3]})})
}

func bundleDeployments() kind { return kind{"fleet.cattle.io", "v1alpha1", "bundledeployments"} }

// deploy deploys a bundle to the cluster, and waits until its objects are ready.
func (g *deployer) deploy(ctx context.Context, b *fleetread.Bundle, id string) error {
	r, err := b.Release()
	if err != nil {
		return err
	}
	on, err := g.Dynamic.Resource(bundleDeployments().gvr()).Namespace(clusterNamespace).Get(ctx, b.Name, metav1.GetOptions{})
	if err == nil && object.Text(on, "status", "appliedDeploymentID") == id && g.deployed(r) {
		return nil // by an earlier lab
	}
	if err := g.install(ctx, b, r); err != nil {
		return err
	}
	return g.namespace(ctx, b, r.Namespace)
}

// deployed reports whether Helm has a complete release.
func (g *deployer) deployed(r fleetread.Release) bool {
	cfg, _, err := g.helm(r.Namespace)
	if err != nil {
		return false
	}
	last, err := cfg.Releases.Last(r.Name)
	return err == nil && last.Info.Status == release.StatusDeployed
}

// namespace sets the labels and annotations of a release's namespace that the bundle names,
// and removes all others, except those of pod security (fleet v0.16.1
// internal/cmd/agent/deployer/deployer.go, setNamespaceLabelsAndAnnotations).
func (g *deployer) namespace(ctx context.Context, b *fleetread.Bundle, name string) error {
	o := b.Options
	if len(o.NamespaceLabels) == 0 && len(o.NamespaceAnnotations) == 0 {
		return nil
	}
	ns, err := g.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	if len(o.NamespaceLabels) > 0 {
		labels := map[string]string{}
		for key, value := range o.NamespaceLabels {
			if !strings.HasPrefix(key, podSecurity) {
				labels[key] = value
			}
		}
		for key, value := range ns.Labels {
			if strings.HasPrefix(key, podSecurity) || key == corev1.LabelMetadataName {
				labels[key] = value
			}
		}
		ns.Labels = labels
	}
	if len(o.NamespaceAnnotations) > 0 {
		ns.Annotations = maps.Clone(o.NamespaceAnnotations)
	}
	if _, err := g.Client.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}

const podSecurity = "pod-security.kubernetes.io/"

// plainJSON is a value as JSON says it.
func plainJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
