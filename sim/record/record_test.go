package record_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/record"
)

const (
	reader       = "watcher@pve!look"
	readerSecret = "0b5e55ed-0000-4000-8000-000000000001"
)

// site is a model with something of everything, and somebody who may look.
func site(t *testing.T) pvesim.Model {
	t.Helper()
	m, err := pvesim.LoadModel("testdata/site.yaml")
	require.NoError(t, err)
	return watched(m)
}

// watched lets the reader in.
func watched(m pvesim.Model) pvesim.Model {
	m.Users = append(slices.Clone(m.Users), pvesim.User{ID: "watcher@pve"})
	m.Tokens = append(slices.Clone(m.Tokens), pvesim.Token{ID: reader, Secret: readerSecret})
	m.ACLs = append(slices.Clone(m.ACLs), pvesim.ACL{Path: "/", Who: "watcher@pve", Role: "PVEAuditor"})
	return m
}

func recorded(t *testing.T, m pvesim.Model, change func(*record.Options)) (pvesim.Model, []string, *pvesim.Sim) {
	t.Helper()
	sim := pvesim.New(m, pvesim.Options{Speed: 1000})
	t.Cleanup(sim.Close)
	o := record.Options{Endpoint: "https://pve1:8006/", TokenID: reader, TokenSecret: readerSecret, Client: sim.Client()}
	if change != nil {
		change(&o)
	}
	got, missing, err := record.Read(t.Context(), o)
	require.NoError(t, err)
	return got, missing, sim
}

// TestARecordAnswersAsItsOriginal is the point of it: the simulator of a recorded
// model gives the same answers as what it was recorded from.
func TestARecordAnswersAsItsOriginal(t *testing.T) {
	presets := map[string]pvesim.Model{"site": site(t)}
	for _, name := range pvesim.Presets() {
		m, err := pvesim.LoadModel(name)
		require.NoError(t, err)
		presets[name] = watched(m)
	}
	for name, m := range presets {
		t.Run(name, func(t *testing.T) {
			got, missing, sim := recorded(t, m, func(o *record.Options) { o.Descriptions = true })
			assert.Empty(t, missing, "an auditor may see all that is read")
			for _, r := range sim.Requests() {
				assert.Equal(t, http.MethodGet, r.Method, "it only looks")
			}
			text, err := got.YAML()
			require.NoError(t, err)
			again, err := pvesim.ParseModel("recorded.yaml", text)
			require.NoError(t, err, "what is recorded can be read:\n%s", text)
			for i := range again.Tokens {
				if again.Tokens[i].ID == reader {
					again.Tokens[i].Secret = readerSecret
				}
			}
			copied := pvesim.New(again, pvesim.Options{Speed: 1000})
			defer copied.Close()
			for _, path := range paths(m) {
				plain := func(s string) string { return fingerprints.ReplaceAllString(s, "") } // each has a certificate of its own
				if want, got := plain(answer(t, sim, path)), plain(answer(t, copied, path)); want != got {
					assert.JSONEq(t, want, got, path)
				}
			}
		})
	}
}

// paths are what is asked of both.
func paths(m pvesim.Model) []string {
	out := []string{"/version", "/nodes", "/cluster/resources", "/cluster/status", "/cluster/nextid", "/cluster/options", "/cluster/mapping/pci",
		"/pools", "/storage", "/access/roles", "/access/users", "/access/groups", "/access/acl", "/access/permissions"}
	for _, h := range m.Hosts {
		node := "/nodes/" + h.Name
		out = append(out, node+"/network", node+"/hardware/pci?pci-class-blacklist=", node+"/storage", node+"/status", node+"/qemu")
		for _, pm := range m.Mappings {
			out = append(out, "/cluster/mapping/pci/"+pm.ID, "/cluster/mapping/pci?check-node="+h.Name)
		}
		for _, st := range h.Storages {
			out = append(out, node+"/storage/"+st.Name+"/content", node+"/storage/"+st.Name+"/status")
		}
	}
	for _, v := range m.VMs {
		vm := "/nodes/" + v.Node + "/qemu/" + itoa(v.ID)
		out = append(out, vm+"/config", vm+"/status/current", vm+"/pending")
	}
	for _, p := range m.Pools {
		out = append(out, "/pools?poolid="+url.QueryEscape(p.ID))
	}
	return out
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// answer is what a simulator says, without what is of the moment: clocks, process
// numbers, digests of what was left out.
func answer(t *testing.T, sim *pvesim.Sim, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://pve1:8006/api2/json"+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "PVEAPIToken="+reader+"="+readerSecret)
	resp, err := sim.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
	var data any
	require.NoError(t, json.Unmarshal(body, &data))
	out, err := json.Marshal(timeless(data))
	require.NoError(t, err)
	return string(out)
}

// leftOut are clocks and the like, and the options of machines that hold secrets.
func leftOut(key string) bool {
	return slices.Contains([]string{"uptime", "digest", "ctime", "pid", "cipassword", "args", "sshkeys"}, key)
}

func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			key, _ := v["key"].(string)
			if !leftOut(k) && !leftOut(key) {
				out[k] = timeless(inner)
			}
		}
		return out
	case []any:
		var out []any
		for i := range v {
			if inner := timeless(v[i]); !assert.ObjectsAreEqual(inner, map[string]any{}) {
				out = append(out, inner)
			}
		}
		slices.SortFunc(out, func(a, b any) int { // roles and rights have no order
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return strings.Compare(string(x), string(y))
		})
		return out
	}
	return v
}

// TestNoSecretIsRecorded puts a word everywhere where people put secrets.
func TestNoSecretIsRecorded(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		got, _, _ := recorded(t, site(t), func(o *record.Options) { o.Anonymous = anonymous })
		text, err := got.YAML()
		require.NoError(t, err)
		assert.NotContains(t, string(text), "hunter2", "the word that testdata/site.yaml has where secrets are")
		assert.NotContains(t, string(text), readerSecret)
		if !anonymous {
			continue
		}
		for _, name := range []string{"atlas", "boreas", "ledger", "mallory", "10.20.", "corp.example", "S3R1AL", "tank", "BC:24:11:77", "payroll", "AAAAC3Nza"} {
			assert.NotContains(t, string(text), name)
		}
		again, err := pvesim.ParseModel("recorded.yaml", text)
		require.NoError(t, err, "%s", text)
		shapes := map[int]int{}
		for _, v := range again.VMs {
			shapes[v.ID] = len(v.Config)
			for k, value := range v.Config {
				if strings.HasPrefix(k, "hostpci") {
					assert.Equal(t, "mapping="+again.Mappings[0].ID+",pcie=1", value, "names fit together")
				}
			}
		}
		assert.Equal(t, []int{100, 101, 9000}, slices.Sorted(maps.Keys(shapes)))
		sim := pvesim.New(again, pvesim.Options{Speed: 1000})
		sim.Close()
	}
}

// TestWhatIsNotSeenIsSaid records with a token that may do next to nothing.
func TestWhatIsNotSeenIsSaid(t *testing.T) {
	m := site(t)
	m.Roles = append(slices.Clone(m.Roles), pvesim.Role{ID: "Shortsighted", Privs: []string{"VM.Audit"}})
	m.ACLs[len(m.ACLs)-1].Role = "Shortsighted"
	got, missing, _ := recorded(t, m, nil)
	assert.NotEmpty(t, got.VMs)
	assert.Contains(t, strings.Join(missing, "\n"), "/nodes/atlas/status: 403 Permission check failed (/nodes/atlas, Sys.Audit)")
}

func TestAWrongTokenIsAnError(t *testing.T) {
	sim := pvesim.New(site(t), pvesim.Options{Speed: 1000})
	defer sim.Close()
	_, _, err := record.Read(t.Context(), record.Options{Endpoint: "https://pve1:8006", TokenID: reader, TokenSecret: "no", Client: sim.Client()})
	assert.ErrorContains(t, err, "record: /version: 401 ")
}

var fingerprints = regexp.MustCompile(`(:?[0-9A-F]{2}){32}`)
