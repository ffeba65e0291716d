package operators

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/login"
)

func applications() kind { return kind{"argoproj.io", "v1alpha1", "applications"} }
func appProjects() kind  { return kind{"argoproj.io", "v1alpha1", "appprojects"} }

// argoPrograms is Argo CD's application controller with what it asks its repository server for, by the source
// of v3.4.4. What is not played is an error, as with Fleet and Flux.
func argoPrograms() []program {
	return []program{{name: "argocd-controller", image: "argoproj/argocd", is: func(c corev1.Container) bool { return c.Name == "application-controller" },
		watch: []kind{applications(), appProjects()}, sync: argoController},
		{name: "argocd-server", image: "argoproj/argocd", is: func(c corev1.Container) bool { return c.Name == "server" }, watch: []kind{}, sync: argoServer}}
}

// argoServer starts Argo CD's pages, once. The real server restarts when its configuration changes.
func argoServer(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		secrets := func(ctx context.Context) (map[string]string, error) {
			list, err := i.Client.CoreV1().Secrets(i.pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=argocd"})
			if err != nil {
				return nil, err
			}
			out := map[string]string{}
			for _, s := range list.Items {
				for key, value := range s.Data {
					out[s.Name+":"+key] = string(value)
				}
			}
			return out, nil
		}
		return &login.ArgoCD{Config: (&argo{instance: i}).config, Secrets: secrets, HTTP: i.Traffic.ByName, Now: time.Now}, nil
	})
}

// application is what of an Application is played, with the names of Argo CD's own types
// (pkg/apis/application/v1alpha1/types.go).
type application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Project     string     `json:"project"`
		Source      argoSource `json:"source"`
		Destination argoTarget `json:"destination"`
		SyncPolicy  struct {
			Automated *struct {
				Enabled  *bool `json:"enabled"`
				Prune    bool  `json:"prune"`
				SelfHeal bool  `json:"selfHeal"`
			} `json:"automated"`
			SyncOptions []string `json:"syncOptions"`
			Retry       struct {
				Limit   int64 `json:"limit"`
				Refresh bool  `json:"refresh"`
				Backoff struct {
					Duration    metav1.Duration `json:"duration"`
					Factor      int64           `json:"factor"`
					MaxDuration metav1.Duration `json:"maxDuration"`
				} `json:"backoff"`
			} `json:"retry"`
		} `json:"syncPolicy"`
		IgnoreDifferences []struct {
			Group        string   `json:"group"`
			Kind         string   `json:"kind"`
			JSONPointers []string `json:"jsonPointers"`
		} `json:"ignoreDifferences"`
	} `json:"spec"`
}

type argoSource struct {
	RepoURL        string `json:"repoURL"`
	TargetRevision string `json:"targetRevision"`
	Path           string `json:"path"`
	Helm           *struct {
		ReleaseName string `json:"releaseName"`
	} `json:"helm"`
}

type argoTarget struct {
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
}

// appProject says what its Applications may do.
type appProject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Description                string             `json:"description"`
		SourceRepos                []string           `json:"sourceRepos"`
		Destinations               []argoTarget       `json:"destinations"`
		ClusterResourceWhitelist   []metav1.GroupKind `json:"clusterResourceWhitelist"`
		NamespaceResourceWhitelist []metav1.GroupKind `json:"namespaceResourceWhitelist"`
	} `json:"spec"`
}

// argo is the controller's memory.
type argo struct {
	*instance
	jobs  jobs
	repos map[argoSource]*gitSeen // without path and helm
	seen  map[uid]*appSeen
}

// gitSeen is what was read of a branch.
type gitSeen struct {
	at     time.Time
	commit string
	files  fs.FS
	err    error
}

// appSeen is what an Application was compared with, and when it is to be compared again.
type appSeen struct {
	id   string
	next time.Time
}

func argoController(ctx context.Context, i *instance) (time.Duration, error) {
	a, ok := i.kept.(*argo)
	if !ok {
		a = &argo{instance: i, repos: map[argoSource]*gitSeen{}, seen: map[uid]*appSeen{}}
		i.kept = a
	}
	list, err := all[unstructured.Unstructured](i, applications())
	if err != nil {
		return 0, err
	}
	config, err := a.config(ctx, "argocd-cm")
	if err != nil {
		return 0, err
	}
	every, err := time.ParseDuration(config["timeout.reconciliation"])
	if err != nil {
		return 0, fmt.Errorf("timeout.reconciliation in argocd-cm: %w", err)
	}
	there := map[uid]bool{}
	for _, u := range list {
		if u.GetNamespace() != i.pod.Namespace {
			continue // it reads its own namespace only
		}
		there[u.GetUID()] = true
		if err := a.reconcile(ctx, u, every); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	a.jobs.keep(there)
	return time.Second, nil
}

// keep stops the jobs of objects that are gone.
func (j *jobs) keep(there map[uid]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, job := range j.of {
		if !there[id] {
			job.stop()
			delete(j.of, id)
		}
	}
}

// config reads one of Argo CD's ConfigMaps.
func (a *argo) config(ctx context.Context, name string) (map[string]string, error) {
	c, err := a.Client.CoreV1().ConfigMaps(a.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("argo cd's configuration: %w", err)
	}
	return c.Data, nil
}

// reconcile compares one Application with Git, when it is due, and starts a sync where that is automatic.
func (a *argo) reconcile(ctx context.Context, u *unstructured.Unstructured, every time.Duration) error {
	app, err := strictly[application](u)
	if err == nil {
		err = a.permitted(app)
	}
	if err != nil {
		return a.cannot(ctx, u, "InvalidSpecError", err)
	}
	git := a.read(ctx, app, every)
	seen := a.seen[u.GetUID()]
	id := fmt.Sprintf("%+v %s %v %s", app.Spec, git.commit, git.err, object.Text(u, "status", "operationState", "phase"))
	if seen != nil && seen.id == id && time.Now().Before(seen.next) {
		return nil
	}
	now := &appSeen{id: id, next: time.Now().Add(every)}
	a.seen[u.GetUID()] = now
	build, err := a.build(ctx, app, git)
	if err != nil {
		return a.cannot(ctx, u, "ComparisonError", fmt.Errorf("Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = %w", err))
	}
	c, err := a.compare(ctx, u, app, build)
	if err != nil {
		return a.cannot(ctx, u, "ComparisonError", err)
	}
	if c.health != "Healthy" {
		now.next = time.Now().Add(2 * time.Second)
	}
	conditions := []any{}
	if why := a.autoSync(ctx, u, app, build, c); why != "" {
		conditions = append(conditions, map[string]any{"type": "SyncError", "message": why})
	}
	return a.say(ctx, u, map[string]any{"sync": map[string]any{"status": c.sync, "revision": build.commit},
		"health": map[string]any{"status": c.health}, "resources": c.resources, "conditions": conditions})
}

// cannot says why an Application cannot be compared.
func (a *argo) cannot(ctx context.Context, u *unstructured.Unstructured, condition string, why error) error {
	return a.say(ctx, u, map[string]any{"sync": map[string]any{"status": "Unknown", "revision": object.Text(u, "status", "sync", "revision")},
		"conditions": []any{map[string]any{"type": condition, "message": why.Error()}}})
}

// say replaces some keys of a status. The kind has no separate one.
func (a *argo) say(ctx context.Context, u *unstructured.Unstructured, keys map[string]any) error {
	keys, err := object.Normalized(keys)
	if err != nil {
		return err
	}
	client := a.Dynamic.Resource(applications().gvr()).Namespace(u.GetNamespace())
	for {
		now, err := client.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil || now.GetUID() != u.GetUID() {
			return gone(err)
		}
		old, _, _ := unstructured.NestedMap(now.Object, "status")
		status := runtime.DeepCopyJSON(old)
		if status == nil {
			status = map[string]any{}
		}
		maps.Copy(status, keys)
		if reflect.DeepEqual(old, status) {
			return nil
		}
		now.Object["status"] = status
		if _, err = client.Update(ctx, now, metav1.UpdateOptions{FieldManager: a.program.name}); !apierrors.IsConflict(err) {
			return gone(err)
		}
	}
}

// permitted refuses what the project does not allow, and what is not played.
func (a *argo) permitted(app *application) error {
	u, err := one[unstructured.Unstructured](a.instance, appProjects(), app.Namespace, app.Spec.Project)
	if err != nil {
		return err
	}
	if u == nil {
		return fmt.Errorf("Application referencing project %s which does not exist", app.Spec.Project)
	}
	p, err := strictly[appProject](u)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(p.Spec.SourceRepos, func(s string) bool { return s == "*" || s == app.Spec.Source.RepoURL }) {
		return fmt.Errorf("application repo %s is not permitted in project '%s'", app.Spec.Source.RepoURL, p.Name)
	}
	to := app.Spec.Destination
	if !slices.ContainsFunc(p.Spec.Destinations, func(d argoTarget) bool {
		return d.Server == to.Server && (d.Namespace == "*" || d.Namespace == to.Namespace)
	}) {
		return fmt.Errorf("application destination server '%s' and namespace '%s' do not match any of the allowed destinations in project '%s'", to.Server, to.Namespace, p.Name)
	}
	for _, option := range app.Spec.SyncPolicy.SyncOptions {
		if !slices.Contains([]string{"CreateNamespace=true", "ServerSideApply=true", "FailOnSharedResource=true", "RespectIgnoreDifferences=true"}, option) {
			err = errors.Join(err, errors.New("the Argo CD of the lab does not play this: sync option "+option))
		}
	}
	if auto := app.Spec.SyncPolicy.Automated; auto != nil && auto.SelfHeal || len(app.Finalizers) > 0 {
		err = errors.Join(err, errors.New("the Argo CD of the lab does not play this: selfHeal, and finalizers"))
	}
	return err
}

// read reads the branch of an Application, when it is due. A branch is read once for all.
func (a *argo) read(ctx context.Context, app *application, every time.Duration) *gitSeen {
	key := argoSource{RepoURL: app.Spec.Source.RepoURL, TargetRevision: app.Spec.Source.TargetRevision}
	if seen := a.repos[key]; seen != nil && time.Since(seen.at) < every {
		return seen
	}
	seen := &gitSeen{at: time.Now()}
	a.repos[key] = seen
	from, err := a.access(ctx, app)
	if err == nil {
		seen.commit, seen.files, err = clone(ctx, from)
	}
	seen.err = err
	return seen
}

// access finds the login of a repository among Argo CD's Secrets, and how its server is recognized among its
// ConfigMaps (docs/operator-manual/declarative-setup.md).
func (a *argo) access(ctx context.Context, app *application) (*git.CloneOptions, error) {
	s := app.Spec.Source
	out := &git.CloneOptions{URL: s.RepoURL, ReferenceName: plumbing.NewBranchReferenceName(s.TargetRevision)}
	u, err := url.Parse(s.RepoURL)
	if err != nil {
		return nil, err
	}
	trusted, err := a.config(ctx, "argocd-tls-certs-cm")
	if err != nil {
		return nil, err
	}
	hosts, err := a.config(ctx, "argocd-ssh-known-hosts-cm")
	if err != nil {
		return nil, err
	}
	out.CABundle = []byte(trusted[u.Hostname()])
	secrets, err := a.Client.CoreV1().Secrets(a.pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type=repository"})
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets.Items {
		d := secret.Data
		if string(d["url"]) != s.RepoURL || len(d["project"]) > 0 && string(d["project"]) != app.Spec.Project {
			continue
		}
		out.Auth, err = gitAuth(s.RepoURL, map[string][]byte{"username": d["username"], "password": d["password"], "identity": d["sshPrivateKey"],
			"known_hosts": []byte(hosts["ssh_known_hosts"])})
		return out, err
	}
	return out, nil
}
