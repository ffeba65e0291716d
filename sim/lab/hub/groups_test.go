package hub

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/login"
)

// TestGroups: members' servers have what the overrides of their groups add, in the order of the overrides' names, and members are
// offered the profiles of their groups; at the next start who has left a group has neither.
func TestGroups(t *testing.T) {
	h := &hub{oauth: &login.Client{}, users: map[string]*hubUser{}}
	require.NoError(t, yaml.Unmarshal([]byte(`
hub:
  config:
    KubeSpawner:
      group_overrides:
        share-exam/writers: {groups: [teachers], spawner_override: {volume_mounts: {share-exam: {readOnly: false}}}}
        share-exam: {groups: [course, teachers], spawner_override: {volume_mounts: {share-exam: {mountPath: /exam, readOnly: true}}}}
singleuser:
  storage: {extraVolumeMounts: {share-data: {mountPath: /data}}}
  profileList: [{slug: cpu}, {slug: gpu, kubespawner_override: {cpu_limit: 8}}]
custom: {homelab: {profileGroups: {gpu: [teachers]}, verifyUser: homelab-verifier}}
`), &h.values))
	of := func(user, profile string, groups ...string) (map[string]any, error) {
		h.users[user] = &hubUser{groups: groups}
		traits, err := h.choose(user, map[string]any{"profile": profile})
		if err != nil {
			return nil, err
		}
		return traits["volume_mounts"].(map[string]any), nil
	}
	data := map[string]any{"mountPath": "/data"}
	for _, c := range []struct {
		groups []string
		exam   any
	}{
		{nil, nil}, {[]string{"course"}, map[string]any{"mountPath": "/exam", "readOnly": true}},
		{[]string{"teachers", "others"}, map[string]any{"mountPath": "/exam", "readOnly": false}}, {[]string{"others"}, nil},
	} {
		want := map[string]any{"share-data": data}
		if c.exam != nil {
			want["share-exam"] = c.exam
		}
		mounts, err := of("ada", "cpu", c.groups...)
		require.NoError(t, err)
		require.Equal(t, want, mounts)
	}
	_, err := of("ada", "gpu", "teachers")
	require.NoError(t, err)
	require.Len(t, h.choices("ada"), 2)
	_, err = of("ada", "gpu", "course")
	require.EqualError(t, err, "No such profile: gpu. Options include: cpu")
	require.Len(t, h.choices("ada"), 1)
	_, err = of("homelab-verifier", "gpu")
	require.NoError(t, err)
	h.values.Custom.Homelab.ProfileGroups["cpu"] = []string{"course"}
	_, err = of("ada", "cpu")
	require.ErrorContains(t, err, "There is no profile for you")
}
