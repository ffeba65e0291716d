package proxmox_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestALeaseThatNamesNobody: what a qmcreate that died, or another owner's hand in the notes,
// has left is taken over, or its cure is told, and nobody waits for it for ever.
func TestALeaseThatNamesNobody(t *testing.T) {
	impatient := func(h converge.LeaseHolder) error {
		return &converge.LeaseHeldError{What: "cluster a100", LeaseHolder: h}
	}
	ours := "homelab-a100-lease"
	for name, left := range map[string]struct {
		pvesim.VM
		err string // %d: its VMID; "": it is taken over
	}{
		"half made": {
			pvesim.VM{Config: map[string]string{"lock": "create"}},
			"VM %d on pve1, the lease of this cluster, was never completely created: on the host run qm unlock %[1]d && qm destroy %[1]d",
		},
		"made, locked": {
			pvesim.VM{Name: ours, Config: map[string]string{"lock": "create", "description": "run: x"}},
			"VM %d on pve1, the lease of this cluster, was never completely created",
		},
		"without notes":   {pvesim.VM{Name: ours}, ""},
		"with other ones": {pvesim.VM{Name: ours, Config: map[string]string{"description": "what is this?"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				left.ID, left.Node = leaseID(t, sim, c), "pve1"
				sim.AddVM(left.VM)
				begin := time.Now()
				_, _, err := acquire(t.Context(), c, claim("student1@ci"), impatient)
				require.ErrorAs(t, err, new(*converge.LeaseHeldError))
				assert.Less(t, time.Since(begin), 10*time.Second)
				_, l, err := acquire(t.Context(), c, claim("student1@ci"), patient)
				assert.InDelta(t, 90, time.Since(begin).Seconds(), 20)
				if left.err != "" {
					require.ErrorContains(t, err, strings.Split(fmt.Sprintf(left.err, left.ID), "%!")[0])
					require.NotErrorAs(t, err, new(*converge.LeaseHeldError), "no run holds it")
					return
				}
				require.NoError(t, err)
				require.NoError(t, l.Release(t.Context()))
				assert.Zero(t, leases(t, c))
			})
		})
	}
}

// TestSomebodysVMWithoutAName: it is written over and destroyed as little as one with a name.
func TestSomebodysVMWithoutAName(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		id := leaseID(t, sim, c)
		sim.AddVM(pvesim.VM{ID: id, Node: "pve1", Config: map[string]string{"description": "mine"}})
		_, _, err := acquire(t.Context(), c, claim("student1@ci"), patient)
		require.ErrorContains(t, err, fmt.Sprintf("VM %d (without a name) on pve1 belongs to somebody else", id))
		assert.Len(t, sim.VMs(), 1)
	})
}

// leaseID is the VMID of the lease of cluster a100.
func leaseID(t testing.TB, sim *pvesim.Sim, c *proxmox.Client) int {
	_, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
	require.NoError(t, err)
	id := where(t, sim).ID
	require.NoError(t, l.Release(t.Context()))
	return id
}

// hostless answers that there is no host, as long as it is on.
type hostless struct {
	http.RoundTripper
	on atomic.Bool
}

func (h *hostless) RoundTrip(r *http.Request) (*http.Response, error) {
	if !h.on.Load() || !strings.HasSuffix(r.URL.Path, "/nodes") {
		return h.RoundTripper.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"data":[]}`)),
	}, nil
}

// TestALeaseWithoutHosts: Proxmox names no host, as while its cluster's files come up, or
// to a token that may see none; that may pass.
func TestALeaseWithoutHosts(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, _ *proxmox.Client) {
		way := &hostless{}
		id, value := sim.Token()
		c, err := proxmox.Dial(t.Context(), proxmox.Config{
			Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client(),
			Wrap: func(rt http.RoundTripper) http.RoundTripper { way.RoundTripper = rt; return way },
		})
		require.NoError(t, err)
		way.on.Store(true)
		_, _, err = acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.ErrorContains(t, err, "the lease has no host to be created on: Proxmox lists none, for 10m")
		time.AfterFunc(time.Minute, func() { way.on.Store(false) })
		_, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
	})
}
