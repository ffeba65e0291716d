package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
)

// gpuHint is what a pod needs to get a GPU of the first node that has one, as lines of its spec; ""
// if no node has one.
func gpuHint(want *spec.Spec) string {
	all := want.GPUNodes()
	if len(all) == 0 {
		return ""
	}
	var tolerations []string
	for _, t := range all[0].Taints {
		tolerations = append(tolerations, fmt.Sprintf("{key: %q, operator: Exists, effect: %s}", t.Key, t.Effect))
	}
	resource := slices.Min(slices.Collect(maps.Keys(offer.GPUsOf(all[0]).Resources))) // it has at least one
	return fmt.Sprintf("A pod gets a GPU with these lines in its spec:\n  runtimeClassName: nvidia\n  tolerations: [%s]\n"+
		"  containers:\n  - {name: main, image: ubuntu, command: [nvidia-smi],\n     resources: {limits: {%s: 1}}}", strings.Join(tolerations, ", "), resource)
}
