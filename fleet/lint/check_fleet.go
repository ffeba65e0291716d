package lint

import (
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// fleetTypes are Fleet's own kinds.
var fleetTypes = map[string]reflect.Type{
	"GitRepo": reflect.TypeFor[v1alpha1.GitRepo](), "Bundle": reflect.TypeFor[v1alpha1.Bundle](), "Cluster": reflect.TypeFor[v1alpha1.Cluster](),
	"ClusterGroup": reflect.TypeFor[v1alpha1.ClusterGroup](), "HelmOp": reflect.TypeFor[v1alpha1.HelmOp](), "ImageScan": reflect.TypeFor[v1alpha1.ImageScan](),
	"GitRepoRestriction": reflect.TypeFor[v1alpha1.GitRepoRestriction](), "BundleNamespaceMapping": reflect.TypeFor[v1alpha1.BundleNamespaceMapping](),
	"ClusterRegistrationToken": reflect.TypeFor[v1alpha1.ClusterRegistrationToken](), "Schedule": reflect.TypeFor[v1alpha1.Schedule](), "Policy": reflect.TypeFor[v1alpha1.Policy](),
}

// checkFleetObjects checks GitRepos, HelmOps and the like, in any folder.
func (l bundleCheck) checkFleetObjects() {
	all := l.allObjects()
	schemas := manifest.Schemas{}
	var repos, restrictions []*lintObject
	for _, o := range all {
		t, ok := fleetTypes[o.kind]
		if !ok || o.group() != "fleet.cattle.io" {
			continue
		}
		schema := schemas.SchemaOf(t)
		if o.kind == "Policy" || o.kind == "Bundle" {
			schema = nil // it has newer keys than our types, and is too large to be written by hand
		}
		walk := &manifest.Walk{}
		walk.Walk(o.node, schema, "", false)
		for _, m := range walk.Out {
			l.reportMisfit(o.file.name, m, o.kind)
		}
		switch o.kind {
		case "GitRepo":
			repos = append(repos, o)
			l.gitRepo(o)
		case "GitRepoRestriction":
			restrictions = append(restrictions, o)
			for _, n := range o.node.Get("allowedRepoPatterns").List() {
				l.regex(o, n)
			}
		case "HelmOp":
			l.helmOp(o)
		case "ClusterGroup":
			l.selector(o.file.name, o.node.Get("spec", "selector"))
		}
		for _, key := range []string{"pollingInterval", "imageScanInterval", "interval", "duration"} {
			l.interval(o, key)
		}
	}
	for _, repo := range repos {
		l.checkRestrictions(repo, restrictions)
	}
}

// goDuration is the rule of Fleet's CustomResourceDefinitions (gitrepo_types.go).
var goDuration = regexp.MustCompile(`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`)

func (l bundleCheck) interval(o *lintObject, key string) {
	n := o.node.Get("spec", key)
	if !n.Set() || n.Kind >= yamlnode.Map {
		return
	}
	switch d, err := time.ParseDuration(n.Text); {
	case !goDuration.MatchString(n.Text) || err != nil || n.Kind != yamlnode.Text && n.Text != "0":
		l.add("interval", o.file.name, n.At, "%s: %s %q is not a time: write 15s, 5m, 2h (no days, no bare numbers)", o, key, n.Text)
	case key == "pollingInterval" && d > 0 && d < 5*time.Second:
		l.add("interval", o.file.name, n.At, "%s: %s %s polls the Git server without a pause", o, key, n.Text)
	}
}

func (l bundleCheck) regex(o *lintObject, n *yamlnode.Node) {
	if _, err := regexp.Compile(n.Str()); err != nil {
		l.add("regex", o.file.name, n.Place(), "%s: %v", o, err)
	}
}

func (l bundleCheck) gitRepo(o *lintObject) {
	spec, file := o.node.Get("spec"), o.file.name
	if spec.Get("repo").Str() == "" {
		l.add("gitrepo-no-repo", file, o.doc, "%s has no spec.repo", o)
	}
	if n := spec.Get("helmRepoURLRegex"); n.Str() != "" {
		l.regex(o, n)
	}
	for _, key := range []string{"helmSecretName", "helmSecretNameForPaths"} {
		if n := spec.Get(key); key == "helmSecretName" && n.Str() != "" && spec.Get("helmRepoURLRegex").Str() == "" {
			l.add("gitrepo-helm-secret", file, n.At, "%s: without helmRepoURLRegex the credentials of %s go to no chart repository", o, key)
		}
	}
	if n := spec.Get("helmSecretName"); n.Str() != "" && spec.Get("helmSecretNameForPaths").Str() != "" {
		l.add("gitrepo-two-helm-secrets", file, n.At, "%s: helmSecretName is ignored beside helmSecretNameForPaths", o)
	}
	if n := spec.Get("paths"); len(n.List()) > 0 && len(spec.Get("bundles").List()) > 0 {
		l.add("gitrepo-paths-and-bundles", file, n.At, "%s: paths are ignored beside bundles", o)
	}
	for _, n := range spec.Get("paths").List() {
		if globNothing(strings.TrimLeft(n.Str(), "/")) {
			l.add("gitrepo-path", file, n.At, "%s: the path %q names nothing", o, n.Str())
		}
	}
	if n := spec.Get("branch"); n.Str() != "" && spec.Get("revision").Str() != "" {
		l.add("gitrepo-revision", file, n.At, "%s: branch is not followed beside revision", o)
	}
	l.gitTargets(o, spec)
}

// gitTargets: Fleet looks for clusters in the GitRepo's own namespace. No targets means the
// group "default", which Fleet creates only in fleet-local (gitops/reconciler/targetsyaml.go,
// agentmanagement/controllers/bootstrap).
func (l bundleCheck) gitTargets(o *lintObject, spec *yamlnode.Node) {
	var targets []lintTarget
	for _, n := range spec.Get("targets").List() {
		targets = append(targets, lintTarget{"targets", n})
	}
	l.targetList(o.file.name, targets, false)
	switch ns := o.namespace; {
	case ns == "default", ns == "cattle-fleet-system", ns == "cattle-system", ns == "kube-system", ns == "cattle-fleet-local-system":
		l.add("gitrepo-namespace", o.file.name, o.node.Get("metadata", "namespace").Place(), "%s: there are no clusters in the namespace %s", o, ns)
	case ns != "" && ns != "fleet-local" && len(targets) == 0:
		l.add("gitrepo-no-targets", o.file.name, o.doc, "%s has no targets, which means the cluster group \"default\": Fleet makes that in fleet-local only", o)
	case ns == "fleet-local":
		for _, t := range targets {
			if n := t.node.Get("clusterName"); n.Str() != "" && n.Str() != "local" {
				l.add("gitrepo-namespace", o.file.name, n.At, "%s: in fleet-local there is one cluster, and it is called local", o)
			}
		}
	}
}

// checkRestrictions: gitops/reconciler/restrictions.go AuthorizeAndAssignDefaults.
func (l bundleCheck) checkRestrictions(repo *lintObject, restrictions []*lintObject) {
	allowed := map[string][]string{}
	for _, r := range restrictions {
		if r.namespace == repo.namespace {
			for _, key := range []string{"allowedTargetNamespaces", "allowedServiceAccounts", "allowedRepoPatterns", "allowedClientSecretNames"} {
				for _, n := range r.node.Get(key).List() {
					allowed[key] = append(allowed[key], n.Str())
				}
			}
		}
	}
	spec := repo.node.Get("spec")
	check := func(key, list string, must bool, match func(string) bool) {
		n := spec.Get(key)
		if len(allowed[list]) == 0 || n.Str() == "" && !must || slices.ContainsFunc(allowed[list], match) {
			return
		}
		at := n.Place()
		if n == nil {
			at = repo.doc
		}
		l.add("gitrepo-restricted", repo.file.name, at, "%s: %s %q is not among %s of the GitRepoRestriction: %s", repo, key, n.Str(), list, strings.Join(allowed[list], ", "))
	}
	check("targetNamespace", "allowedTargetNamespaces", true, func(s string) bool { return s == spec.Get("targetNamespace").Str() })
	check("serviceAccount", "allowedServiceAccounts", false, func(s string) bool { return s == spec.Get("serviceAccount").Str() })
	check("clientSecretName", "allowedClientSecretNames", false, func(s string) bool { return s == spec.Get("clientSecretName").Str() })
	check("repo", "allowedRepoPatterns", true, func(s string) bool {
		re, err := regexp.Compile(s)
		return err != nil || re.MatchString(spec.Get("repo").Str())
	})
}

// helmOp: helmops/reconciler/helmop_controller.go validate.
func (l bundleCheck) helmOp(o *lintObject) {
	h := o.node.Get("spec", "helm")
	repo, ref, version := h.Get("repo").Str(), h.Get("chart").Str(), h.Get("version").Str()
	say := func(what string) { l.add("helmop-chart", o.file.name, h.Place(), "%s: %s", o, what) }
	switch {
	case !h.Set():
		l.add("helmop-chart", o.file.name, o.doc, "%s has no spec.helm", o)
	case strings.HasSuffix(strings.ToLower(ref), ".tgz"):
		if repo != "" || version != "" {
			say("a chart that is an archive has no repo and no version")
		}
	case strings.HasPrefix(strings.ToLower(repo), "oci://"):
		if ref != "" {
			say("an oci:// repo is the whole name of the chart: no chart beside it")
		}
	case ref == "":
		say("which chart of " + path.Base(repo) + "?")
	case repo == "":
		say("a chart needs a repo")
	}
}
