package operators

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/lab/charts"
)

// clusterNamespace is where Fleet keeps what it deploys to its own cluster.
const clusterNamespace = "cluster-fleet-local-local-1a3d67d0a899"

// deployer brings bundles into the cluster.
type deployer struct {
	*instance
	kube  *kube.Client
	chart *chart.Client
	repos map[uid]*repoSeen

	mu    sync.Mutex
	state map[string]*progress // by bundle
}

// progress is how one bundle is.
type progress struct {
	id      string // of what is deployed, or is being
	running bool
	err     error
	done    bool
}

func newDeployer(ctx context.Context, i *instance) (*deployer, error) {
	client, err := kube.New(kube.Config{Kubeconfig: i.Kubeconfig, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, i.Address)
	}})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fleet-charts-")
	if err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("charts: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = client.Close(); _ = os.RemoveAll(dir) })
	if err := charts.Write(filepath.Join(dir, "charts")); err != nil {
		return nil, err
	}
	if err := i.apply(ctx, object("v1", "Namespace", "", clusterNamespace, nil)); err != nil {
		return nil, err
	}
	return &deployer{
		instance: i, kube: client, chart: chart.NewClient(client, chart.Source{Folder: filepath.Join(dir, "charts"), Offline: true}),
		repos: map[uid]*repoSeen{}, state: map[string]*progress{},
	}, nil
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

// busy reports whether something is under way.
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
	if seen.jobErr == nil && !repo.Spec.Paused {
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

// bundle makes the objects of a bundle, and deploys it when what it depends on is there.
func (g *deployer) bundle(ctx context.Context, repo *api.GitRepo, seen *repoSeen, b *fleet.BundleSource) error {
	id := identity(seen.commit, b)
	all := map[string]any{"fleet.cattle.io/repo-name": repo.Name, "fleet.cattle.io/commit": seen.commit}
	for key, value := range b.YAML.Labels {
		all[key] = value
	}
	depends := []any{}
	for _, d := range b.YAML.DependsOn {
		depends = append(depends, d)
	}
	obj := object("fleet.cattle.io/v1alpha1", "Bundle", repo.Namespace, b.Name, map[string]any{
		"metadata": map[string]any{"labels": all},
		"spec":     map[string]any{"defaultNamespace": b.YAML.DefaultNamespace, "dependsOn": depends, "targets": []any{map[string]any{"clusterName": "local"}}},
	})
	marks := map[string]any{"fleet.cattle.io/bundle-name": b.Name, "fleet.cattle.io/bundle-namespace": repo.Namespace,
		"fleet.cattle.io/cluster": "local", "fleet.cattle.io/cluster-namespace": repo.Namespace}
	for key, value := range all {
		marks[key] = value
	}
	on := object("fleet.cattle.io/v1alpha1", "BundleDeployment", clusterNamespace, b.Name, map[string]any{
		"metadata": map[string]any{"labels": marks}, "spec": map[string]any{"deploymentID": id, "stagedDeploymentID": id, "options": map[string]any{"keepResources": b.YAML.KeepResources}},
	})
	if err := g.apply(ctx, obj, on); err != nil {
		return err
	}
	waits := g.waitsFor(seen, b)
	g.begin(ctx, seen, b, id, waits)
	return g.bundleStatus(ctx, repo, b, id, waits)
}

// identity names what a bundle deploys: another content is another.
func identity(_ string, b *fleet.BundleSource) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s", plainJSON(b.YAML))
	for _, r := range b.Resources {
		_, _ = fmt.Fprintf(sum, "\x00%s\x00%s", r.Name, r.Data)
	}
	return "s-" + hex.EncodeToString(sum.Sum(nil))[:32] + ":" + hex.EncodeToString(sum.Sum(nil))[32:]
}

// waitsFor says in Fleet's words which bundles must be there first.
func (g *deployer) waitsFor(seen *repoSeen, b *fleet.BundleSource) string {
	var missing []string
	for _, d := range b.YAML.DependsOn {
		found := false
		for _, other := range seen.bundles {
			match := d.Name != "" && other.Name == d.Name
			if d.Selector != nil {
				s, err := metav1.LabelSelectorAsSelector(d.Selector)
				match = match || err == nil && s.Matches(labels.Set(other.YAML.Labels))
			}
			if !match {
				continue
			}
			found = true
			g.mu.Lock()
			state := g.state[other.Name]
			if state == nil || !state.done || state.err != nil {
				missing = append(missing, other.Name)
			}
			g.mu.Unlock()
		}
		if !found {
			return fmt.Sprintf("no bundles matching labels %s in namespace %s", d.Name, fleetLocalNamespace)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("dependent bundle(s) are not ready: %v", missing)
}

// begin deploys a bundle in the background, once for each content, and again a while
// after it failed.
func (g *deployer) begin(ctx context.Context, seen *repoSeen, b *fleet.BundleSource, id, waits string) {
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
	d.id, d.running = id, true
	files := seen.files
	g.all.Go(func() {
		err := g.deploy(ctx, files, b)
		if err != nil {
			pause(ctx, 5*time.Second) // Fleet's agent backs off too
		}
		g.mu.Lock()
		d.running, d.done, d.err = false, err == nil, err
		g.mu.Unlock()
	})
}

func (g *deployer) bundleStatus(ctx context.Context, repo *api.GitRepo, b *fleet.BundleSource, id, waits string) error {
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
	if r, ok, err := release(g.filesOf(repo), b); err == nil && ok {
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

func (g *deployer) filesOf(repo *api.GitRepo) fs.FS { return g.repos[repo.UID].files }

func bundleDeployments() kind { return kind{"fleet.cattle.io", "v1alpha1", "bundledeployments"} }

// deploy brings a bundle's chart or manifests into the cluster, and waits for them.
func (g *deployer) deploy(ctx context.Context, files fs.FS, b *fleet.BundleSource) error {
	if r, ok, err := release(files, b); err != nil || ok {
		if err != nil {
			return err
		}
		have, err := g.chart.Observe(ctx, r)
		if err != nil {
			return err
		}
		return g.chart.Apply(ctx, r, have)
	}
	objs, err := manifests(b)
	if err != nil {
		return err
	}
	if ns := namespaceOf(b); ns != "" && ns != "default" {
		if err := g.apply(ctx, object("v1", "Namespace", "", ns, nil)); err != nil {
			return err
		}
	}
	_, err = g.kube.Apply(ctx, objs...)
	return err
}

func namespaceOf(b *fleet.BundleSource) string {
	if b.YAML.TargetNamespace != "" {
		return b.YAML.TargetNamespace
	}
	if b.YAML.DefaultNamespace != "" {
		return b.YAML.DefaultNamespace
	}
	return "default"
}

// release is what a bundle with a chart asks of Helm.
func release(files fs.FS, b *fleet.BundleSource) (chart.Release, bool, error) {
	h := b.YAML.Helm
	if h == nil || h.Chart == "" {
		return chart.Release{}, false, nil
	}
	values, err := b.Values(files)
	if err != nil {
		return chart.Release{}, true, err
	}
	name := h.ReleaseName
	if name == "" {
		name = b.Name
	}
	r := chart.Release{Name: name, Namespace: namespaceOf(b), Chart: path.Base(h.Chart), Version: h.Version, Values: values, Timeout: 5 * time.Minute}
	if h.TimeoutSeconds > 0 {
		r.Timeout = time.Duration(h.TimeoutSeconds) * time.Second
	}
	return r, true, nil
}

// manifests are the objects of a bundle without a chart.
func manifests(b *fleet.BundleSource) ([]runtime.Object, error) {
	var out []runtime.Object
	for _, r := range b.Resources {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(r.Name)) || strings.HasPrefix(path.Base(r.Name), "fleet.") {
			continue
		}
		objs, err := documents(bytes.TrimSpace(r.Data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		for _, o := range objs {
			if o.GetNamespace() == "" {
				o.SetNamespace(namespaceOf(b))
			}
			out = append(out, o)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no resource found in the bundle")
	}
	return out, nil
}
