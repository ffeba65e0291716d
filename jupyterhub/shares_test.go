package jupyterhub

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// mounted returns what a server of a member of groups mounts, by path: JupyterHub merges the overrides of the
// user's groups, in the order of their names, over what all mount (5.5 spawner.py, apply_group_overrides).
func mounted(t *testing.T, h Hub, groups ...string) map[string]string {
	t.Helper()
	values, err := h.Values()
	require.NoError(t, err)
	storage := at(t, values, "singleuser", "storage").(map[string]any)
	spawner := map[string]any{"volumes": storage["extraVolumes"], "volume_mounts": storage["extraVolumeMounts"]}
	overrides := at(t, values, "hub", "config", "KubeSpawner", "group_overrides").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		of := overrides[name].(map[string]any)
		if slices.ContainsFunc(of["groups"].([]any), func(g any) bool { return slices.Contains(groups, g.(string)) }) {
			spawn(spawner, of["spawner_override"].(map[string]any))
		}
	}
	got := map[string]string{}
	for _, m := range spawner["volume_mounts"].(map[string]any) {
		m := m.(map[string]any)
		claim := at(t, spawner, "volumes", m["name"].(string), "persistentVolumeClaim").(map[string]any)
		how := "rw"
		if m["readOnly"] == true {
			how = "ro"
		}
		assert.Equal(t, claim["readOnly"] == true, how == "ro", "volume and mount")
		folder, _ := m["subPath"].(string)
		got[m["mountPath"].(string)] = claim["claimName"].(string) + ":" + folder + " " + how
	}
	return got
}

func TestSharesOfGroups(t *testing.T) {
	h := hubs()["native"]
	h.Shared = []spec.HubShare{
		{Name: "data", Path: "/data", ReadOnly: spec.On, Writers: []string{"teachers"}},
		{Name: "exam", Path: "/exam", ReadOnly: spec.On, Groups: []string{"course"}, Writers: []string{"teachers"}},
		{Name: "work", Path: "/work", PerGroup: true, Groups: []string{"red", "blue"}},
	}
	h.Exports = map[string]NFSExport{}
	for _, s := range h.Shared {
		h.Exports[s.Name] = NFSExport{Server: "10.0.0.30", Export: "/export/" + s.Name}
	}
	assert.Equal(t, map[string]string{"/data": "share-data: ro"}, mounted(t, h))
	assert.Equal(t, map[string]string{"/data": "share-data: ro", "/exam": "share-exam: ro", "/work/red": "share-work:red rw"}, mounted(t, h, "course", "red"))
	assert.Equal(t, map[string]string{"/data": "share-data: rw", "/exam": "share-exam: rw"}, mounted(t, h, "teachers"), "who are in no other group")
	assert.Equal(t, map[string]string{"/data": "share-data: rw", "/exam": "share-exam: rw", "/work/red": "share-work:red rw", "/work/blue": "share-work:blue rw"},
		mounted(t, h, "teachers", "course", "red", "blue"))

	h.Shared[2].Groups = []string{"a/b", ".."}
	require.ErrorContains(t, h.Check(), `Shared[work].Groups: "a/b" cannot be a folder`)
	h.Shared[2].Groups = nil
	require.ErrorContains(t, h.Check(), "Shared[work].PerGroup: there are no groups")
}
