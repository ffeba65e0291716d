package jupyterhub

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

// TestSettings: each setting reaches the chart's values, and is not there without it.
func TestSettings(t *testing.T) {
	ldap := func(server string) func(*Hub) {
		return func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, AllowAll: spec.On, LDAP: &spec.LDAPAuth{Server: server, BindDN: []string{"uid={username}"}}}
		}
	}
	for path, x := range map[string]struct {
		set  func(*Hub)
		path []string
		want any
	}{
		"mount of homes":    {func(h *Hub) { h.Home.Path = "/home/me" }, []string{"singleuser", "storage", "homeMountPath"}, "/home/me"},
		"claim of homes":    {func(h *Hub) { h.Home.ClaimTemplate = "c-{username}" }, []string{"singleuser", "storage", "dynamic", "pvcNameTemplate"}, "c-{username}"},
		"folder of homes":   {func(h *Hub) { h.Home.SubPath = "u/{username}" }, []string{"singleuser", "storage", "dynamic", "subPath"}, "u/{username}"},
		"folder in a claim": {func(h *Hub) { h.Home.Claim, h.Home.SubPath = "homes", "u/{username}" }, []string{"singleuser", "storage", "static", "subPath"}, "u/{username}"},
		"listener":          {func(h *Hub) { h.Ingress = Ingress{Kind: ByGateway, Gateway: "g", GatewayListener: "https"} }, []string{"httpRoute", "gateway", "sectionName"}, "https"},
		"notes of a route": {func(h *Hub) {
			h.Ingress = Ingress{Kind: ByGateway, Gateway: "g", Annotations: map[string]string{"a": "b"}}
		}, []string{"httpRoute", "annotations", "a"}, "b"},
		"notes of a balancer": {func(h *Hub) { h.Ingress = Ingress{Kind: ByLoadBalancer, Annotations: map[string]string{"a": "b"}} },
			[]string{"proxy", "service", "annotations", "a"}, "b"},
		"port of a directory": {ldap("ldaps://d:1636"), []string{"hub", "config", "LDAPAuthenticator", "server_port"}, 1636},
	} {
		value := func(h Hub) (any, bool) {
			v, err := h.Values()
			require.NoError(t, err)
			return valueAt(v, x.path...)
		}
		h := base().withAuth(spec.HubAuth{Kind: spec.AuthNative})
		_, there := value(h)
		assert.False(t, there, path)
		x.set(&h)
		got, _ := value(h)
		assert.Equal(t, x.want, got, path)
	}
	h := base()
	ldap("ldap://d")(&h)
	v, err := h.Values()
	require.NoError(t, err)
	_, there := valueAt(v, "hub", "config", "LDAPAuthenticator", "server_port")
	assert.False(t, there)

	h = base().withAuth(spec.HubAuth{Kind: spec.AuthNative})
	assert.Equal(t, "cpu", h.first().Name)
	h.Profiles[1].Default = true
	assert.Equal(t, "gpu", h.first().Name)
	assert.Equal(t, []any{nil, true, nil}, []any{h.entry(h.Profiles[0])["default"], h.entry(h.Profiles[1])["default"], h.entry(h.Profiles[2])["default"]})
	assert.Empty(t, idleProfiles(h.Profiles))
	assert.False(t, h.ownCuller())
	h.Profiles[1].Idle = time.Hour
	assert.Equal(t, map[string]any{"gpu": 3600}, idleProfiles(h.Profiles))
	assert.True(t, h.ownCuller())
	h.Cull.Enabled = spec.Off
	assert.False(t, h.ownCuller())
	assert.Nil(t, h.startCommand(h.Profiles[0]))
	h.Profiles[0].Packages, h.Profiles[0].Start = []string{"a", "b==1"}, "echo $HOME"
	assert.Equal(t, "python3 -m pip install --quiet --disable-pip-version-check 'a' 'b==1'\necho $$HOME", h.startCommand(h.Profiles[0])[4])
	assert.Equal(t, h.startCommand(h.Profiles[0]), h.override(h.Profiles[0])["cmd"])

	h.Profiles[2].MIG, h.Profiles[2].GPUs = "1g.5gb", 0
	assert.Equal(t, []Check{{Profile: "cpu"}, {Profile: "gpu", GPUs: 1}, {Profile: "gpus", AnyGPU: true}}, h.Checks())
}

// TestObservation: what the code in a server has seen, and what of that is wrong.
func TestObservation(t *testing.T) {
	for out, want := range map[string]string{
		"": `the code in its server ended without a result: ""`, "x\nhomelab-verify: {": `the code in its server answered "{"`, "homelab-verify: {}\nmore": "",
	} {
		_, err := sight(out)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	one := []GPU{{Name: "T4"}}
	for _, x := range []struct {
		seen  Observation
		check Check
		want  string
	}{
		{Observation{Writable: true}, Check{}, ""},
		{Observation{Home: "/home/me"}, Check{}, "its home folder /home/me is not writable: the volume belongs to another user"},
		{Observation{Writable: true, Devices: []string{"a", "b"}}, Check{}, "it sees a b though it requested no GPU: a runtime class on a profile without GPUs, or NVIDIA's runtime as the default one"},
		{Observation{Writable: true, Problem: "no"}, Check{AnyGPU: true}, "CUDA does not compute: no"},
		{Observation{Writable: true, GPUs: one}, Check{GPUs: 2}, "it computes on 1 GPU and requested 2"},
		{Observation{Writable: true, GPUs: one, Devices: []string{"a"}}, Check{GPUs: 1}, ""},
		{Observation{Writable: true}, Check{AnyGPU: true}, "it computes on no GPU"},
		{Observation{Writable: true, GPUs: one}, Check{AnyGPU: true}, ""},
		{Observation{Writable: true, GPUs: one, Beyond: true}, Check{GPUs: 1, GPUMemory: 2 * GiB}, "it could use more than its 2Gi of GPU memory: nothing limits it, so its GPU is not shared by MPS"},
	} {
		if err := x.seen.compare(x.check); x.want == "" {
			assert.NoError(t, err, "%+v", x)
		} else {
			assert.EqualError(t, err, x.want)
		}
	}
	assert.Equal(t, "Python 3.12, 2 cores", Observation{Python: "3.12", CPUs: 2}.String())
	assert.Equal(t, "Python 3.12, 2 cores, 4Gi, T4 computes", Observation{Python: "3.12", CPUs: 2, Memory: 4 * GiB, GPUs: one}.String())
}

// The password of a directory's search is in the secret part alone, and there only if there is one.
func TestSearchPassword(t *testing.T) {
	h := base()
	h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, AllowAll: spec.On, LDAP: &spec.LDAPAuth{Server: "ldap://d", BindDN: []string{"uid={username}"}, SearchUser: "cn=x"}}
	assert.Nil(t, login{h}.secretConfig())
	h.Secrets.Search = secret.New("geheim")
	assert.Equal(t, map[string]any{"LDAPAuthenticator": map[string]any{"lookup_dn_search_password": "geheim"}}, login{h}.secretConfig())
	v, err := h.Values()
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprint(v), "geheim")
}
