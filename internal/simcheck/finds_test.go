package simcheck

import (
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
	require.NoError(t, os.Mkdir(filepath.Join(root, "proxmox"), 0o755))
	pvesim, err := filepath.Abs("../../proxmox/pvesim")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(pvesim, filepath.Join(root, "proxmox", "pvesim")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "proxmox", "calls.go"), []byte(`package proxmox

func (c *Client) calls(ctx context.Context, host string, vmid int) {
	_ = c.do(ctx, http.MethodPost, vmPath(host, vmid, "vncproxy"), nil)
	path := nodePath(host, "no", "such")
	_ = c.get(ctx, path, nil, nil)
	_ = c.get(ctx, g.path("info"), nil, nil)
	_ = c.call(ctx, http.MethodPut, "/cluster/mapping/pci/"+url.PathEscape(host), nil, nil)
}

func (g *guest) path(verb string) string { return vmPath(g.host, g.vmid, "agent", verb) }
`), 0o600))
	r, err := Coverage(root)
	require.NoError(t, err)
	require.ErrorContains(t, r.Err(), "proxmox calls POST /nodes/*/qemu/*/vncproxy, which pvesim does not serve")
	require.ErrorContains(t, r.Err(), "proxmox calls GET /nodes/*/no/such, which is no method of Proxmox's")
	assert.Contains(t, r.Product, "GET /nodes/{node}/qemu/{vmid}/agent/info")
	assert.Contains(t, r.Product, "PUT /cluster/mapping/pci/{id}")
}

func TestEachDifferenceNeedsAReasonAndEachReasonADifference(t *testing.T) {
	good := Conformance{Total: 100, Agree: 99, Differences: []Difference{{Number: 7, Asked: "GET /x", What: []string{"recorded a, here b"}, Reason: "chance"}}}
	require.NoError(t, good.Err())
	unexplained := good
	unexplained.Differences = []Difference{{Number: 7, Asked: "GET /x", What: []string{"recorded a, here b"}}}
	require.ErrorContains(t, unexplained.Err(), "#7 GET /x differs and differences.yaml does not say why")
	stale := good
	stale.Stale = []int{3}
	require.ErrorContains(t, stale.Err(), "differences.yaml explains #3, which agrees")
	few := good
	few.Agree = 94
	require.ErrorContains(t, few.Err(), "94 of 100 answers agree; at least 95 % must")
}

func TestCompareSeesWhatIsDifferent(t *testing.T) {
	was := exchange{Path: "/x", Status: 200, Reason: "OK", Body: `{"data":{"a":1,"list":[{"id":"1","k":"v"},{"id":"2"}],"pid":7}}`}
	got := was
	got.Body = `{"data":{"pid":9,"list":[{"id":"2"},{"id":"1","k":"v"}],"a":1}}`
	assert.Empty(t, compare(was, got), "neither order nor figures count")
	got.Body = `{"data":{"pid":9,"list":[{"id":"2"},{"id":"1","k":"w"}],"b":1}}`
	assert.Equal(t, []string{".data.a: recorded, and not here", ".data.list[1].k: recorded v, here w", ".data.b: here, and not recorded"}, compare(was, got))
	got.Status, got.Reason = 500, "no"
	assert.Equal(t, []string{`recorded "200 OK", here "500 no"`}, compare(was, got))
}
