package pins

// Pin is a chart at the version that we install.
type Pin struct {
	Name       string // how parts of this project call it, e.g. "rancher"
	Chart      string // name of the chart in Repo
	Repo       string // https://… or oci://…
	Version    string // exact
	App        string // version of what it installs, where that differs
	Kubernetes string // constraint on Kubernetes, as semver reads it, e.g. ">=1.34.0-0 <1.37.0-0"
	Source     string // where Kubernetes and the version were read, and when
}
