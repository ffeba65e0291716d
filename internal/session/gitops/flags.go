package gitops

import "time"

// StatusFlags are the flags of fleet:status.
type StatusFlags struct {
	Timeout time.Duration `help:"15m: wait until everything is deployed, at most this long"`
}

// LintFlags are the flags of fleet:lint; lists are separated by commas.
type LintFlags struct {
	Dir       string `help:"FOLDER: the repository, or a part of it; default: the current folder"`
	Paths     string `help:"A,B: folders of bundles, as in spec.paths of the GitRepo"`
	Repo      string `help:"GITREPO: name of the GitRepo"`
	Spec      string `help:"FILE: the file of the cluster that the repository is for; with it, namespaces and the taints of nodes with GPUs are checked"`
	Clusters  string `help:"FILE|NAMES: a file with a list of {name, labels, groups}, or names"`
	Elsewhere string `help:"BUNDLES: names of bundles from other repositories"`
	Releases  string `help:"NAMESPACE/NAME: Helm releases that the clusters have already"`
	Charts    string `help:"FOLDER: take charts from here"`
	SARIF     string `help:"FILE: write the findings here, as SARIF"`
	Level     string `help:"info|warning|error: the least severe finding to show; default: warning"`
	Online    bool   `help:"ask the repositories of charts"`
	JSON      bool   `help:"print findings as lines of JSON"`
}
