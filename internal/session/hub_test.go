package session

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/secret"
)

// The example's profiles and their nodes are shown without asking anybody.
func TestHubProfiles(t *testing.T) {
	spec, err := clusterfile.Parse("cluster.yaml", examples.EightA100)
	require.NoError(t, err)
	var data, talk bytes.Buffer
	s := &Session{Console: &console.Console{Talk: &talk, Data: &data, Redact: &secret.Redactor{}}, Spec: spec}
	require.NoError(t, s.HubProfiles())
	require.Regexp(t, `(?m)^PROFILE +cp +wk-gpu +AT ONCE$`, data.String())
	require.Regexp(t, `(?m)^gpu-1 .* 8$`, data.String())
	require.Regexp(t, `(?m)^gpu-2 .* 4$`, data.String())

	c, err := cluster.New(spec, cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	s.Cluster = c
	require.ErrorContains(t, s.HubVerify(t.Context(), HubVerifyFlags{Profile: "gpu"}), "-profile=gpu: the hub has no such profile; it has cpu, gpu-1, gpu-2")

	spec.Platform.Hub = nil
	c, err = cluster.New(spec, cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	s.Cluster = c
	require.Equal(t, invalid, code(s.HubVerify(t.Context(), HubVerifyFlags{})))
	require.Equal(t, invalid, code(s.HubOpen(t.Context(), HubOpenFlags{})))
	require.Equal(t, invalid, code(s.HubProfiles()))
}
