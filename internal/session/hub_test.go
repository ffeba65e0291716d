package session

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/secret"
)

// Results of the lab's hub say so.
func TestHubResultsInTheLab(t *testing.T) {
	for endpoint, says := range map[string]bool{spec.Lab: true, "https://pve1:8006": false} {
		var data bytes.Buffer
		s := &Session{Console: &console.Console{Data: &data, JSON: true, Redact: &secret.Redactor{}}, Spec: &spec.Spec{}}
		s.Spec.Proxmox.Endpoint = endpoint
		require.NoError(t, printHub(s, []jupyterhub.Result{{Profile: "gpu-1"}}))
		require.Equal(t, says, strings.Contains(data.String(), `"lab":true`), data.String())
	}
}

// The example's profiles and their nodes are shown without asking anybody.
func TestHubProfiles(t *testing.T) {
	spec, err := cluster.Parse("cluster.yaml", examples.EightA100)
	require.NoError(t, err)
	var data, talk bytes.Buffer
	s := &Session{Console: &console.Console{Talk: &talk, Data: &data, Redact: &secret.Redactor{}}, Spec: spec}
	require.NoError(t, HubProfiles(s))
	pages.Compare(t, "docs/profiles.md", "profiles", data.String(), *update)

	c, err := cluster.New(spec, cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	s.Cluster = c
	require.ErrorContains(t, HubVerify(s, t.Context(), HubVerifyFlags{Profile: "gpu"}), "-profile=gpu: the hub has no such profile; it has cpu, gpu-1, gpu-2")

	spec.Platform.Hub = nil
	c, err = cluster.New(spec, cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	s.Cluster = c
	require.Equal(t, invalid, code(HubVerify(s, t.Context(), HubVerifyFlags{})))
	require.Equal(t, invalid, code(HubOpen(s, t.Context(), HubOpenFlags{})))
	require.Equal(t, invalid, code(HubProfiles(s)))
}

// In the lab hub:open says how to log in, as the played hub takes it.
func TestLabLogin(t *testing.T) {
	for says, a := range map[string]spec.HubAuth{
		"any name and the hub's password, which": {Kind: spec.AuthDummy, AllowAll: spec.On},
		"a name that hub.auth allows and the":    {Kind: spec.AuthDummy, Admins: []string{"teacher"}},
		"any name and any password.":             {Kind: spec.AuthNative, Admins: []string{"teacher"}},
		"hub.auth allows and any password.":      {Kind: spec.AuthNative, Users: []string{"student"}},
		"log in with any name and any password.": {Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{AllowedGroups: []string{"lab"}}},
	} {
		require.Contains(t, labLogin(jupyterhub.Hub{Hub: spec.Hub{Auth: a}}), says)
	}
	h := jupyterhub.Hub{SignsIn: true, Hub: spec.Hub{Auth: spec.HubAuth{OIDC: &spec.OIDCAuth{Issuer: "https://login.lab.example"}}}}
	require.Contains(t, labLogin(h), "sends people to https://login.lab.example. A browser reaches both with the proxy")
}
