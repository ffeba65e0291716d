package cluster_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// leastSpecs are the days of a cluster that wants everything a token may be asked
// for, on storages of their own for disks, the image and the ISOs, so that each grant
// is seen by itself: made; changed, with a disk that grows, a machine that restarts
// and one that goes; with one more machine, which is cloned from another template.
func leastSpecs(t testing.TB) []*spec.Spec {
	const made = `name: least
proxmox: {endpoint: lab}
image: {storage: images, seedStorage: isos}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1, vlan: 7}
pools:
  server: {role: server, count: 1, addresses: [192.168.1.61], vmids: [201]}
  gpu: {count: 1, addresses: [192.168.1.71], vmids: [202], gpus: 1, cores: 4, resourcePool: lab, network: {firewall: true}, securityGroups: [k8s]}
  lent: {count: 1, addresses: [192.168.1.72], vmids: [203], gpus: {mapping: [lent]}, disks: {data: {storage: bulk, size: 20GiB}}}
  spare: {count: 1, addresses: [192.168.1.73], vmids: [204], storage: bulk}
`
	changed := replace(t, made, "cores: 4", "cores: 6")
	changed = replace(t, changed, "size: 20GiB", "size: 30GiB")
	changed = replace(t, changed, "mapping: [lent]}", "mapping: [lent]}, resourcePool: lab")
	changed = replace(t, changed, "  spare: {count: 1, addresses: [192.168.1.73], vmids: [204], storage: bulk}\n", "")
	anew := replace(t, changed, "seedStorage: isos}", "seedStorage: isos, secureBoot: true}") + "  late: {count: 1, addresses: [192.168.1.74], vmids: [205]}\n"
	return []*spec.Spec{parse(t, made), parse(t, changed), parse(t, anew)}
}

// leastModel is a host for leastSpecs, where a privilege-separated token and its
// user may do what the grants say and nothing else.
func leastModel(version string, need []proxmox.Grant) pvesim.Model {
	m := pvesim.TwoHosts()
	m.Version = version
	m.Hosts, m.Pools = m.Hosts[:1], []pvesim.Pool{{ID: "lab"}}
	m.SecurityGroups = []string{"k8s"}
	m.Hosts[0].Storages = []pvesim.Storage{
		{Name: "isos", Type: "dir", Content: []string{"iso"}, Size: 10 * pvesim.GiB},
		{Name: "images", Type: "dir", Content: []string{"import"}, Size: 10 * pvesim.GiB},
		{Name: "vmdata", Type: "zfspool", Content: []string{"images"}, Size: pvesim.TiB},
		{Name: "bulk", Type: "zfspool", Content: []string{"images"}, Size: pvesim.TiB},
	}
	const user, token = "homelab@pve", "homelab@pve!least"
	m.Roles, m.ACLs = nil, nil
	m.Users = []pvesim.User{{ID: user}}
	m.Tokens = []pvesim.Token{{ID: token, Secret: "5eed", PrivSep: true}}
	for _, r := range proxmox.Roles("homelab-least", need) {
		m.Roles = append(m.Roles, pvesim.Role{ID: r.Name, Privs: r.Privileges})
		for _, who := range []string{user, token} {
			m.ACLs = append(m.ACLs, pvesim.ACL{Path: r.Path, Who: who, Role: r.Name, NoPropagate: !r.Propagate})
		}
	}
	return m
}

// leastLife lives through all days, and says where it ended.
func leastLife(t testing.TB, version string, need []proxmox.Grant, tap func(http.RoundTripper) http.RoundTripper) (w *world, err error) {
	w = newWorld(t, leastModel(version, need))
	w.tap = tap
	w.sim.AddMapping("lent", "somebody's", "node=pve1,path=0000:21:00,id=10de:2684,iommugroup=27,subsystem-id=1043:88e2")
	untouched := w.inventory()
	specs := leastSpecs(t)
	for _, spec := range specs {
		c := w.cluster(t, spec)
		_, err := c.Up().Run(t.Context(), w.listen(t))
		c.Close()
		if err != nil {
			return w, err
		}
	}
	c := w.cluster(t, specs[len(specs)-1])
	defer c.Close()
	g, err := c.Down(t.Context())
	if err != nil {
		return w, err
	}
	if _, err = g.Run(t.Context(), w.listen(t)); err != nil {
		return w, err
	}
	if left := w.inventory(); !slices.Equal(untouched, left) {
		return w, fmt.Errorf(nobodyNoticed+": %q", left)
	}
	return w, nil
}

// versions are those that the grants are held against.
var versions = []string{"8.4.14", "9.2.11"}

func leastGrants(t testing.TB, version string) []proxmox.Grant {
	return hostprep.Grants(leastSpecs(t)[0], proxmox.Version{Version: version})
}

func TestGrantsAreEnough(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := leastLife(t, version, leastGrants(t, version), nil)
				require.NoError(t, err)
			})
		})
	}
}

// without is every way to take one privilege on one path from grants.
func without(need []proxmox.Grant) map[string][]proxmox.Grant {
	out := map[string][]proxmox.Grant{}
	for i, g := range need {
		for j, privilege := range g.Privileges {
			less := slices.Clone(need)
			less[i].Privileges = slices.Delete(slices.Clone(g.Privileges), j, j+1)
			out[g.Path+" "+privilege] = less
		}
	}
	return out
}

// The script of host:role does what it says when root runs it, and again when it is
// there already.
func TestRoleScriptIsEnough(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := leastSpecs(t)[0]
				v := proxmox.Version{Version: version}
				m := leastModel(version, nil)
				m.Users, m.Tokens = nil, nil
				m.Roles = []pvesim.Role{{ID: "homelab-least-vms", Privs: []string{"VM.Audit", "VM.Console"}}} // from an earlier file
				w := newWorld(t, m)
				shell := w.rootShell(t, "pve1")

				script := hostprep.RoleScript(spec, v, "homelab@pve!least")
				golden(t, "permissions/script-"+version[:1]+".sh", script)
				first, err := remote.Output(t.Context(), shell, "sh", "-c", script)
				require.NoError(t, err)
				secrets := tokenSecret.FindAll(first, -1)
				require.Len(t, secrets, 1, "%s", first)
				again, err := remote.Output(t.Context(), shell, "sh", "-c", script)
				require.NoError(t, err)
				assert.Empty(t, tokenSecret.FindAll(again, -1), "a secret is told once")

				pve, err := proxmox.Dial(t.Context(), proxmox.Config{
					Endpoint: "pve1", TokenID: "homelab@pve!least", TokenSecret: secret.New(string(secrets[0])), HTTPClient: w.sim.Client(),
				})
				require.NoError(t, err)
				have, err := pve.Permissions(t.Context())
				require.NoError(t, err)
				all := slices.Concat(hostprep.Grants(spec, v), hostprep.ReadGrants(spec))
				assert.Empty(t, have.Missing(all))
				for _, r := range proxmox.Roles(hostprep.RolePrefix(spec), all) {
					assert.Equal(t, r.Privileges, slices.Sorted(maps.Keys(have[r.Path])), "%s: and no more", r.Path)
				}

				for _, line := range regexp.MustCompile(`(?m)pveum (user|role) .*delete .*`).FindAllString(script, -1) {
					_, err := remote.Output(t.Context(), shell, "sh", "-c", line)
					require.NoError(t, err, "what undoes it")
				}
				for _, list := range []string{"user list", "role list", "acl list"} {
					left, err := remote.Output(t.Context(), shell, "sh", "-c", "pveum "+list+" --output-format json")
					require.NoError(t, err)
					assert.NotContains(t, string(left), "least")
				}
			})
		})
	}
}

// The table of docs/permissions.md is what is asked for, on Proxmox VE 9.
func TestPermissionsPage(t *testing.T) {
	const page, mark, head = "../docs/permissions.md", "<!-- grants -->\n\n", "| path | privilege | what for |\n|---|---|---|\n"
	var table strings.Builder
	table.WriteString(head)
	names := strings.NewReplacer("/storage/vmdata", "/storage/DISKS", "/storage/images", "/storage/IMAGES", "/storage/isos", "/storage/ISOS",
		"/nodes/pve1", "/nodes/HOST", "/vmbr0", "/BRIDGE", "/lent", "/NAME", "/lab", "/NAME", "mapping lent", "mapping NAME")
	for _, g := range leastGrants(t, "9.2.11") {
		if g.Path != "/storage/bulk" { // disks again
			table.WriteString(names.Replace(fmt.Sprintf("| `%s` | %s | %s |\n", g.Path, strings.Join(g.Privileges, ", "), g.Reason)))
		}
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), mark)
	require.True(t, found)
	have, after, found := strings.Cut(rest, "\n\n")
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+mark+table.String()+"\n"+after), 0o644))
		return
	}
	assert.Equal(t, table.String(), have+"\n", "run go test ./cluster -run TestPermissionsPage -update")
}

var tokenSecret = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// rootShell is a login as root on a host.
func (w *world) rootShell(t testing.TB, node string) *ssh.Client {
	t.Helper()
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	shell, err := w.sim.HostShell(t.Context(), node, ssh.AuthorizedKey(signer.PublicKey()))
	require.NoError(t, err)
	key, err := ssh.ParseAuthorizedKey(shell.HostKey)
	require.NoError(t, err)
	client := ssh.New(ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: w.sim.Network().Dial})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A place in the host's boot order wants more than all else, and is asked for only
// where a file says one.
func TestStartupWantsMore(t *testing.T) {
	spec := parse(t, replace(t, lab(example(t, "one-gpu")), "gpus: 1}", "gpus: 1, startup: order=2}"))
	need := hostprep.Grants(spec, proxmox.Version{Version: versions[1]})
	i := slices.IndexFunc(need, func(g proxmox.Grant) bool { return slices.Contains(g.Privileges, "Sys.Modify") })
	require.GreaterOrEqual(t, i, 0)
	assert.False(t, slices.ContainsFunc(need, func(g proxmox.Grant) bool { return slices.Contains(g.Privileges, "Sys.Audit") }), "the greater one includes it")
	try := func(t *testing.T, given []proxmox.Grant, tap func(http.RoundTripper) http.RoundTripper) error {
		m := leastModel(versions[1], given)
		m.Hosts[0] = pvesim.OneGPU().Hosts[0]
		w := newWorld(t, m)
		w.tap = tap
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		return err
	}
	synctest.Test(t, func(t *testing.T) { require.NoError(t, try(t, need, nil)) })
	less := slices.Clone(need)
	less[i].Privileges = []string{"Sys.Audit"}
	synctest.Test(t, func(t *testing.T) {
		require.ErrorContains(t, try(t, less, nil), "lacks Sys.Modify on /: set the startup order")
		require.ErrorContains(t, try(t, less, believing(t, versions[1], need)), "lacks Sys.Modify on /; run on a host as root")
	})
}

// believing is a way to Proxmox that answers one question falsely: what the token may
// do, as if it had everything. What is behind it refuses nevertheless.
func believing(t testing.TB, version string, need []proxmox.Grant) func(http.RoundTripper) http.RoundTripper {
	all := pvesim.New(leastModel(version, need), pvesim.Options{})
	t.Cleanup(all.Close)
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/access/permissions") {
				return all.Client().Transport.RoundTrip(r)
			}
			return next.RoundTrip(r)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each privilege is taken away in turn: the first step says so, and nothing has been
// changed. One who does not ask beforehand is refused later, or finds out by what is
// missing. Both are written down for people to read: testdata/permissions.
func TestEveryGrantIsNeeded(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			need := leastGrants(t, version)
			less := without(need)
			said, mine := make([]string, len(less)), share.Start(t, "privileges that are missing")
			t.Run("without", func(t *testing.T) {
				for i, what := range slices.Sorted(maps.Keys(less)) {
					if !mine.Next() {
						continue
					}
					t.Run(what, func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							said[i] = "# without " + what + "\n\n" + told(t, version, what, need, less[what])
						})
					})
				}
			})
			file := "permissions/" + version[:1] + ".txt"
			if !slices.Contains(said, "") {
				golden(t, file, strings.Join(said, "\n"))
				return
			}
			kept, err := os.ReadFile("testdata/" + file)
			require.NoError(t, err)
			for _, text := range said { // a share of them
				assert.Contains(t, string(kept), text)
			}
		})
	}
}

// told is what a user is told who lacks a privilege on a path.
func told(t *testing.T, version, what string, need, less []proxmox.Grant) string {
	w, early := leastLife(t, version, less, nil)
	require.Error(t, early, "nobody misses it")
	assert.Empty(t, w.mutations(), "it is known before anything changes")
	blind, late := leastLife(t, version, less, believing(t, version, need))
	defer blind.close()
	require.Error(t, late, "nobody misses it")
	assert.NotContains(t, late.Error(), nobodyNoticed)
	path, privilege, _ := strings.Cut(what, " ")
	for _, err := range []error{early, late} {
		assert.Contains(t, err.Error(), privilege)
		assert.Contains(t, err.Error(), path)
	}
	assert.Contains(t, early.Error(), "pveum acl modify "+path+" --tokens", "the commands")
	return "told by the first step:\n" + anonymous(early) + "\ntold on the way by one who did not ask:\n" + anonymous(late)
}

// nobodyNoticed is the end of a life that went well and left something behind.
const nobodyNoticed = "nobody noticed that this is left"

// anonymous takes digests out of an error.
func anonymous(err error) string {
	return "    " + strings.ReplaceAll(anyDigest.ReplaceAllString(err.Error(), "…"), "\n", "\n    ") + "\n"
}

var anyDigest = regexp.MustCompile(`[0-9a-f]{12}(-[0-9a-f]{8})?\b`)
