package pins

// line is what is known about a minor version of a part.
type line struct {
	name, minor string
	kubernetes  string // constraint
	fleet       string // minor version that a Rancher brings
}

// lines are the release lines that are known in addition to the pinned one.
//
// Rancher: kubeVersion of its chart at v2.15.0, v2.14.4, v2.13.8, v2.12.12 and v2.11.16, and
// fleetVersion in build.yaml there. The lower bounds are those of the Fleet that Rancher
// brings: annotation catalog.cattle.io/kube-version of charts/fleet at v0.16.1, v0.15.5,
// v0.14.9, v0.13.14 and v0.12.18. Read 2026-11-22.
//
// Longhorn: kubeVersion of its chart at v1.10.1, v1.11.0, v1.12.1; 1.13 second hand.
var lines = []line{
	{name: "rancher", minor: "2.15", kubernetes: ">=1.34.0-0 <1.37.0-0", fleet: "0.16"},
	{name: "rancher", minor: "2.14", kubernetes: ">=1.33.0-0 <1.36.0-0", fleet: "0.15"},
	{name: "rancher", minor: "2.13", kubernetes: ">=1.32.0-0 <1.35.0-0", fleet: "0.14"},
	{name: "rancher", minor: "2.12", kubernetes: ">=1.28.0-0 <1.34.0-0", fleet: "0.13"},
	{name: "rancher", minor: "2.11", kubernetes: ">=1.28.0-0 <1.33.0-0", fleet: "0.12"},

	{name: "fleet", minor: "0.16", kubernetes: ">=1.34.0-0 <1.37.0-0"},
	{name: "fleet", minor: "0.15", kubernetes: ">=1.33.0-0 <1.36.0-0"},
	{name: "fleet", minor: "0.14", kubernetes: ">=1.32.0-0 <1.35.0-0"},
	{name: "fleet", minor: "0.13", kubernetes: ">=1.28.0-0 <1.34.0-0"},
	{name: "fleet", minor: "0.12", kubernetes: ">=1.28.0-0 <1.33.0-0"},
	{name: "fleet-crd", minor: "0.16", kubernetes: ">=1.34.0-0 <1.37.0-0"},
	{name: "fleet-crd", minor: "0.15", kubernetes: ">=1.33.0-0 <1.36.0-0"},
	{name: "fleet-crd", minor: "0.14", kubernetes: ">=1.32.0-0 <1.35.0-0"},
	{name: "fleet-crd", minor: "0.13", kubernetes: ">=1.28.0-0 <1.34.0-0"},
	{name: "fleet-crd", minor: "0.12", kubernetes: ">=1.28.0-0 <1.33.0-0"},

	{name: "longhorn", minor: "1.13", kubernetes: ">=1.34.0-0"},
	{name: "longhorn", minor: "1.12", kubernetes: ">=1.25.0-0"},
	{name: "longhorn", minor: "1.11", kubernetes: ">=1.25.0-0"},
	{name: "longhorn", minor: "1.10", kubernetes: ">=1.25.0-0"},
}

// advice recommends a minimum version of a part.
type advice struct{ name, since, why string }

// advised: z2jh's changelog for 4.3.3, 4.3.4 and 4.4.0.
var advised = []advice{
	{name: "jupyterhub", since: "4.4.0", why: "has known security holes, closed in 4.3.3, 4.3.4 and 4.4.0"},
	{name: "cert-manager", since: "1.15.0", why: "knows no crds.enabled, which we set: its definitions would not be installed"},
}
