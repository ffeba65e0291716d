package gitops

import "time"

// StatusFlags are the flags of fleet:status.
type StatusFlags struct {
	Timeout time.Duration // 15m: wait until everything is deployed, at most this long
}

// LintFlags are the flags of fleet:lint; lists are separated by commas.
type LintFlags struct {
	Dir       string // FOLDER: the repository, or a part of it; default: the current folder
	Paths     string // A,B: folders of bundles, as in spec.paths of the GitRepo
	Repo      string // GITREPO: name of the GitRepo
	Clusters  string // FILE|NAMES: a file with a list of {name, labels, groups}, or names
	Elsewhere string // BUNDLES: names of bundles from other repositories
	Releases  string // NAMESPACE/NAME: Helm releases that the clusters have already
	Charts    string // FOLDER: take charts from here
	SARIF     string // FILE: write the findings here, as SARIF
	Level     string // info|warning|error: the least severe finding to show; default: warning
	Online    bool   // ask the repositories of charts
	JSON      bool   // print findings as lines of JSON
}
