package lint

import (
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// fleetTypes are Fleet's own kinds.
var fleetTypes = map[string]reflect.Type{
	"GitRepo": reflect.TypeFor[v1alpha1.GitRepo](), "Bundle": reflect.TypeFor[v1alpha1.Bundle](), "Cluster": reflect.TypeFor[v1alpha1.Cluster](),
	"ClusterGroup": reflect.TypeFor[v1alpha1.ClusterGroup](), "HelmOp": reflect.TypeFor[v1alpha1.HelmOp](), "ImageScan": reflect.TypeFor[v1alpha1.ImageScan](),
	"GitRepoRestriction": reflect.TypeFor[v1alpha1.GitRepoRestriction](), "BundleNamespaceMapping": reflect.TypeFor[v1alpha1.BundleNamespaceMapping](),
	"ClusterRegistrationToken": reflect.TypeFor[v1alpha1.ClusterRegistrationToken](), "Schedule": reflect.TypeFor[v1alpha1.Schedule](), "Policy": reflect.TypeFor[v1alpha1.Policy](),
}

// checkFleetObjects judges GitRepos, HelmOps and the like, wherever they lie.
func (l *linter) checkFleetObjects() {
	all := slices.Clone(l.loose)
	for _, b := range l.bundles {
		all = append(all, b.objects...)
	}
	schemas := lintSchemas{}
	var repos, restrictions []*lintObject
	for _, o := range all {
		t, ok := fleetTypes[o.kind]
		if !ok || o.group() != "fleet.cattle.io" {
			continue
		}
		schema := schemas.of(t)
		if o.kind == "Policy" || o.kind == "Bundle" {
			schema = nil // newer keys than our types know, and too big to be written by hand
		}
		walk := &lintWalk{}
		walk.walk(o.node, schema, "", false)
		for _, m := range walk.out {
			l.misfit(o.file.name, m, o.kind)
		}
		switch o.kind {
		case "GitRepo":
			repos = append(repos, o)
			l.gitRepo(o)
		case "GitRepoRestriction":
			restrictions = append(restrictions, o)
			for _, n := range o.node.get("allowedRepoPatterns").list() {
				l.regex(o, n)
			}
		case "HelmOp":
			l.helmOp(o)
		case "ClusterGroup":
			l.selector(o.file.name, o.node.get("spec", "selector"))
		}
		for _, key := range []string{"pollingInterval", "imageScanInterval", "interval", "duration"} {
			l.interval(o, key)
		}
	}
	for _, repo := range repos {
		l.restricted(repo, restrictions)
	}
}

// goDuration is the rule of Fleet's CustomResourceDefinitions (gitrepo_types.go).
var goDuration = regexp.MustCompile(`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`)

func (l *linter) interval(o *lintObject, key string) {
	n := o.node.get("spec", key)
	if !n.set() || n.kind >= lintMap {
		return
	}
	switch d, err := time.ParseDuration(n.text); {
	case !goDuration.MatchString(n.text) || err != nil || n.kind != lintText && n.text != "0":
		l.add("interval", o.file.name, n.at, "%s: %s %q is no time: write 15s, 5m, 2h (no days, no bare numbers)", o, key, n.text)
	case key == "pollingInterval" && d > 0 && d < 5*time.Second:
		l.add("interval", o.file.name, n.at, "%s: %s %s asks the Git server all the time", o, key, n.text)
	}
}

func (l *linter) regex(o *lintObject, n *lintNode) {
	if _, err := regexp.Compile(n.str()); err != nil {
		l.add("regex", o.file.name, n.pos(), "%s: %v", o, err)
	}
}

func (l *linter) gitRepo(o *lintObject) {
	spec, file := o.node.get("spec"), o.file.name
	if spec.get("repo").str() == "" {
		l.add("gitrepo-no-repo", file, o.doc, "%s has no spec.repo", o)
	}
	if n := spec.get("helmRepoURLRegex"); n.str() != "" {
		l.regex(o, n)
	}
	for _, key := range []string{"helmSecretName", "helmSecretNameForPaths"} {
		if n := spec.get(key); key == "helmSecretName" && n.str() != "" && spec.get("helmRepoURLRegex").str() == "" {
			l.add("gitrepo-helm-secret", file, n.at, "%s: without helmRepoURLRegex the credentials of %s go to no chart repository", o, key)
		}
	}
	if n := spec.get("helmSecretName"); n.str() != "" && spec.get("helmSecretNameForPaths").str() != "" {
		l.add("gitrepo-two-helm-secrets", file, n.at, "%s: helmSecretName is not looked at beside helmSecretNameForPaths", o)
	}
	if n := spec.get("paths"); len(n.list()) > 0 && len(spec.get("bundles").list()) > 0 {
		l.add("gitrepo-paths-and-bundles", file, n.at, "%s: paths are not looked at beside bundles", o)
	}
	for _, n := range spec.get("paths").list() {
		if globNothing(strings.TrimLeft(n.str(), "/")) {
			l.add("gitrepo-path", file, n.at, "%s: the path %q names nothing", o, n.str())
		}
	}
	if n := spec.get("branch"); n.str() != "" && spec.get("revision").str() != "" {
		l.add("gitrepo-revision", file, n.at, "%s: branch is not followed beside revision", o)
	}
	l.gitTargets(o, spec)
}

// gitTargets: clusters are looked for in the GitRepo's own namespace, and where there
// are no targets in the group "default", which Fleet makes in fleet-local only
// (gitops/reconciler/targetsyaml.go, agentmanagement/controllers/bootstrap).
func (l *linter) gitTargets(o *lintObject, spec *lintNode) {
	var targets []lintTarget
	for _, n := range spec.get("targets").list() {
		targets = append(targets, lintTarget{"targets", n})
	}
	l.targetList(o.file.name, targets, false)
	switch ns := o.namespace; {
	case ns == "default", ns == "cattle-fleet-system", ns == "cattle-system", ns == "kube-system", ns == "cattle-fleet-local-system":
		l.add("gitrepo-namespace", o.file.name, o.node.get("metadata", "namespace").pos(), "%s: there are no clusters in the namespace %s", o, ns)
	case ns != "" && ns != "fleet-local" && len(targets) == 0:
		l.add("gitrepo-no-targets", o.file.name, o.doc, "%s has no targets, which means the cluster group \"default\": Fleet makes that in fleet-local only", o)
	case ns == "fleet-local":
		for _, t := range targets {
			if n := t.node.get("clusterName"); n.str() != "" && n.str() != "local" {
				l.add("gitrepo-namespace", o.file.name, n.at, "%s: in fleet-local there is one cluster, and it is called local", o)
			}
		}
	}
}

// restricted: gitops/reconciler/restrictions.go AuthorizeAndAssignDefaults.
func (l *linter) restricted(repo *lintObject, restrictions []*lintObject) {
	allowed := map[string][]string{}
	for _, r := range restrictions {
		if r.namespace == repo.namespace {
			for _, key := range []string{"allowedTargetNamespaces", "allowedServiceAccounts", "allowedRepoPatterns", "allowedClientSecretNames"} {
				for _, n := range r.node.get(key).list() {
					allowed[key] = append(allowed[key], n.str())
				}
			}
		}
	}
	spec := repo.node.get("spec")
	check := func(key, list string, must bool, match func(string) bool) {
		n := spec.get(key)
		if len(allowed[list]) == 0 || n.str() == "" && !must || slices.ContainsFunc(allowed[list], match) {
			return
		}
		at := n.pos()
		if n == nil {
			at = repo.doc
		}
		l.add("gitrepo-restricted", repo.file.name, at, "%s: %s %q is not among %s of the GitRepoRestriction: %s", repo, key, n.str(), list, strings.Join(allowed[list], ", "))
	}
	check("targetNamespace", "allowedTargetNamespaces", true, func(s string) bool { return s == spec.get("targetNamespace").str() })
	check("serviceAccount", "allowedServiceAccounts", false, func(s string) bool { return s == spec.get("serviceAccount").str() })
	check("clientSecretName", "allowedClientSecretNames", false, func(s string) bool { return s == spec.get("clientSecretName").str() })
	check("repo", "allowedRepoPatterns", true, func(s string) bool {
		re, err := regexp.Compile(s)
		return err != nil || re.MatchString(spec.get("repo").str())
	})
}

// helmOp: helmops/reconciler/helmop_controller.go validate.
func (l *linter) helmOp(o *lintObject) {
	h := o.node.get("spec", "helm")
	repo, ref, version := h.get("repo").str(), h.get("chart").str(), h.get("version").str()
	say := func(what string) { l.add("helmop-chart", o.file.name, h.pos(), "%s: %s", o, what) }
	switch {
	case !h.set():
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
