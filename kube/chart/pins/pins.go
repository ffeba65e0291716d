package pins

import (
	"slices"
	"strings"
)

// Pin is a chart at the version that we install.
type Pin struct {
	Name       string // its name in this project, e.g. "nfs"
	Chart      string // name of the chart in Repo, e.g. "csi-driver-nfs"
	Repo       string // https://… or oci://…
	Version    string // exact
	App        string // version of what it installs, if that differs
	Kubernetes string // constraint on Kubernetes, as semver reads it, e.g. ">=1.34.0-0 <1.37.0-0"
	Source     string // where Kubernetes and the version were read, and when
	Digest     string // sha256:… of the archive; empty: not known
}

// All returns the table, by name.
func All() []Pin { return slices.Clone(table) }

// Of finds a pin by the name of a part or of its chart.
func Of(name string) (Pin, bool) {
	for _, p := range table {
		if p.Name == name || p.Chart == name {
			return p, true
		}
	}
	return Pin{}, false
}

// Digest returns the digest of a chart's archive by version and repository, sha256:…, or "" if
// it is not known.
func Digest(chart, repo, version string) string {
	for _, p := range table {
		if p.Chart == chart && strings.TrimSuffix(p.Repo, "/") == strings.TrimSuffix(repo, "/") && strings.TrimPrefix(p.Version, "v") == strings.TrimPrefix(version, "v") {
			return p.Digest
		}
	}
	return ""
}

// table is sorted by name. "pinned" is the newest version seen in public, "read" is
// the version whose Chart.yaml and values we have read.
var table = []Pin{
	{
		Name: "cephfs", Chart: "ceph-csi-cephfs", Repo: "https://ceph.github.io/csi-charts",
		Version: "3.16.3",
		Source:  "pinned: ceph-csi's issues and documentation, 2026-09-01; read: 3.12.2 of 2024-09-06, two years older; its Chart.yaml names no Kubernetes version",
	},
	{
		Name: "cert-manager", Chart: "cert-manager", Repo: "https://charts.jetstack.io",
		Version: "v1.21.2", Kubernetes: ">=1.22.0-0",
		Source: "pinned: Go module proxy, 2026-09-10; read: v1.21.1 of 2026-07-29, Chart.yaml",
	},
	{
		Name: "cilium", Chart: "cilium", Repo: "https://helm.cilium.io",
		Version: "1.20.2", Kubernetes: ">=1.21.0-0",
		Source: "pinned: Go module proxy, 2026-09-15; read: 1.20.0 of 2026-07-29, Chart.yaml",
	},
	{
		Name: "dcgm-exporter", Chart: "dcgm-exporter", Repo: "https://nvidia.github.io/dcgm-exporter/helm-charts",
		Version: "4.8.2", App: "4.5.3-4.8.2", Kubernetes: ">=1.19.0-0",
		Source: "pinned and read: tag 4.5.3-4.8.2 of 2026-05-06, Chart.yaml; digest: archive and index.yaml of its branch gh-pages",
		Digest: "sha256:1c5535c03ebab3f021444df6016fce1cd7871385122e115c6ed24c804b623803",
	},
	{
		Name: "fleet", Chart: "fleet", Repo: "https://rancher.github.io/fleet-helm-charts",
		Version: "0.16.2", Kubernetes: ">=1.34.0-0 <1.37.0-0",
		Source: "pinned: Rancher 2.15.2's release notes, autumn 2026; read: 0.16.1 of 2026-08-19, annotation catalog.cattle.io/kube-version",
	},
	{
		Name: "fleet-crd", Chart: "fleet-crd", Repo: "https://rancher.github.io/fleet-helm-charts",
		Version: "0.16.2", Kubernetes: ">=1.34.0-0 <1.37.0-0",
		Source: "as fleet, whose version it must have",
	},
	{
		Name: "gpu-operator", Chart: "gpu-operator", Repo: "https://helm.ngc.nvidia.com/nvidia",
		Version: "v26.7.2", Kubernetes: ">=1.16.0-0",
		Source: "pinned: an advisory of 2026-10-21; read: v26.7.0 of 2026-08-20, Chart.yaml",
	},
	{
		Name: "jupyterhub", Chart: "jupyterhub", Repo: "https://hub.jupyter.org/helm-chart/",
		Version: "4.4.2", App: "5.5.0", Kubernetes: ">=1.28.0-0",
		Source: "pinned: image references of autumn 2026; read: 4.4.0 of 2026-06-10, Chart.yaml (its appVersion too)",
	},
	{
		Name: "kueue", Chart: "kueue", Repo: "oci://registry.k8s.io/kueue/charts",
		Version: "0.19.2", App: "v0.19.2", Kubernetes: ">=1.29.0-0",
		Source: "pinned and read: tag v0.19.2 of 2026-08-20, charts/kueue; its README names Kubernetes and the registry",
	},
	{
		Name: "longhorn", Chart: "longhorn", Repo: "https://charts.longhorn.io",
		Version: "1.13.0", App: "v1.13.0", Kubernetes: ">=1.34.0-0",
		Source: "pinned and Kubernetes: release notes of 2026-09-29, second hand; read: 1.12.1 of 2026-08-14, whose Chart.yaml says >=1.25",
	},
	{
		Name: "metallb", Chart: "metallb", Repo: "https://metallb.github.io/metallb",
		Version: "0.16.2", App: "v0.16.2", Kubernetes: ">=1.19.0-0",
		Source: "pinned: MetalLB's documentation, 2026-11-04; read: 0.16.1 of 2026-05-27, Chart.yaml",
	},
	{
		Name: "monitoring", Chart: "kube-prometheus-stack", Repo: "https://prometheus-community.github.io/helm-charts",
		Version: "92.1.0", App: "v0.94.1", Kubernetes: ">=1.25.0-0",
		Source: "pinned: references of October 2026; read: 88.5.3 of 2026-08-21, Chart.yaml, four major versions older",
	},
	{
		Name: "nfs", Chart: "csi-driver-nfs", Repo: "https://raw.githubusercontent.com/kubernetes-csi/csi-driver-nfs/master/charts",
		Version: "4.13.4",
		Source:  "pinned and read: v4.13.4 of 2026-07-01; its Chart.yaml names no Kubernetes version; digest: archive and index.yaml of its branch master",
		Digest:  "sha256:3b923d981776f37b19808a3ad790d88517ff437ffce6fa1b97e3a10bb5f771a6",
	},
	{
		Name: "rancher", Chart: "rancher", Repo: "https://releases.rancher.com/server-charts/latest",
		Version: "2.15.2", App: "v2.15.2", Kubernetes: ">=1.34.0-0 <1.37.0-0",
		Source: "pinned: image references of September 2026; read: 2.15.0 of 2026-07-30, Chart.yaml says <1.37, the Fleet it brings says >=1.34",
	},
	{
		Name: "scratch", Chart: "local-path-provisioner", Repo: "oci://ghcr.io/rancher/local-path-provisioner/charts",
		Version: "0.0.37", App: "v0.0.37", Kubernetes: ">=1.12.0-0",
		Source: "pinned and read: v0.0.37 of 2026-08-05, Chart.yaml; the project pushes its chart there (.github/workflows/helm-release.yml)",
	},
	{
		Name: "velero", Chart: "velero", Repo: "https://vmware-tanzu.github.io/helm-charts",
		Version: "12.1.0", App: "1.18.1", Kubernetes: ">=1.16.0-0",
		Source: "pinned and read: velero-12.1.0 of 2026-06-25, Chart.yaml; velero itself is at 1.18.4 since October 2026; digest: index.yaml of its branch gh-pages",
		Digest: "sha256:cd23589ad1b2d25cdd3220f6866b3f6f4c5683c4c09494e76a14700b33f81f83",
	},
}
