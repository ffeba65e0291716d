package backup

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of object whose number a backup records.
type Kind struct {
	APIVersion, Kind string
	Resource         string // as the API names it, e.g. "deployments.apps"
	prefix           string // of its keys in etcd
}

// Kinds are those that change slowly, so that their numbers right before and after a snapshot are
// that of the snapshot. Nodes and Services are in places of their own in etcd
// (pkg/kubeapiserver/default_storage_factory_builder.go of Kubernetes 1.36).
func Kinds() []Kind {
	return []Kind{
		{"v1", "Namespace", "namespaces", "namespaces/"},
		{"v1", "Node", "nodes", "minions/"},
		{"v1", "Secret", "secrets", "secrets/"},
		{"v1", "ConfigMap", "configmaps", "configmaps/"},
		{"v1", "Service", "services", "services/specs/"},
		{"v1", "PersistentVolume", "persistentvolumes", "persistentvolumes/"},
		{"v1", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaims/"},
		{"apps/v1", "Deployment", "deployments.apps", "deployments/"},
		{"apps/v1", "StatefulSet", "statefulsets.apps", "statefulsets/"},
		{"apps/v1", "DaemonSet", "daemonsets.apps", "daemonsets/"},
	}
}

// countKeys counts the keys of the kinds.
func countKeys(keys map[string][]byte) map[string]int {
	out := map[string]int{}
	for _, k := range Kinds() {
		out[k.Resource] = 0
		for key := range keys {
			if strings.HasPrefix(key, "/registry/"+k.prefix) {
				out[k.Resource]++
			}
		}
	}
	return out
}

// Differences compares the numbers that the cluster told when it was backed up with those of a
// snapshot, and says what is missing, or too much.
func (m Manifest) Differences(have map[string]int) []string {
	var out []string
	for resource, n := range m.Objects {
		if have[resource] != n {
			out = append(out, fmt.Sprintf("%d %s instead of %d", have[resource], resource, n))
		}
	}
	slices.Sort(out)
	return out
}
