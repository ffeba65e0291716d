package jupyterhub

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/secret"
)

func TestCheckSaysEverythingAtOnce(t *testing.T) {
	h := base()
	h.Hostname = "Hub_1"
	h.Auth = Auth{Kind: OIDC, AdminGroups: []string{"admins"}, Scopes: []string{"email"}}
	h.Profiles = append(h.Profiles, Profile{Name: "cpu", Image: "x", Pool: "tpu", CPUGuarantee: 4, CPULimit: 2})
	err := h.Check()
	var all Problems
	require.True(t, errors.As(err, &all))
	var fields []string
	for _, p := range all {
		fields = append(fields, p.Field)
	}
	for _, field := range []string{"Hostname", "Auth.ClientID", "Auth.ClientSecret", "Auth.Endpoints.Token", "Auth.GroupsClaim", "Auth.Scopes", "Profiles[cpu].Name", "Profiles[cpu].Pool", "Profiles[cpu].CPUGuarantee"} {
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
		"Auth.Kind: \"saml\"":            func(h *Hub) { h.Auth.Kind = "saml" },
		"Auth: nobody could log in":      func(h *Hub) { h.Auth = Auth{Kind: Dummy, Admins: []string{"teacher"}} },
		"or Organizations":               func(h *Hub) { h.Auth = Auth{Kind: GitHub, ClientID: "a", ClientSecret: secret.New("b")} },
		"shorter than 8 characters":      func(h *Hub) { h.Auth = Auth{Kind: Dummy, AllowAll: true, Password: secret.New("short")} },
		"in small letters":               func(h *Hub) { h.Auth.Users = []string{"Teacher"} },
		"never logs in":                  func(h *Hub) { h.Auth.Admins = []string{verifyUser} },
		"Auth.Directory.BindDN: missing": func(h *Hub) { h.Auth = Auth{Kind: LDAP, AllowAll: true, Directory: Directory{Server: "ldaps://a"}} },
		"all users would be the same": func(h *Hub) {
			h.Auth = Auth{Kind: LDAP, AllowAll: true, Directory: Directory{Server: "ldaps://a", BindDN: []string{"uid=a"}}}
		},
		"want ldaps://host": func(h *Hub) {
			h.Auth = Auth{Kind: LDAP, AllowAll: true, Directory: Directory{Server: "a", LookupDN: true}}
		},
		"Auth.Directory.SearchBase": func(h *Hub) {
			h.Auth = Auth{Kind: LDAP, AllowAll: true, Directory: Directory{Server: "ldap://a", LookupDN: true}}
		},
		"Auth.CA: no certificates":     func(h *Hub) { h.Auth.CA = []byte("certificate") },
		"Ingress.Kind: \"nginx\"":      func(h *Hub) { h.Ingress.Kind = "nginx" },
		"Ingress.Gateway: missing":     func(h *Hub) { h.Ingress.Kind = ByGateway },
		"Database.Kind":                func(h *Hub) { h.Database.Kind = "mysql" },
		"Database.URL: not an address": func(h *Hub) { h.Database = Database{Kind: Postgres, URL: secret.New("hub:geheim@db")} },
		"Database.URL: scheme":         func(h *Hub) { h.Database = Database{Kind: Postgres, URL: secret.New("mysql://hub:geheim@db/hub")} },
		"among the parameters": func(h *Hub) {
			h.Database = Database{Kind: Postgres, URL: secret.New("postgresql://hub@db/hub?password=geheim")}
		},
		"Profiles: missing":                func(h *Hub) { h.Profiles = nil },
		"2 of them are the default":        func(h *Hub) { h.Profiles[0].Default, h.Profiles[1].Default = true, true },
		"every profile is for groups":      func(h *Hub) { h.Profiles = h.Profiles[2:] },
		"is not an image reference":        func(h *Hub) { h.Profiles[0].Image = "quay.io/jupyter base" },
		"counts towards it":                func(h *Hub) { h.Profiles[0].SHM = 9 * GiB },
		"1Gi is more than the limit":       func(h *Hub) { h.Profiles[0].MemGuarantee, h.Profiles[0].MemLimit = GiB, 512*MiB },
		"kubespawner expands":              func(h *Hub) { h.Profiles[0].Env = map[string]string{"JSON": `{"a": 1}`} },
		"is not a name of a variable":      func(h *Hub) { h.Profiles[0].Env = map[string]string{"a-b": "c"} },
		"want a path such as /lab":         func(h *Hub) { h.Profiles[0].DefaultURL = "lab" },
		"needs a GPU":                      func(h *Hub) { h.Profiles[0].GPUMemory = GiB },
		"a share belongs to one GPU":       func(h *Hub) { h.Profiles[2].GPUMemory = GiB },
		"the daemon's own":                 func(h *Hub) { h.Profiles[1].GPUMemory = GiB },
		"is set by GPUs":                   func(h *Hub) { h.Profiles[0].Resources = map[string]string{resourceGPU: "1"} },
		"want a whole number":              func(h *Hub) { h.Profiles[0].Resources = map[string]string{"nvidia.com/mig-1g.5gb": "0.5"} },
		"want an extended resource":        func(h *Hub) { h.Profiles[0].Resources = map[string]string{"gpu": "1"} },
		"no node has that many":            func(h *Hub) { h.Profiles[0].CPULimit = math.NaN() },
		"has no labels":                    func(h *Hub) { h.Pools[0].Labels = nil },
		"/data is Shared[data].Path":       func(h *Hub) { h.Shared[1].Path = "/data" },
		"/home/jovyan is Home.Path":        func(h *Hub) { h.Shared[0].Path = "/home/jovyan" },
		"/dev/shm is mounted already":      func(h *Hub) { h.Scratch.Path = "/dev/shm" },
		"NFS.Server: missing":              func(h *Hub) { h.Shared[1].NFS.Server = "" },
		"there is a share of this name":    func(h *Hub) { h.Shared[1].Name = "data" },
		"the same claim for all users":     func(h *Hub) { h.Home.ClaimTemplate = "claim" },
		"Home.ClaimTemplate: \"c-{user}\"": func(h *Hub) { h.Home.ClaimTemplate = "c-{user}" },
		"the same folder for all users":    func(h *Hub) { h.Home.Claim, h.Home.SubPath = "homes", "all" },
		"Scratch.Size: missing":            func(h *Hub) { h.Scratch.Size = 0 },
		"interval between checks":          func(h *Hub) { h.Cull.Idle = time.Minute },
		"must not be negative":             func(h *Hub) { h.Quota.GPUs = -1 },
	} {
		t.Run(want, func(t *testing.T) {
			h := base().withAuth(Auth{Kind: Native})
			require.NoError(t, h.Check())
			breaks(&h)
			err := h.Check()
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "geheim", "a secret is in no error")
		})
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
	h.Cull.Off = true
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "culling is off")
	require.NotContains(t, strings.Join(h.Warnings(), "\n"), "network policies are off")
	h.Exposed = true
	require.Contains(t, strings.Join(h.Warnings(), "\n"), "network policies are off")
	for _, w := range (Hub{Profiles: h.Profiles}).Warnings() {
		require.NotRegexp(t, "culling|policies", w, "the zero Hub protects notebooks and GPUs")
	}
}

// The hub's /dev/shm leaves half of a small profile's memory to its programs; a profile's own is as it
// is written, with a warning.
func TestSharedMemoryIsAtMostHalf(t *testing.T) {
	h := hubs()["native"]
	for _, c := range []struct {
		p    Profile
		want Bytes
		warn bool
	}{
		{Profile{MemLimit: 4 * GiB}, 2 * GiB, false}, {Profile{MemLimit: 48 * GiB}, 8 * GiB, false}, {Profile{MemGuarantee: GiB}, 8 * GiB, false},
		{Profile{MemLimit: 4 * GiB, SHM: 2 * GiB}, 2 * GiB, false}, {Profile{MemLimit: 4 * GiB, SHM: 3 * GiB}, 3 * GiB, true},
		{Profile{MemLimit: 4 * GiB, GPUs: 1, GPUMemory: GiB}, 0, false},
	} {
		c.p.Image = "quay.io/jupyter/scipy-notebook:2026-10-05"
		require.Equal(t, c.want, h.shm(c.p), "%+v", c.p)
		h.Profiles = []Profile{c.p}
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
	f.Add("gpu", "One <b>GPU</b>", "quay.io/jupyter/base:1", "lab", "KEY", "value", "/lab", 2.0, 4.0, int64(4<<30), int64(8<<30), 1, int64(0), "nvidia.com/mig-1g.5gb", "1", "/data")
	f.Add("a", "", "i", "", "A", "{username}", "", 0.0, 0.0, int64(0), int64(0), 0, int64(1<<30), "", "", "/x")
	check := schema(f)
	f.Fuzz(func(t *testing.T, name, title, image, group, key, value, start string, guarantee, limit float64, memory, most int64, gpus int, share int64, resource, amount, path string) {
		h := base().withAuth(Auth{Kind: Native})
		p := Profile{
			Name: name, Title: title, Description: title, Image: image, Env: map[string]string{key: value}, DefaultURL: start, CPUGuarantee: guarantee,
			CPULimit: limit, MemGuarantee: Bytes(memory), MemLimit: Bytes(most), GPUs: gpus, GPUMemory: Bytes(share), RuntimeClass: resource, Pool: group,
		}
		h.Shared = append(h.Shared, Share{Name: name, Path: path, NFS: NFSExport{Server: "nfs", Export: "/export"}})
		if group != "" {
			p.Groups = []string{group}
		}
		if resource != "" {
			p.Resources = map[string]string{resource: amount}
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
