package cluster_test

import (
	"fmt"
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

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// leastSpecs are the days of a cluster that wants everything a token may be asked
// for, on storages of their own for disks, the image and the ISOs, so that each grant
// is seen by itself: made; changed, with a disk that grows, a machine that restarts
// and one that goes; with one more machine, which is cloned from another template.
func leastSpecs(t testing.TB) []*cluster.Spec {
	const made = `name: least
proxmox: {endpoint: lab}
image: {storage: images, seedStorage: isos}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1, vlan: 7}
pools:
  server: {role: server, count: 1, addresses: [192.168.1.61]}
  gpu: {count: 1, addresses: [192.168.1.71], gpus: 1, cores: 4}
  lent: {count: 1, addresses: [192.168.1.72], gpus: {mapping: [lent]}, disks: {data: {storage: bulk, size: 20GiB}}}
  spare: {count: 1, addresses: [192.168.1.73], storage: bulk}
`
	changed := replace(t, made, "cores: 4", "cores: 6")
	changed = replace(t, changed, "size: 20GiB", "size: 30GiB")
	changed = replace(t, changed, "  spare: {count: 1, addresses: [192.168.1.73], storage: bulk}\n", "")
	anew := replace(t, changed, "seedStorage: isos}", "seedStorage: isos, secureBoot: true}") + "  late: {count: 1, addresses: [192.168.1.74]}\n"
	return []*cluster.Spec{parse(t, made), parse(t, changed), parse(t, anew)}
}

// leastModel is a host for leastSpecs, where a privilege-separated token and its
// user may do what the grants say and nothing else.
func leastModel(version string, need []proxmox.Grant) pvesim.Model {
	m := pvesim.TwoHosts()
	m.Version = version
	m.Hosts = m.Hosts[:1]
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
		return w, fmt.Errorf("NOBODY NOTICED: %q", left)
	}
	return w, nil
}

// versions are those that the grants are held against.
var versions = []string{"8.4.14", "9.2.11"}

func leastGrants(t testing.TB, version string) []proxmox.Grant {
	return leastSpecs(t)[0].Grants(proxmox.Version{Version: version})
}

func TestGrantsAreEnough(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := leastLife(t, version, leastGrants(t, version), nil)
				defer w.close()
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

// Each privilege is taken away in turn, from a run that does not look beforehand.
func TestEveryGrantIsNeeded(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			need := leastGrants(t, version)
			for what, less := range without(need) {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w, err := leastLife(t, version, less, nil)
						defer w.close()
						assert.Error(t, err, "nobody misses it")
						t.Log(err)
					})
				})
			}
		})
	}
}

var (
	_ = regexp.MustCompile
	_ = os.ReadFile
	_ = filepath.Join
	_ = strings.Join
)
