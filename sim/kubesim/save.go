package kubesim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Save returns all objects by their keys in etcd, as JSON, and the authority.
func (c *Cluster) Save(context.Context) (*guest.PlaneSaved, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &guest.PlaneSaved{Objects: map[string][]byte{}}
	for id, m := range c.objects {
		for name, e := range m {
			b, err := json.Marshal(e.obj)
			if err != nil {
				return nil, fmt.Errorf("kubesim: save %s %s: %w", id, name, err)
			}
			out.Objects[etcdKey(id, name)] = b
		}
	}
	var err error
	out.Authority, err = c.auth.PEM()
	return out, err
}

// etcdKey is where the API server stores an object: nodes and Services have old names there, and
// what is of apps is with what has no group.
func etcdKey(resource, name string) string {
	switch resource {
	case "nodes":
		resource = "minions"
	case "services":
		resource = "services/specs"
	}
	resource = strings.TrimSuffix(resource, ".apps")
	return "/registry/" + resource + "/" + strings.TrimPrefix(name, "/")
}

// load fills an empty store with what was saved. Objects keep their identity, and what stood
// in their status: a restored cluster believes in pods that have ended since.
func (c *Cluster) load(objects map[string][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Definitions first: they say which other kinds there are.
	keys := slices.SortedFunc(maps.Keys(objects), func(a, b string) int {
		if x, y := strings.Contains(a, "/customresourcedefinitions."), strings.Contains(b, "/customresourcedefinitions."); x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return strings.Compare(a, b)
	})
	for _, at := range keys {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(objects[at]); err != nil {
			return fmt.Errorf("kubesim: restore %s: %w", at, err)
		}
		k, ok := find(c.kinds, func(k kind) bool { return k.GroupVersionKind == u.GroupVersionKind() })
		if !ok {
			return fmt.Errorf("kubesim: restore %s: no kind %s", at, u.GroupVersionKind())
		}
		uid, created, generation := u.GetUID(), u.GetCreationTimestamp(), u.GetGeneration()
		e := c.put(k, u.Object)
		was := e.u()
		was.SetUID(uid)
		was.SetCreationTimestamp(created)
		was.SetGeneration(generation)
		e.uid = string(uid)
	}
	return nil
}
