package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/repo"
	records "helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cps-gpu/homelab/sim/lab/charts"
	"github.com/cps-gpu/homelab/sim/lab/fleetread"
)

// What Fleet writes into the metadata of every chart that it deploys, to recognize its
// releases (fleet v0.16.1 internal/helmdeployer/deployer.go).
const (
	bundleMark = "fleet.cattle.io/bundle-id"
	keepMark   = "fleet.cattle.io/keep-resources"
)

// reach lets Helm connect to the lab's cluster: without a file, and with the kinds that are
// served now, not at the program's start.
type reach struct {
	config    *rest.Config
	namespace string
	found     discovery.CachedDiscoveryInterface
}

func newReach(config *rest.Config, namespace string) (*reach, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 300
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	return &reach{config, namespace, memory.NewMemCacheClient(client)}, nil
}

func (r *reach) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(r.config), nil }

func (r *reach) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) { return r.found, nil }

func (r *reach) ToRESTMapper() (meta.RESTMapper, error) {
	return restmapper.NewDeferredDiscoveryRESTMapper(r.found), nil
}

func (r *reach) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: r.namespace}})
}

// helm is Helm in a namespace, with its own code.
func (i *instance) helm(namespace string) (*action.Configuration, *kube.Client, error) {
	r, err := newReach(i.Config, namespace)
	if err != nil {
		return nil, nil, err
	}
	cfg := &action.Configuration{}
	err = cfg.Init(r, namespace, "secrets", func(format string, args ...any) { i.Log.Debug("helm: " + fmt.Sprintf(format, args...)) })
	if err != nil {
		return nil, nil, fmt.Errorf("helm: %w", err)
	}
	client, ok := cfg.KubeClient.(*kube.Client)
	if !ok {
		return nil, nil, fmt.Errorf("helm: %T is not the client of Helm that this is written for", cfg.KubeClient)
	}
	client.Namespace = namespace
	return cfg, client, nil
}

// helmRun is one run of helm install or helm upgrade, whichever the cluster needs.
type helmRun struct {
	name, namespace string
	chart           *chart.Chart
	values          map[string]any
	options         api.HelmOptions
	makeNamespace   bool
	wait            time.Duration // for what it makes; 0: not at all
	history         int
	after           postrender.PostRenderer
}

// install installs or upgrades a bundle's release (fleet v0.16.1
// internal/helmdeployer/install.go): an upgrade works from any state and takes over existing
// objects; hooks have 30 s unless a time is set.
func (g *deployer) install(ctx context.Context, b *fleetread.Bundle, r fleetread.Release) error {
	ch, err := g.chartOf(b, r)
	if err != nil {
		return err
	}
	made, err := g.deployRelease(ctx, helmRun{name: r.Name, namespace: r.Namespace, chart: ch, values: r.Values, options: r.Options, makeNamespace: true,
		wait: r.Timeout, history: cmp.Or(r.Options.MaxHistory, 2), after: &afterRender{files: ch.Files, bundle: b.Name, release: r, mapper: g.Mapper}})
	if err != nil {
		return err
	}
	const patience = 5 * time.Minute // the real agent does not wait, and reports each object's state
	return g.settled(ctx, made, patience)
}

// deployRelease installs a release, or upgrades the one that is there, also one that failed or was
// interrupted.
func (i *instance) deployRelease(ctx context.Context, r helmRun) (*release.Release, error) {
	cfg, _, err := i.helm(r.namespace)
	if err != nil {
		return nil, err
	}
	last, err := cfg.Releases.Last(r.name)
	if err != nil && !errors.Is(err, records.ErrReleaseNotFound) {
		return nil, fmt.Errorf("release %s: %w", r.name, err)
	}
	const hooks = 30 * time.Second
	timeout := cmp.Or(r.wait, hooks)
	if err != nil {
		u := action.NewInstall(cfg)
		u.ReleaseName, u.Namespace, u.CreateNamespace, u.Replace = r.name, r.namespace, r.makeNamespace, true
		u.TakeOwnership, u.Force, u.Atomic = r.options.TakeOwnership, r.options.Force, r.options.Atomic
		u.Timeout, u.Wait, u.WaitForJobs = timeout, r.wait > 0, r.options.WaitForJobs
		u.SkipSchemaValidation, u.PostRenderer = r.options.SkipSchemaValidation, r.after
		return u.RunWithContext(ctx, r.chart, r.values)
	}
	if last.Info.Status.IsPending() { // there is only one agent, so its owner has ended
		last.SetStatus(release.StatusFailed, "it was interrupted")
		if err := cfg.Releases.Update(last); err != nil {
			return nil, fmt.Errorf("release %s: %w", r.name, err)
		}
	}
	u := action.NewUpgrade(cfg)
	u.Namespace, u.TakeOwnership, u.Force, u.Atomic = r.namespace, true, r.options.Force, r.options.Atomic
	u.Timeout, u.Wait, u.WaitForJobs = timeout, r.wait > 0, r.options.WaitForJobs
	u.SkipSchemaValidation, u.PostRenderer, u.MaxHistory = r.options.SkipSchemaValidation, r.after, r.history
	return u.RunWithContext(ctx, r.name, r.chart, r.values)
}

// settled waits until a release's objects are ready.
func (i *instance) settled(ctx context.Context, made *release.Release, patience time.Duration) error {
	objects, err := i.resources(made.Namespace, made.Manifest)
	if err != nil {
		return fmt.Errorf("release %s: %w", made.Name, err)
	}
	for until := time.Now().Add(patience); ; {
		waits := i.unready(ctx, objects)
		switch {
		case len(waits) == 0:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("not ready: %s", strings.Join(waits, ", "))
		}
		if !pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("not ready: %s: %w", strings.Join(waits, ", "), context.Cause(ctx))
		}
	}
}

// resources are the objects of a manifest, as Helm reaches them.
func (i *instance) resources(namespace, manifest string) (kube.ResourceList, error) {
	_, client, err := i.helm(namespace)
	if err != nil {
		return nil, err
	}
	return client.Build(strings.NewReader(manifest), false)
}

// unready names the objects that Helm would wait for.
func (i *instance) unready(ctx context.Context, objects kube.ResourceList) []string {
	check := kube.NewReadyChecker(i.Client, nil, kube.PausedAsReady(true))
	var waits []string
	for _, o := range objects {
		if ok, err := check.IsReady(ctx, o); !ok || err != nil {
			waits = append(waits, strings.ToLower(o.Mapping.GroupVersionKind.Kind)+" "+o.Name)
		}
	}
	return waits
}

// chartOf loads a bundle's chart, and marks it as Fleet does.
func (g *deployer) chartOf(b *fleetread.Bundle, r fleetread.Release) (*chart.Chart, error) {
	files := r.Files
	if r.Remote != nil {
		var err error
		if files, err = remoteChart(*r.Remote); err != nil {
			return nil, err
		}
	}
	ch, err := loadChart(files)
	if err != nil {
		return nil, err
	}
	if len(ch.Metadata.Dependencies) > 0 {
		if err := action.CheckDependencies(ch, ch.Metadata.Dependencies); err != nil {
			return nil, err
		}
	}
	ch.Metadata.Annotations = maps.Clone(ch.Metadata.Annotations)
	if ch.Metadata.Annotations == nil {
		ch.Metadata.Annotations = map[string]string{}
	}
	ch.Metadata.Annotations[bundleMark] = b.Name
	ch.Metadata.Annotations[keepMark] = fmt.Sprint(b.Options.KeepResources)
	return ch, nil
}

func loadChart(files map[string][]byte) (*chart.Chart, error) {
	var in []*loader.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		in = append(in, &loader.BufferedFile{Name: name, Data: files[name]})
	}
	return loader.LoadFiles(in)
}

// remoteChart finds a chart among the lab's stand-ins, whatever the repository. Its version
// must match the requested one.
func remoteChart(r fleetread.Remote) (map[string][]byte, error) {
	files, err := charts.Of(r.Chart)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve URL of repo=%s chart=%s version=%s: %w", r.Repo, r.Chart, r.Version, err)
	}
	ch, err := loadChart(files)
	if err != nil {
		return nil, err
	}
	index := repo.NewIndexFile()
	if err := index.MustAdd(ch.Metadata, path.Base(r.Chart)+".tgz", r.Repo, ""); err != nil {
		return nil, err
	}
	if _, err := index.Get(r.Chart, r.Version); err != nil {
		return nil, fmt.Errorf("failed to resolve URL of repo=%s chart=%s version=%s: %w", r.Repo, r.Chart, r.Version, err)
	}
	return files, nil
}

// uninstall removes the release of a deleted bundle: all its objects, or, with keepResources,
// only Helm's record, if the release has the bundle's name (fleet v0.16.1
// internal/helmdeployer/delete.go, deleteByRelease and deleteHistory). A release that is not
// the bundle's is left alone.
func (g *deployer) uninstall(bundle, namespace, name string) error {
	cfg, _, err := g.helm(namespace)
	if err != nil {
		return err
	}
	all, err := cfg.Releases.History(name)
	if errors.Is(err, records.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release %s/%s: %w", namespace, name, err)
	}
	all = slices.DeleteFunc(all, func(r *release.Release) bool { return r.Chart.Metadata.Annotations[bundleMark] != bundle })
	if len(all) == 0 {
		return nil
	}
	if all[0].Chart.Metadata.Annotations[keepMark] == "true" {
		for _, r := range all {
			if r.Name != bundle {
				continue
			}
			if _, err := cfg.Releases.Delete(r.Name, r.Version); err != nil {
				return fmt.Errorf("release %s/%s: %w", namespace, name, err)
			}
		}
		return nil
	}
	u := action.NewUninstall(cfg)
	u.Timeout = 30 * time.Second
	if _, err := u.Run(name); err != nil {
		return fmt.Errorf("failed to delete release %s: %w", name, err)
	}
	return nil
}
