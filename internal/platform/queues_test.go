package platform_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
)

// In the hub's namespace only what has the label waits, elsewhere everything; and queues cover all that
// the nodes offer, so that no pod of theirs gets more beside them.
func TestQueuesOfAFile(t *testing.T) {
	s, err := clusterfile.Load("../../cluster/clusterfile/testdata/good/queues.yaml")
	require.NoError(t, err)
	pieces, err := platform.Pieces(s, false)
	require.NoError(t, err)
	var doors, covered []string
	for _, p := range pieces {
		if p.Name == "jupyterhub" {
			assert.Contains(t, p.Needs, addon.KueueName)
		}
		for _, o := range p.After {
			u, ok := o.(*unstructured.Unstructured)
			if !ok || p.Name != addon.KueueName {
				continue
			}
			switch u.GetKind() {
			case "LocalQueue":
				to, _, _ := unstructured.NestedString(u.Object, "spec", "clusterQueue")
				doors = append(doors, u.GetNamespace()+"/"+u.GetName()+" "+to)
			case "ClusterQueue":
				groups, _, _ := unstructured.NestedSlice(u.Object, "spec", "resourceGroups")
				list, _, _ := unstructured.NestedStringSlice(groups[0].(map[string]any), "coveredResources")
				covered = append(covered, list...)
			}
		}
	}
	assert.Equal(t, []string{"student1/default students", "jupyterhub/students students", "research/default staff"}, doors)
	all := []string{"nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"}
	assert.Equal(t, append(all, all...), covered)
	assert.Equal(t, "students", platform.Hub(s).Queue)
	assert.Equal(t, map[string]int{"nvidia.com/gpu": 4, "nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1}, offer.All(s))
}
