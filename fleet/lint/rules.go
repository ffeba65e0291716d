package lint

import "slices"

// Rule is a row of the table of rules.
type Rule struct {
	ID       string
	Severity Severity
	Failure  string // the kind of failure of a cluster that it catches, F1 to F9; empty: found in Fleet's source
	Summary  string // one line
	Cure     string // what to do
	Source   string // its source; paths are those of github.com/rancher/fleet at v0.16.1
}

// Rules lists all rules, in the order of the documentation.
func Rules() []Rule {
	return slices.Concat(lintRulesFile[:], lintRulesNames[:], lintRulesCharts[:], lintRulesTargets[:], lintRulesObjects[:], lintRulesFleet[:], lintRulesGitOps[:])
}

func lintRuleIndex() map[string]Rule {
	index := map[string]Rule{}
	for _, r := range Rules() {
		index[r.ID] = r
	}
	return index
}

// lintRulesFile are the rules about the contents and place of a fleet.yaml.
var lintRulesFile = [...]Rule{
	{"unknown-key", Failure, "F6", "A key that Fleet does not know is dropped silently.",
		"correct the key, or remove it", "internal/bundlereader/read.go bundleFromDir (yaml.Unmarshal, not strict); pkg/apis fleetyaml.go"},
	{"key-case", Warning, "", "A key in the wrong case works in a fleet.yaml by accident, and in no other object.",
		"write the key as Fleet's documentation does", "internal/bundlereader/read.go bundleFromDir (encoding/json matches without regard to case)"},
	{"duplicate-key", Failure, "", "A key that occurs twice: the last one wins silently.",
		"keep one of them", "internal/bundlereader/read.go bundleFromDir (sigs.k8s.io/yaml, not strict)"},
	{"wrong-type", Failure, "", "A value of the wrong kind: Fleet refuses the file, and the whole GitRepo stops.",
		"write the value as its kind demands", "internal/bundlereader/read.go bundleFromDir"},
	{"lossy-text", Failure, "", "Text without quotes that YAML reads as a number or a truth value becomes other text: 1.10 is 1.1, yes is true.",
		"put it in quotes", "internal/bundlereader/read.go bundleFromDir (sigs.k8s.io/yaml yaml.go convertToJSONableObject formats numbers again where text is wanted)"},
	{"images-off", Warning, "", "imageScans stop the whole GitRepo if image scanning is off, which is the default of Fleet's chart.",
		"remove imageScans, or set imagescan.enabled in the values of Fleet's chart", "internal/bundlereader/read.go bundleFromDir (ImagescanEnabled); charts/fleet/values.yaml"},
	{"second-document", Failure, "", "Fleet reads only the first document of a fleet.yaml.",
		"keep one document; make another folder for another bundle", "internal/bundlereader/read.go bundleFromDir"},
	{"two-fleet-yamls", Warning, "", "fleet.yml beside fleet.yaml is not read.",
		"keep fleet.yaml", "internal/bundlereader/read.go setupIOReader"},
	{"inert-key", Warning, "", "A key that Fleet sets itself, whatever its value.",
		"remove it", "internal/bundlereader/read.go bundleFromDir; internal/cmd/cli/apply/apply.go writeBundle"},
	{"inert-target-key", Failure, "F6", "A key that works at the top of fleet.yaml and is dropped from a target, because Fleet's merge ignores it.",
		"set it at the top of fleet.yaml, or make a second bundle for those clusters", "internal/cmd/controller/options/calculate.go Merge"},
	{"dash-clears-nothing", Failure, "", "\"-\" in a target was meant to clear a value, and becomes the value.",
		"omit the value at the top, and set it in the targets that need it", "internal/cmd/controller/options/calculate.go Merge (the branch for \"-\" is never reached)"},
	{"target-namespace-labels", Warning, "", "namespaceLabels and namespaceAnnotations of any target go to all clusters.",
		"set them at the top of fleet.yaml, or make a second bundle", "internal/cmd/controller/target/target.go BundleDeployment (a loop over all targets)"},
	{"bad-label", Failure, "", "Labels of a fleet.yaml become labels of the Bundle, and Kubernetes refuses invalid ones.",
		"letters, digits, hyphens, underscores and dots; 63 at most", "internal/bundlereader/read.go bundleFromDir"},
	{"yaml-syntax", Failure, "", "A file that is not YAML stops its bundle.",
		"look for a missing blank after a colon, an unclosed quote or bracket, or a wrong indent, here or in the line before", "internal/bundlereader/read.go bundleFromDir; internal/helmdeployer/rawyaml/resources.go ToObjects"},
	{"unread", Warning, "", "A document that is nested too deep, or has too many anchors, to be read by this linter, or that keeps a kustomization from being built: nothing in it is checked.",
		"write it with less nesting and fewer anchors", "this linter (internal/yamlnode): such files exist to exhaust what reads them"},
	{"ignore-glob", Failure, "", "An invalid pattern in .fleetignore stops the bundle.",
		"close the bracket, or escape it with a backslash", "internal/bundlereader/loaddirectory.go isIgnored (filepath.Match)"},
	{"ignore-pattern", Warning, "", "Patterns of .fleetignore differ from those of .gitignore: a path never matches, and ! includes nothing again.",
		"write the last part of the path (*.md), or FOLDER/* for folders of that name", "internal/bundlereader/loaddirectory.go isIgnored (only the last part of a path is compared)"},
	{"lint-ignore", Warning, "", "A fleet-lint comment that does not count: no reason, or no such rule.",
		"write # fleet-lint: ignore=RULE and why", "this linter"},
	{"nested-bundle", Warning, "F5", "A fleet.yaml above others: the outer bundle contains the files of the inner ones, and a driven scan finds none of them.",
		"put bundles beside each other, with no fleet.yaml above them", "internal/cmd/cli/apply/apply.go CreateBundles, CreateBundlesDriven; internal/bundlereader/loaddirectory.go GetContent"},
	{"empty-bundle", Warning, "", "A folder with a fleet.yaml and nothing to deploy is skipped without an error.",
		"add manifests, or name a chart, or remove the folder", "internal/cmd/cli/apply/apply.go bundleFromDir (ErrNoResources)"},
	{"bundle-size", Failure, "", "A bundle is one object of the cluster, and etcd accepts no larger one.",
		"take charts from their repository instead of the folder, or exclude files with .fleetignore, or let Fleet store bundles in an OCI registry", "internal/bundlereader/read.go loadBundle"},
	{"symlink-outside", Failure, "", "A symbolic link that leaves the bundle's folder stops the bundle.",
		"put a copy in the folder", "internal/bundlereader/loaddirectory.go GetContent"},
}

// lintRulesNames are the rules about names and dependencies.
var lintRulesNames = [...]Rule{
	{"reserved-name", Failure, "F1", "A release of another owner: Fleet takes it over, and deletes it with the bundle.",
		"give the bundle another name, or helm.releaseName another one; do not touch Rancher, Fleet and K3s", "internal/helmdeployer/install.go configureUpgradeAction (TakeOwnership is always on); delete.go; cmd/agent/deployer/monitor/updatestatus.go isAgent"},
	{"bundle-name", Failure, "", "A name in fleet.yaml that Kubernetes refuses.",
		"a-z, 0-9, hyphens and dots; 63 at most", "internal/bundlereader/read.go bundleFromDir (the name is taken as it is)"},
	{"bundle-name-long", Warning, "", "A name in fleet.yaml that cannot be a release's name: Helm uses another one.",
		"53 letters at most: a-z, 0-9 and hyphens; or set helm.releaseName", "internal/helmdeployer/deployer.go getOpts; internal/names/name.go HelmReleaseName"},
	{"duplicate-bundle-name", Failure, "", "Two folders become one bundle: the one that is written last wins.",
		"give each bundle a name of its own", "internal/cmd/cli/apply/apply.go CreateBundles (a map by name, written in any order)"},
	{"release-name", Failure, "", "A helm.releaseName that Helm refuses.",
		"53 letters at most: a-z, 0-9, hyphens and dots, no dot or hyphen at the ends", "pkg/apis bundledeployment_types.go HelmOptions.ReleaseName (validation)"},
	{"release-collision", Failure, "", "Two bundles with one release: each deletes what the other created.",
		"give one of them another helm.releaseName or another namespace", "internal/helmdeployer/deployer.go getOpts; install.go mustInstall"},
	{"depends-on-unknown", Failure, "F2", "dependsOn names a bundle that nothing creates: the bundle waits forever.",
		"write the bundle's name as Fleet makes it (GitRepo, path, joined by hyphens), or set name: in its fleet.yaml; name a bundle of another repository with -elsewhere", "internal/cmd/agent/deployer/deployer.go checkDependency"},
	{"depends-on-selector", Failure, "F2", "dependsOn labels that no bundle has: the bundle waits forever.",
		"add the labels to the other bundle's fleet.yaml, under labels:", "internal/cmd/agent/deployer/deployer.go checkDependency"},
	{"depends-on-empty", Failure, "", "A dependency without name and selector: Fleet refuses the bundle.",
		"write name: or selector:", "internal/bundlereader/validate_fleetyaml.go validateBundleRef"},
	{"accepted-states", Failure, "F2", "An unknown state: Fleet refuses the bundle.",
		"Ready, NotReady, Pending, OutOfSync, Modified, WaitApplied or ErrApplied", "internal/bundlereader/validate_fleetyaml.go validateBundleRef; pkg/apis bundle_types.go StateRank"},
	{"depends-on-modified", Info, "F2", "Without acceptedStates only Ready counts: drift in one bundle blocks all that depend on it.",
		"acceptedStates: [Ready, Modified], where drift does not matter", "internal/cmd/agent/deployer/deployer.go isStateAccepted"},
	{"depends-on-cycle", Failure, "F2", "Bundles that wait for each other.",
		"remove one of the dependencies", "internal/cmd/agent/deployer/deployer.go checkDependency"},
	{"namespace-cluster-scoped", Failure, "F4", "namespace: with an object that belongs to no namespace: Fleet refuses the bundle.",
		"write defaultNamespace: instead of namespace:", "internal/helmdeployer/postrender.go Run"},
	{"two-namespaces", Warning, "F4", "defaultNamespace beside namespace has no effect.",
		"keep one of them", "internal/namespaces/namespaces.go GetDeploymentNS"},
	{"namespace-labels", Warning, "", "namespaceLabels replace all labels of the namespace, including Rancher's.",
		"set them from one bundle, and only on a namespace that is its own; or put the Namespace object in the bundle", "internal/cmd/agent/deployer/deployer.go addLabelsFromOptions"},
	{"namespace-pod-security", Warning, "", "Labels of pod security in namespaceLabels are never set.",
		"put the Namespace object with these labels in the bundle", "internal/cmd/agent/deployer/deployer.go addLabelsFromOptions"},
}
