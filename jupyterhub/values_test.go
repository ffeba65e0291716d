package jupyterhub

import (
	"encoding/json"
	"flag"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/facts"
)

var update = flag.Bool("update", false, "rewrite golden files")

// authority is a certificate for tests that nobody trusts.
const authority = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"

// base is a hub with everything but auth: the eight-A100 example, with all trimmings.
func base() Hub {
	gpuTaint := corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	return Hub{Hub: spec.Hub{
		Hostname: "hub.lab.example",
		Profiles: []spec.HubProfile{
			{Name: "cpu", Title: "CPU", Description: "4 cores & 8 GiB", Image: "quay.io/jupyter/scipy-notebook:2026-10-05", CPU: spec.CPU{Limit: 4}, Memory: spec.Memory{Guarantee: 2 * GiB, Limit: 8 * GiB}},
			{Name: "gpu", Title: "One GPU", Image: "quay.io/jupyter/pytorch-notebook:cuda12-2026-10-05", Pool: "gpu", GPUs: 1, CPU: spec.CPU{Guarantee: 2, Limit: 8}, Memory: spec.Memory{Limit: 48 * GiB}, SHM: 16 * GiB, Env: map[string]string{"OMP_NUM_THREADS": "8"}, DefaultURL: "/lab"},
			{Name: "gpus", Title: "Two GPUs", Image: "quay.io/jupyter/pytorch-notebook:cuda12-2026-10-05", Pool: "gpu", GPUs: 2, CPU: spec.CPU{Limit: 14}, Memory: spec.Memory{Limit: 96 * GiB}, Groups: []string{"lab"}},
		},
		Home: spec.HubHome{Class: "nfs", Size: 20 * GiB},
		Shared: []spec.HubShare{
			{Name: "data", Path: "/data", ReadOnly: spec.On},
			{Name: "papers", Path: "/papers", Groups: []string{"lab", "guests"}},
		},
		Scratch: &spec.HubScratch{Class: "scratch", Size: 100 * GiB},
		SHM:     8 * GiB,
		Cull:    spec.HubCull{Idle: 2 * time.Hour, MaxAge: 7 * 24 * time.Hour},
	},
		Ingress: Ingress{Class: "traefik", TLSSecret: "hub-tls", Annotations: map[string]string{"cert-manager.io/cluster-issuer": "homelab"}},
		Pools: []Pool{{
			Name: "gpu", Labels: map[string]string{"homelab.cps-gpu.github.com/pool": "gpu"}, Taints: []corev1.Taint{gpuTaint},
			Nodes: []Node{{Name: "wk-gpu1", CPU: 15.5, Memory: 120 * GiB, GPUs: 2}},
		}},
		Exports: map[string]NFSExport{
			"data":   {Server: "10.0.0.30", Export: "/export/data", MountOptions: []string{"nfsvers=4.2"}},
			"papers": {Server: "10.0.0.30", Export: "/export/papers"},
		},
		Taints: []corev1.Taint{gpuTaint},
	}
}

// hubs are one for each kind of auth, and variants of the rest.
func hubs() map[string]Hub {
	all := map[string]Hub{}
	with := func(name string, change func(*Hub)) {
		h := base()
		change(&h)
		all[name] = h
	}
	with("dummy", func(h *Hub) {
		h.Auth = spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On, Admins: []string{"teacher"}}
		h.Database = spec.HubDatabase{Class: "longhorn", Size: 2 * GiB}
	})
	with("native", func(h *Hub) {
		h.Auth = spec.HubAuth{Kind: spec.AuthNative, Admins: []string{"teacher"}}
		h.Cull.Exempt = []string{"teacher"}
		h.Announcement = "Down on <Friday>,\n8 to 10.\n"
		h.PrePull = true
	})
	with("oidc", func(h *Hub) {
		h.Auth = spec.HubAuth{Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{
			ClientID: "hub", GroupsClaim: "groups", AllowedGroups: []string{"lab"}, AdminGroups: []string{"admins"}, Button: "Lab",
		}}
		h.Endpoints = Endpoints{"https://id.lab.example/auth", "https://id.lab.example/token", "https://id.lab.example/userinfo"}
		h.Secrets.Client, h.AuthCA = secret.New("oidc-secret-of-the-client"), []byte(authority)
		h.Database.Kind, h.Secrets.Database = Postgres, secret.New("postgresql://hub:p%40ss-word@db.lab.example:5432/hub?sslmode=require")
	})
	with("ldap", func(h *Hub) {
		h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, LDAP: &spec.LDAPAuth{
			Server: "ldaps://ldap.lab.example", LookupDN: true, SearchBase: "ou=people,dc=lab,dc=example",
			SearchUser: "cn=hub,dc=lab,dc=example", Groups: []string{"cn=lab,ou=groups,dc=lab,dc=example"},
		}}
		h.Secrets.Search = secret.New("ldap-search-password")
		h.Home = spec.HubHome{Claim: "homes"}
		h.Quota = spec.HubQuota{GPUs: 6, CPU: 48, Memory: 400 * GiB}
	})
	with("github", func(h *Hub) {
		h.Auth = spec.HubAuth{Kind: spec.AuthGitHub, GitHub: &spec.GitHubAuth{ClientID: "abc", Organizations: []string{"lab-example:notebooks"}}}
		h.Secrets.Client = secret.New("github-secret")
		h.Ingress = Ingress{Kind: ByGateway, Gateway: "traefik-gateway", GatewayNamespace: "kube-system", TLS: true}
		h.Isolate = spec.Off
		h.CA = []byte(authority)
	})
	with("address", func(h *Hub) {
		h.Auth = spec.HubAuth{Kind: spec.AuthNative, Native: &spec.NativeAuth{OpenSignup: true}}
		h.Database = spec.HubDatabase{Kind: Postgres, Name: "hub-db"}
		h.Ingress = Ingress{Kind: ByLoadBalancer, Address: netip.MustParseAddr("10.0.0.202"), TLSSecret: "hub-tls"}
		h.Reach = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		h.Cull = spec.HubCull{Enabled: spec.Off}
		h.Pools[0].Shared = true
		h.Profiles[2] = spec.HubProfile{Name: "share", Image: "nvcr.io/nvidia/pytorch@sha256:0000000000000000000000000000000000000000000000000000000000000000", GPUs: 1, GPUMemory: 10 * GiB, Memory: spec.Memory{Limit: 16 * GiB}}
	})
	return all
}

func TestValuesGolden(t *testing.T) {
	for name, h := range hubs() {
		t.Run(name, func(t *testing.T) {
			part, err := h.Part()
			require.NoError(t, err)
			values, err := yaml.MarshalWithOptions(part.Release.Values, yaml.UseLiteralStyleIfMultiline(true))
			require.NoError(t, err)
			golden(t, name+".yaml", values)
			requireSane(t, part.Release.Values)
			again, err := h.Values()
			require.NoError(t, err)
			require.Equal(t, part.Release.Values, again)
		})
	}
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", "values", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, have, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have))
}

// TestNoSecretInValues: what is secret is in the Secret and nowhere else.
func TestNoSecretInValues(t *testing.T) {
	secrets := []string{"oidc-secret-of-the-client", "p@ss-word", "p%40ss-word", "ldap-search-password", "github-secret"}
	for name, h := range hubs() {
		part, err := h.Part()
		require.NoError(t, err)
		public, err := json.Marshal([]any{part.Release, part.Before, part.After, part.NamespaceLabels})
		require.NoError(t, err)
		for _, s := range secrets {
			require.NotContains(t, string(public), s, name)
		}
	}
	part, err := hubs()["oidc"].Part()
	require.NoError(t, err)
	hidden := part.Secrets[0]
	require.Equal(t, "p@ss-word", hidden.Data[keyDatabase].Reveal())
	require.Contains(t, hidden.Data[keyValues].Reveal(), "client_secret: oidc-secret-of-the-client")
	require.Equal(t, map[string]int{keyCookie: 32, keyCrypt: 32, keyToken: 32}, hidden.Generate)
	require.Equal(t, "postgresql+psycopg2://hub@db.lab.example:5432/hub?sslmode=require", at(t, part.Release.Values, "hub", "db", "url"))
}

// at walks into values.
func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, key := range path {
		m, ok := v.(map[string]any)
		require.True(t, ok, "%v: %T", path, v)
		v, ok = m[key]
		require.True(t, ok, "%v: no %s", path, key)
	}
	return v
}

// schema returns a check of values against what is kept of the chart's schema.
func schema(t testing.TB) func(values map[string]any) error {
	t.Helper()
	text := facts.Load(t, filepath.Join("testdata", "facts", "values.schema.json"), *update, func(full fs.FS) ([]byte, error) {
		raw, err := fs.ReadFile(full, "charts/jupyterhub/values.schema.json")
		if err != nil {
			return nil, err
		}
		return facts.Schema(raw, true)
	})
	return facts.FitsValues(t, text)
}

// merge lays values over those of a chart, as Helm does: dictionaries are merged, a
// null removes.
func merge(under, over map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range under {
		out[k] = v
	}
	for k, v := range over {
		if v == nil {
			delete(out, k)
			continue
		}
		a, aOK := out[k].(map[string]any)
		b, bOK := v.(map[string]any)
		if aOK && bOK {
			v = merge(a, b)
		}
		out[k] = v
	}
	return out
}

func TestValuesPassTheChartsSchema(t *testing.T) {
	check := schema(t)
	for name, h := range hubs() {
		values, err := h.Values()
		require.NoError(t, err)
		require.NoError(t, check(values), name)
	}
	values, err := base().withAuth(spec.HubAuth{Kind: spec.AuthNative}).Values()
	require.NoError(t, err)
	at(t, values, "singleuser").(map[string]any)["extraVolumes"] = []any{}
	require.Error(t, check(values), "the schema is one that refuses what is at the wrong level")
}

func (h Hub) withAuth(a spec.HubAuth) Hub {
	h.Auth = a
	return h
}

// requireSane is what holds for all values, beside the chart's schema.
func requireSane(t testing.TB, values map[string]any) {
	t.Helper()
	for key, v := range values {
		require.Contains(t, []string{"hub", "proxy", "singleuser", "scheduling", "prePuller", "cull", "ingress", "httpRoute", "custom"}, key)
		require.IsType(t, map[string]any{}, v, key)
	}
	requirePlain(t, values)
	hub := values["hub"].(map[string]any)
	require.Equal(t, secretName, hub["existingSecret"])
	for section, v := range hub["config"].(map[string]any) {
		require.Regexp(t, "^[A-Z]", section, "the hub exits if a section is not a class")
		require.IsType(t, map[string]any{}, v)
	}
	require.Contains(t, hub["services"], verifyService)
	require.Contains(t, hub["loadRoles"], verifyService)
	user := values["singleuser"].(map[string]any)
	require.Equal(t, false, user["cloudMetadata"].(map[string]any)["blockWithIptables"])
	image := user["image"].(map[string]any)
	require.NotEmpty(t, image["name"])
	require.NotEmpty(t, image["tag"])
	slugs := map[any]bool{}
	for _, p := range user["profileList"].([]any) {
		entry := p.(map[string]any)
		require.False(t, slugs[entry["slug"]])
		slugs[entry["slug"]] = true
		require.NotRegexp(t, "[<>]", entry["display_name"], "kubespawner writes it into its page as it is")
		override := entry["kubespawner_override"].(map[string]any)
		for key := range override {
			require.Contains(t, traits, key, "kubespawner has no such setting")
		}
		require.Equal(t, override["extra_resource_limits"], override["extra_resource_guarantees"])
	}
}

// traits are those of KubeSpawner 7.1 that profiles set.
var traits = []string{
	"image", "cpu_guarantee", "cpu_limit", "mem_guarantee", "mem_limit", "extra_resource_limits", "extra_resource_guarantees",
	"node_selector", "tolerations", "extra_pod_config", "volumes", "volume_mounts", "environment", "default_url",
}

// requirePlain: Helm copies values through JSON, and takes only what JSON has.
func requirePlain(t testing.TB, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			requirePlain(t, one)
		}
	case []any:
		for _, one := range v {
			requirePlain(t, one)
		}
	case string, bool, int, int64, float64:
	default:
		t.Fatalf("%T in values: %v", v, v)
	}
}

func TestNothingOfOthersIsOverwritten(t *testing.T) {
	values, err := hubs()["native"].Values()
	require.NoError(t, err)
	site := map[string]any{"hub": map[string]any{
		"services":    map[string]any{"site": map[string]any{"url": "http://site"}},
		"loadRoles":   map[string]any{"site": map[string]any{"services": []any{"site"}}},
		"extraConfig": map[string]any{"50-site": "pass"},
	}}
	merged := merge(values, site)
	for _, key := range []string{"services", "loadRoles"} {
		require.Contains(t, at(t, merged, "hub", key), "site")
		require.Contains(t, at(t, merged, "hub", key), verifyService)
		require.Contains(t, at(t, merged, "hub", key), cullService)
	}
	require.Contains(t, at(t, merged, "hub", "extraConfig"), "50-site")
	require.Contains(t, at(t, merged, "hub", "extraConfig"), "20-homelab-profiles")
}

func TestObjects(t *testing.T) {
	part, err := hubs()["ldap"].Part()
	require.NoError(t, err)
	text, err := kyaml.Marshal(part.Before)
	require.NoError(t, err)
	golden(t, "objects.yaml", text)
	require.True(t, part.Keep)
	require.Equal(t, "keep", at(t, part.Release.Values, "hub", "db", "pvc", "annotations", "helm.sh/resource-policy"))
	var kinds []string
	for _, o := range part.Before {
		kinds = append(kinds, o.GetObjectKind().GroupVersionKind().Kind)
	}
	require.Equal(t, []string{"PersistentVolume", "PersistentVolumeClaim", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange"}, kinds)

	part, err = hubs()["oidc"].Part()
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(part.Before, func(o runtime.Object) bool {
		c, ok := o.(*corev1.ConfigMap)
		return ok && c.Data["ca.crt"] == authority
	}))
}

func TestNotesAndToken(t *testing.T) {
	h := hubs()["dummy"]
	part, err := h.Part()
	require.NoError(t, err)
	for _, note := range append(h.GeneratedSecrets(), h.TokenSecret()) {
		require.Equal(t, part.Secrets[0].Name, note.Name)
		require.Contains(t, part.Secrets[0].Generate, note.Key)
	}
	h.Secrets.Password = secret.New("correct horse")
	part, err = h.Part()
	require.NoError(t, err)
	require.Equal(t, "correct horse", part.Secrets[0].Data[keyUser].Reveal())
	require.NotContains(t, part.Secrets[0].Generate, keyUser)
	require.Empty(t, hubs()["oidc"].GeneratedSecrets())
	require.Equal(t, "https://hub.lab.example", h.URL())
}

// TestSizes: what a size changes, merged into its profile as KubeSpawner does, is what a profile of that size has.
func TestSizes(t *testing.T) {
	h := base()
	for _, p := range []spec.HubProfile{
		{Name: "a", Memory: spec.Memory{Limit: 4 * GiB}, Sizes: []spec.HubSize{{Name: "small"}, {Name: "gpu", CPU: spec.CPU{Limit: 8}, Memory: spec.Memory{Limit: 64 * GiB}, GPUs: 2}}},
		{Name: "b", RuntimeClass: nvidia.RuntimeClass, Pool: "gpu", Sizes: []spec.HubSize{{Name: "gpu", GPUs: 1}, {Name: "cpu", CPU: spec.CPU{Guarantee: 1}}}},
		{Name: "c", GPUs: 1, Sizes: []spec.HubSize{{Name: "one"}, {Name: "two", GPUs: 2}}},
	} {
		entry := h.entry(p)
		choices := at(t, entry, "profile_options", "size", "choices").(map[string]any)
		require.Equal(t, true, at(t, choices, p.Sizes[0].Name, "default"))
		for i, v := range spec.Variants(p) {
			have := h.override(p)
			spawn(have, at(t, choices, p.Sizes[i].Name, "kubespawner_override").(map[string]any))
			require.Equal(t, h.override(v), have, v.Name)
		}
	}
}

// spawn is KubeSpawner's recursive_update.
func spawn(into, from map[string]any) {
	for key, value := range from {
		switch v := value.(type) {
		case nil:
			delete(into, key)
		case map[string]any:
			if into[key] == nil {
				into[key] = map[string]any{}
			}
			spawn(into[key].(map[string]any), v)
		default:
			into[key] = value
		}
	}
}

func TestImages(t *testing.T) {
	images := []spec.HubImage{{Name: "torch", Title: "<PyTorch>", Image: "torch:1"}, {Name: "tf", Image: "tf:1"}}
	entry := base().entry(spec.HubProfile{Name: "p", Image: "torch:1", Images: images, OtherImages: "quay.+"})
	option := at(t, entry, "profile_options", "image").(map[string]any)
	require.Equal(t, map[string]any{
		"torch": map[string]any{"display_name": "&lt;PyTorch&gt;", "default": true, "kubespawner_override": map[string]any{"image": "torch:1"}},
		"tf":    map[string]any{"display_name": "tf", "kubespawner_override": map[string]any{"image": "tf:1"}},
	}, option["choices"])
	require.Equal(t, "^(?:quay.+)$", at(t, option, "unlisted_choice", "validation_regex"))
	entry = base().entry(spec.HubProfile{Name: "p", Image: "torch:1", OtherImages: "quay.+"})
	require.Equal(t, "torch:1", at(t, entry, "profile_options", "image", "choices", "default", "display_name"))
}
