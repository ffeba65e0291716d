package conform

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatIsMissingIsFound lets a product ask for what is not served, and for what
// nobody has.
func TestWhatIsMissingIsFound(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"proxmox", "sim"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	pvesim, err := filepath.Abs("../../sim/pvesim")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(pvesim, filepath.Join(root, "sim", "pvesim")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "proxmox", "calls.go"), []byte(`package proxmox

func (c *Client) calls(ctx context.Context, host string, vmid int) {
	_ = c.Do(ctx, http.MethodPost, api.VMPath(host, vmid, "mtunnel"), nil)
	path := api.NodePath(host, "no", "such")
	_ = c.Get(ctx, path, nil, nil)
	_ = c.Get(ctx, g.path("info"), nil, nil)
	_ = c.Call(ctx, http.MethodPut, "/cluster/mapping/pci/"+url.PathEscape(host), nil, nil)
}

func (g *guest) path(verb string) string { return api.VMPath(g.host, g.vmid, "agent", verb) }
`), 0o600))
	r, err := Coverage(root)
	require.NoError(t, err)
	require.ErrorContains(t, r.Err(), "proxmox calls POST /nodes/*/qemu/*/mtunnel, which pvesim does not serve")
	require.ErrorContains(t, r.Err(), "proxmox calls GET /nodes/*/no/such, which is not a method of Proxmox VE")
	assert.Contains(t, r.Product, "GET /nodes/{node}/qemu/{vmid}/agent/info")
	assert.Contains(t, r.Product, "PUT /cluster/mapping/pci/{id}")
}

func TestEachDifferenceNeedsAReasonAndEachReasonADifference(t *testing.T) {
	good := Conformance{Total: 1000, Agree: 999, Differences: []Difference{{Where: "some", Number: 7, Asked: "GET /x", What: []string{"recorded a, here b"}, Reason: "chance"}}}
	require.NoError(t, good.Err())
	unexplained := good
	unexplained.Differences = []Difference{{Where: "some", Number: 7, Asked: "GET /x", What: []string{"recorded a, here b"}}}
	require.ErrorContains(t, unexplained.Err(), "some #7 GET /x differs and differences.yaml does not say why")
	stale := good
	stale.Unused = []string{"^GET /y"}
	require.ErrorContains(t, stale.Err(), "differences.yaml has a rule that nothing needs: ^GET /y")
	few := good
	few.Agree = 10*enough - 1
	require.ErrorContains(t, few.Err(), fmt.Sprintf("%d of 1000 answers agree; at least %d %% must", few.Agree, enough))
}

func TestCompareSeesWhatIsDifferent(t *testing.T) {
	x, err := loadExcuses()
	require.NoError(t, err)
	was := exchange{Path: "/x", Status: 200, Reason: "OK", Body: `{"data":{"a":1,"list":[{"id":"1","k":"v"},{"id":"2"}],"pid":7}}`}
	for body, want := range map[string]struct {
		class string
		found []string
	}{
		`{"data":{"pid":9,"list":[{"id":"1","k":"v"},{"id":"2"}],"a":1}}`: {},
		`{"data":{"pid":"9","list":[{"id":"1","k":"v"},{"id":"2"}],"a":1}}`: {kinds,
			[]string{"data.pid: recorded a number (7), here a string (9)"}},
		`{"data":{"pid":9,"list":[{"id":"2"},{"id":"1","k":"v"}],"a":1}}`: {order,
			[]string{"data.list: recorded in the order [1 2]\n  here [2 1]"}},
		`{"data":{"pid":9,"list":[{"id":"1","k":"w"},{"id":"2"}],"b":1}}`: {keys,
			[]string{".data.a: recorded 1, and not here", `.data.list[1].k: recorded "v", here "w"`, ".data.b: here 1, and not recorded"}},
		`{"data":{"pid":9,"list":[{"id":"1","k":"v"}],"a":1}}`: {keys,
			[]string{"data.list: recorded 2 entries, here 1: not here: 2"}},
	} {
		got := was
		got.Body = body
		found, class := x.compare(was, got)
		assert.Equal(t, want.found, found)
		assert.Equal(t, want.class, class)
	}
	got := was
	for status, class := range map[int]string{500: refuses, 501: notServed} {
		got.Status, got.Reason = status, "no"
		found, is := x.compare(was, got)
		assert.Equal(t, class, is)
		assert.Contains(t, found[0], "recorded 200 OK")
	}
	_, class := x.compare(got, was)
	assert.Equal(t, accepts, class)
}
