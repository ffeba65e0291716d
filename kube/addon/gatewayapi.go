package addon

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon/internal/gatewayapi"
	"github.com/cps-gpu/homelab/kube/chart"
)

// GatewayAPI has the definitions of the Gateway API for [Cilium]. Its operator looks for them once, when it starts, and
// without them serves no Gateway until it restarts (cilium 1.20.2, operator/pkg/gateway-api/cell.go, discoverCRDsWithRetry).
//
// K3s brings them after the network. Up to 1.36 its chart traefik-crd has them, which cannot leave them out: it has no
// values (k3s-io/k3s-charts). Helm takes over only what names that release as its owner. The chart gateway-api-crd of 1.37
// takes over everything (manifests/gateway-api-crd.yaml, takeOwnership). Both keep them when they leave.
type GatewayAPI struct{ spec.Ingress }

func (g GatewayAPI) Info() Info {
	return Info{Name: "gateway-api", Section: "ingress", On: g.ByCilium(), NeverInFleet: "Cilium needs it, and no pod has a network before that"}
}

func (GatewayAPI) Make(s *Site) (Recipe, error) {
	owner := "traefik-crd"
	if s.NoTraefik {
		owner = ""
	}
	wanted, err := gatewayapi.Definitions(owner)
	if err != nil {
		return Recipe{}, err
	}
	// Keep: without the definitions all Gateways and routes would be gone.
	p := Recipe{Network: true, TriedBy: "ingress", Part: chart.Part{Name: "gateway-api", Keep: true}}
	for _, d := range wanted {
		p.After = append(p.After, d)
	}
	p.Stays = newerDefinition
	return p, nil
}

// newerDefinition reports whether the cluster has a definition that is newer than ours, such as K3s'.
func newerDefinition(ctx context.Context, client *kube.Client, wanted runtime.Object) (bool, error) {
	live := wanted.DeepCopyObject().(*unstructured.Unstructured)
	if err := client.Get(ctx, live); errors.Is(err, kube.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return gatewayapi.IsNewer(live), nil
}
