package reserved

import (
	"fmt"
	"strings"
)

// owner is the owner of a Helm release whose name no bundle may have: Fleet would take the
// release over, and delete it with the bundle.
type owner struct{ namespace, release, who string } // empty namespace: in any

// reservedReleases are the releases that Rancher and K3s create. Sources: rancher/rancher
// pkg/controllers/dashboard/{systemcharts,fleetcharts} and chart/; k3s manifests/traefik.yaml.
var reservedReleases = [...]owner{
	{"", "rancher", "Rancher's own: Fleet would delete the Rancher that runs it"},
	{"", "rancher-webhook", "Rancher's own"},
	{"", "rancher-provisioning-capi", "Rancher's own"},
	{"", "rancher-turtles", "Rancher's own"},
	{"", "remotedialer-proxy", "Rancher's own"},
	{"", "fleet", "Fleet's own: it would delete itself"},
	{"", "fleet-crd", "Fleet's own: every bundle would be deleted with it"},
	{"kube-system", "traefik", "K3s' own: change it by a HelmChartConfig"},
	{"kube-system", "traefik-crd", "K3s' own"},
}

// agentPrefix is the prefix by which Fleet recognizes its agent: a bundle with such a name is
// deployed again at every change and never removed (internal/cmd/agent/deployer/monitor,
// isAgent; internal/helmdeployer/delete.go).
const agentPrefix = "fleet-agent"

func Release(namespace, name string) error {
	if strings.HasPrefix(name, agentPrefix) {
		return fmt.Errorf("the name %s is Fleet's agent's: choose another", name)
	}
	for _, r := range reservedReleases {
		if r.release == name && (r.namespace == "" || r.namespace == namespace) {
			return fmt.Errorf("the release %s is %s; apply it directly or choose another name", name, r.who)
		}
	}
	return nil
}
