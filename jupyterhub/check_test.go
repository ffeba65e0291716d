package jupyterhub

import (
	"errors"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

func TestCheckSaysEverythingAtOnce(t *testing.T) {
	h := base()
	h.Hostname = "Hub_1"
	h.Auth = spec.HubAuth{Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{AdminGroups: []string{"admins"}, Scopes: []string{"email"}}}
	h.Profiles = append(h.Profiles, spec.HubProfile{Name: "cpu", Image: "x", Pool: "tpu", CPU: spec.CPU{Guarantee: 4, Limit: 2}})
	err := h.Check()
	var all Problems
	require.True(t, errors.As(err, &all))
	var fields []string
	for _, p := range all {
		fields = append(fields, p.Field)
	}
	for _, field := range []string{"Hostname", "Auth.ClientID", "Secrets.Client", "Endpoints.Token", "Auth.OIDC.GroupsClaim", "Auth.OIDC.Scopes", "Profiles[cpu].Name", "Profiles[cpu].Pool", "Profiles[cpu].CPU"} {
		require.Contains(t, fields, field)
	}
	_, err = h.Values()
	require.Equal(t, all.Error(), err.Error(), "in the same order each time")
	_, err = h.Part()
	require.Error(t, err)
}

// TestCheck breaks one thing at a time in a hub that is right.
func TestCheck(t *testing.T) {
	for want, breaks := range map[string]func(*Hub){
		"Auth.Kind: \"saml\"":       func(h *Hub) { h.Auth.Kind = "saml" },
		"Auth: nobody could log in": func(h *Hub) { h.Auth = spec.HubAuth{Kind: spec.AuthDummy, Admins: []string{"teacher"}} },
		"or GitHub.Organizations": func(h *Hub) {
			h.Auth, h.Secrets.Client = spec.HubAuth{Kind: spec.AuthGitHub, GitHub: &spec.GitHubAuth{ClientID: "a"}}, secret.New("b")
		},
		"shorter than 8 characters": func(h *Hub) {
			h.Auth, h.Secrets.Password = spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, secret.New("short")
		},
		"in small letters": func(h *Hub) { h.Auth.Users = []string{"Teacher"} },
		"never logs in":    func(h *Hub) { h.Auth.Admins = []string{verifyUser} },
		"Auth.LDAP.BindDN: missing": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, AllowAll: spec.On, LDAP: &spec.LDAPAuth{Server: "ldaps://a"}}
		},
		"all users would be the same": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, AllowAll: spec.On, LDAP: &spec.LDAPAuth{Server: "ldaps://a", BindDN: []string{"uid=a"}}}
		},
		"want ldaps://host": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, AllowAll: spec.On, LDAP: &spec.LDAPAuth{Server: "a", LookupDN: true}}
		},
		"Auth.LDAP.SearchBase": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, AllowAll: spec.On, LDAP: &spec.LDAPAuth{Server: "ldap://a", LookupDN: true}}
		},
		"AuthCA: no certificates":      func(h *Hub) { h.AuthCA = []byte("certificate") },
		"Ingress.Kind: \"nginx\"":      func(h *Hub) { h.Ingress.Kind = "nginx" },
		"Ingress.Gateway: missing":     func(h *Hub) { h.Ingress.Kind = ByGateway },
		"Database.Kind":                func(h *Hub) { h.Database.Kind = "mysql" },
		"Database.URL: not an address": func(h *Hub) { h.Database.Kind, h.Secrets.Database = Postgres, secret.New("hub:geheim@db") },
		"Database.URL: scheme":         func(h *Hub) { h.Database.Kind, h.Secrets.Database = Postgres, secret.New("mysql://hub:geheim@db/hub") },
		"among the parameters": func(h *Hub) {
			h.Database.Kind, h.Secrets.Database = Postgres, secret.New("postgresql://hub@db/hub?password=geheim")
		},
		"Profiles: missing":                func(h *Hub) { h.Profiles = nil },
		"2 of them are the default":        func(h *Hub) { h.Profiles[0].Default, h.Profiles[1].Default = true, true },
		"every profile is for groups":      func(h *Hub) { h.Profiles = h.Profiles[2:] },
		"is not an image reference":        func(h *Hub) { h.Profiles[0].Image = "quay.io/jupyter base" },
		"counts towards it":                func(h *Hub) { h.Profiles[0].SHM = 9 * GiB },
		"1Gi is more than the limit":       func(h *Hub) { h.Profiles[0].Memory.Guarantee, h.Profiles[0].Memory.Limit = GiB, 512*MiB },
		"kubespawner expands":              func(h *Hub) { h.Profiles[0].Env = map[string]string{"JSON": `{"a": 1}`} },
		"is not a name of a variable":      func(h *Hub) { h.Profiles[0].Env = map[string]string{"a-b": "c"} },
		"want a path such as /lab":         func(h *Hub) { h.Profiles[0].DefaultURL = "lab" },
		"needs a GPU":                      func(h *Hub) { h.Profiles[0].GPUMemory = GiB },
		"a share belongs to one GPU":       func(h *Hub) { h.Profiles[2].GPUMemory = GiB },
		"the daemon's own":                 func(h *Hub) { h.Profiles[1].GPUMemory = GiB },
		"no node has that many":            func(h *Hub) { h.Profiles[0].CPU.Limit = spec.Cores(math.NaN()) },
		"has no labels":                    func(h *Hub) { h.Pools[0].Labels = nil },
		"/data is Shared[data].Path":       func(h *Hub) { h.Shared[1].Path = "/data" },
		"/home/jovyan is Home.Path":        func(h *Hub) { h.Shared[0].Path = "/home/jovyan" },
		"/dev/shm is mounted already":      func(h *Hub) { h.Scratch.Path = "/dev/shm" },
		"NFS.Server: missing":              func(h *Hub) { h.Exports = nil },
		"there is a share of this name":    func(h *Hub) { h.Shared[1].Name = "data" },
		"the same claim for all users":     func(h *Hub) { h.Home.ClaimTemplate = "claim" },
		"Home.ClaimTemplate: \"c-{user}\"": func(h *Hub) { h.Home.ClaimTemplate = "c-{user}" },
		"the same folder for all users":    func(h *Hub) { h.Home.Claim, h.Home.SubPath = "homes", "all" },
		"Scratch.Size: missing":            func(h *Hub) { h.Scratch.Size = 0 },
		"interval between checks":          func(h *Hub) { h.Cull.Idle = time.Minute },
		"must not be negative; 0 means":    func(h *Hub) { h.Quota.GPUs = -1 },
		"Quota: must not be negative":      func(h *Hub) { h.Quota.CPU = -1 },
		"Quota: must not":                  func(h *Hub) { h.Quota.Memory = -1 },
		"is not a name of a namespace":     func(h *Hub) { h.Namespace = "Hub" },
		"not a name of a namespace":        func(h *Hub) { h.Namespace = strings.Repeat("a", 64) },
		"Hostname: \"aaa":                  func(h *Hub) { h.Hostname = strings.Repeat("a", 254) },
		"a network without an address":     func(h *Hub) { h.Reach = append(h.Reach, netip.Prefix{}) },
		"Database.Size: -1 bytes":          func(h *Hub) { h.Database.Size = -1 },
		"Home.Size: -1 bytes: must not":    func(h *Hub) { h.Home.Size = -1 },
		"SHM: -1 bytes":                    func(h *Hub) { h.SHM = -1 },
		"Home.Path: \"home\"":              func(h *Hub) { h.Home.Path = "home" },
		"Home.SubPath: \"{x}\"":            func(h *Hub) { h.Home.SubPath = "{x}" },
		"Shared[D].Name: \"D\"":            func(h *Hub) { h.Exports["D"] = h.Exports["data"]; h.Shared[1].Name = "D" },
		"dashes, at most 50":               func(h *Hub) { h.Shared[0].Name = strings.Repeat("d", 51) },
		"Shared[data].Path: \"/a:b\"":      func(h *Hub) { h.Shared[0].Path = "/a:b" },
		"Cull: must not be negative":       func(h *Hub) { h.Cull.MaxAge = -1 },
		"is shorter than the interval":     func(h *Hub) { h.Profiles[0].Idle = time.Second },
		"Cull.Exempt: missing":             func(h *Hub) { h.Cull.Exempt = []string{" "} },
		"Auth: oidc needs its settings":    func(h *Hub) { h.Auth = spec.HubAuth{Kind: spec.AuthOIDC} },
		"Auth: ldap needs its settings":    func(h *Hub) { h.Auth = spec.HubAuth{Kind: spec.AuthLDAP} },
		"Auth: github needs its settings":  func(h *Hub) { h.Auth = spec.HubAuth{Kind: spec.AuthGitHub} },
		"\" a\" is not a name of a user":   func(h *Hub) { h.Auth.Users = []string{" a"} },
		"\"\" is not a name of a user":     func(h *Hub) { h.Auth.Admins = []string{""} },
		"an organization without a name": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthGitHub, GitHub: &spec.GitHubAuth{Organizations: []string{"a", ""}}}
		},
		"single dots between them": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{GroupsClaim: "a..b"}}
		},
		"\".a\": want names with single": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{GroupsClaim: ".a"}}
		},
		"\"a.\": want names with single": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{GroupsClaim: "a."}}
		},
		"only {username} is expanded": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, LDAP: &spec.LDAPAuth{Server: "ldaps://a", BindDN: []string{"uid={username},ou={x}"}}}
		},
		"Secrets.Search: missing: the password of cn=x": func(h *Hub) {
			h.Auth = spec.HubAuth{Kind: spec.AuthLDAP, LDAP: &spec.LDAPAuth{Server: "ldaps://a", SearchUser: "cn=x"}}
		},
		"Profiles[Cpu].Name: \"Cpu\"":        func(h *Hub) { h.Profiles[0].Name = "Cpu" },
		"dashes, at most 63":                 func(h *Hub) { h.Profiles[0].Name = strings.Repeat("a", 64) },
		"there is a pool of this name":       func(h *Hub) { h.Pools = append(h.Pools, h.Pools[0]) },
		"is not a name of a runtime class":   func(h *Hub) { h.Profiles[0].RuntimeClass = "Kata" },
		"is not a package for pip":           func(h *Hub) { h.Profiles[0].Packages = []string{"torch", "-r"} },
		"\"\" is not a package for pip":      func(h *Hub) { h.Profiles[0].Packages = []string{""} },
		"\"a'b\" is not a package":           func(h *Hub) { h.Profiles[0].Packages = []string{"a'b"} },
		"CPU: must not be negative":          func(h *Hub) { h.Profiles[0].CPU.Guarantee = -1 },
		"must not be negative: want cores":   func(h *Hub) { h.Profiles[0].CPU = spec.CPU{Limit: -1} },
		"cores: no node has":                 func(h *Hub) { h.Profiles[0].CPU = spec.CPU{Guarantee: 1e6} },
		"5 cores are more than the limit":    func(h *Hub) { h.Profiles[0].CPU = spec.CPU{Guarantee: 5, Limit: 4} },
		"EphemeralStorage: 2Gi is more than": func(h *Hub) { h.Profiles[0].EphemeralStorage = spec.EphemeralStorage{Guarantee: 2 * GiB, Limit: GiB} },
		"EphemeralStorage: -1 bytes":         func(h *Hub) { h.Profiles[0].EphemeralStorage.Guarantee = -1 },
		"Memory: -1 bytes":                   func(h *Hub) { h.Profiles[0].Memory = spec.Memory{Guarantee: -1} },
		"GPUs: -1: want 0 or more":           func(h *Hub) { h.Profiles[0].GPUs = -1 },
		"less than a program needs":          func(h *Hub) { h.Profiles[0].GPUs, h.Profiles[0].GPUMemory = 1, 1024 },
		"there is no pool \"x\": there are none": func(h *Hub) {
			h.Pools = nil
			h.Profiles[0].Pool = "x"
		},
	} {
		t.Run(want, func(t *testing.T) {
			h := base().withAuth(spec.HubAuth{Kind: spec.AuthNative})
			require.NoError(t, h.Check())
			h.Exports, h.Shared = maps.Clone(h.Exports), slices.Clone(h.Shared)
			breaks(&h)
			err := h.Check()
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "geheim", "a secret is in no error")
		})
	}
}

// TestCheckOfLimits: the greatest and least that are right.
func TestCheckOfLimits(t *testing.T) {
	for name, change := range map[string]func(*Hub){
		"Hostname":  func(h *Hub) { h.Hostname = strings.Repeat("a", 63) + "." + strings.Repeat("b", 189) },
		"Namespace": func(h *Hub) { h.Namespace = strings.Repeat("a", 63) },
		"Name":      func(h *Hub) { h.Profiles[0].Name = strings.Repeat("a", 63) },
		"CPU":       func(h *Hub) { h.Profiles[0].CPU = spec.CPU{Guarantee: 4, Limit: 4} },
		"Memory":    func(h *Hub) { h.Profiles[0].Memory, h.Profiles[0].SHM = spec.Memory{Guarantee: GiB, Limit: GiB}, GiB },
		"Disk":      func(h *Hub) { h.Profiles[0].EphemeralStorage = spec.EphemeralStorage{Guarantee: GiB, Limit: GiB} },
		"Idle":      func(h *Hub) { h.Profiles[0].Idle, h.Cull.Idle = every(h.Cull), every(h.Cull) },
		"Off":       func(h *Hub) { h.Cull.Enabled, h.Cull.Idle = spec.Off, -1 },
	} {
		h := base().withAuth(spec.HubAuth{Kind: spec.AuthNative})
		change(&h)
		require.NoError(t, h.Check(), name)
	}
}

func TestWarnings(t *testing.T) {
	h := hubs()["dummy"]
	require.Contains(t, h.Warnings()[0], "everyone has the same password")
	h = hubs()["native"]
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "becomes that admin: sign up now (admins: teacher")
	h.Ingress.TLSSecret = ""
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "passwords are sent unencrypted")
	h.Profiles[0].Image = "quay.io/jupyter/scipy-notebook"
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "changes over time")
	h.Cull.Enabled = spec.Off
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "culling is off")
	require.NotContains(t, strings.Join(h.Warnings(), "\n"), "network policies are off")
	h.Isolate = spec.Off
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "network policies are off")
	for _, w := range (Hub{Hub: spec.Hub{Profiles: h.Profiles}}).Warnings() {
		require.NotRegexp(t, "culling|policies", w, "the zero Hub protects notebooks and GPUs")
	}
}

// The hub's /dev/shm leaves half of a small profile's memory to its programs; a profile's own is as it
// is written, with a warning.
func TestSharedMemoryIsAtMostHalf(t *testing.T) {
	h := hubs()["native"]
	for _, c := range []struct {
		p    spec.HubProfile
		want Bytes
		warn bool
	}{
		{spec.HubProfile{Memory: spec.Memory{Limit: 4 * GiB}}, 2 * GiB, false}, {spec.HubProfile{Memory: spec.Memory{Limit: 48 * GiB}}, 8 * GiB, false}, {spec.HubProfile{Memory: spec.Memory{Guarantee: GiB}}, 8 * GiB, false},
		{spec.HubProfile{Memory: spec.Memory{Limit: 4 * GiB}, SHM: 2 * GiB}, 2 * GiB, false}, {spec.HubProfile{Memory: spec.Memory{Limit: 4 * GiB}, SHM: 3 * GiB}, 3 * GiB, true},
		{spec.HubProfile{Memory: spec.Memory{Limit: 4 * GiB}, GPUs: 1, GPUMemory: GiB}, 0, false},
	} {
		c.p.Image = "quay.io/jupyter/scipy-notebook:2026-10-05"
		require.Equal(t, c.want, h.shm(c.p), "%+v", c.p)
		h.Profiles = []spec.HubProfile{c.p}
		require.Equal(t, c.warn, strings.Contains(strings.Join(h.Warnings(), "\n"), "/dev/shm may fill"), "%+v", c.p)
	}
}

func TestSplitImage(t *testing.T) {
	for image, want := range map[string][2]string{
		"quay.io/jupyter/base-notebook:2026-10-05": {"quay.io/jupyter/base-notebook", "2026-10-05"},
		"registry.lab:5000/base":                   {"registry.lab:5000/base", "latest"},
		"base@sha256:0f":                           {"base@sha256", "0f"},
		"base":                                     {"base", "latest"},
	} {
		name, tag := splitImage(image)
		require.Equal(t, want, [2]string{name, tag}, image)
		if tag != "latest" {
			require.Equal(t, image, name+":"+tag, "the chart puts them together so")
		}
	}
}

func TestBytes(t *testing.T) {
	for b, want := range map[Bytes][2]string{
		GiB: {"1G", "1Gi"}, 1536 * MiB: {"1536M", "1536Mi"}, 2 * TiB: {"2T", "2Ti"}, 1000: {"1K", "1k"}, 3 * KiB / 2: {"2K", "1536"},
	} {
		require.Equal(t, want, [2]string{b.spawner(), b.String()})
	}
}

// FuzzValues: whatever a profile says, either it is refused or the chart's schema accepts the
// result.
func FuzzValues(f *testing.F) {
	f.Add("gpu", "One <b>GPU</b>", "quay.io/jupyter/base:1", "lab", "KEY", "value", "/lab", 2.0, 4.0, int64(4<<30), int64(8<<30), 1, int64(0), "nvidia", "1g.5gb", "/data")
	f.Add("a", "", "i", "", "A", "{username}", "", 0.0, 0.0, int64(0), int64(0), 0, int64(1<<30), "", "", "/x")
	check := schema(f)
	f.Fuzz(func(t *testing.T, name, title, image, group, key, value, start string, guarantee, limit float64, memory, most int64, gpus int, share int64, class, instance, path string) {
		h := base().withAuth(spec.HubAuth{Kind: spec.AuthNative})
		p := spec.HubProfile{
			Name: name, Title: title, Description: title, Image: image, Env: map[string]string{key: value}, DefaultURL: start, CPU: spec.CPU{Guarantee: spec.Cores(guarantee), Limit: spec.Cores(limit)},
			Memory: spec.Memory{Guarantee: spec.Size(memory), Limit: spec.Size(most)}, GPUs: gpus, GPUMemory: spec.Size(share), MIG: instance, RuntimeClass: class, Pool: group,
		}
		h.Shared = append(h.Shared, spec.HubShare{Name: name, Path: path})
		h.Exports[name] = NFSExport{Server: "nfs", Export: "/export"}
		if group != "" {
			p.Groups = []string{group}
		}
		h.Profiles = append(h.Profiles, p)
		values, err := h.Values()
		if err != nil {
			var all Problems
			require.True(t, errors.As(err, &all))
			return
		}
		requireSane(t, values)
		require.NoError(t, check(values))
		_, err = h.Part()
		require.NoError(t, err)
		require.NotPanics(t, func() { _ = Fit(h.Profiles, h.Pools, h.Quota).String() })
	})
}
