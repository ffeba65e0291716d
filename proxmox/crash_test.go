package proxmox_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// crash ends a process at its n-th request that changes something: just before it
// is sent, or just after it was served, when the answer has no reader any more.
type crash struct {
	next   http.RoundTripper
	n      int
	before bool
	kill   context.CancelFunc
	seen   int
}

func (c *crash) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return c.next.RoundTrip(r)
	}
	if c.seen++; c.seen != c.n {
		return c.next.RoundTrip(r)
	}
	if !c.before {
		if res, err := c.next.RoundTrip(r); err == nil {
			_ = res.Body.Close()
		}
	}
	c.kill()
	return nil, context.Canceled
}

// converges checks that a fresh process brings the VM up, once.
func converges(t *testing.T, sim *pvesim.Sim, spec proxmox.VMSpec) {
	c := dialSim(t, sim)
	require.NoError(t, ensure(t.Context(), c, spec))
	all, err := c.VMs.List(t.Context(), owner)
	require.NoError(t, err)
	require.Len(t, all, 2, "the template and one VM, not two")
	disks, err := c.Storages.Volumes(t.Context(), "pve1", "vmdata", "images")
	require.NoError(t, err)
	count := map[int]int{}
	for _, d := range disks {
		count[d.VMID]++
	}
	assert.Equal(t, 3, count[all[1].VMID], "OS, firmware variables and scratch: %v", disks)
	before := len(sim.Requests())
	require.NoError(t, ensure(t.Context(), c, spec))
	assert.Empty(t, mutations(sim, before))
}

func crashing(t *testing.T, sim *pvesim.Sim, c *crash) *proxmox.Client {
	id, value := sim.Token()
	c.next = sim.Client().Transport
	client, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: &http.Client{Transport: c}})
	require.NoError(t, err)
	return client
}

func scratchNode(t *testing.T, c *proxmox.Client) proxmox.VMSpec {
	spec := node(t, c, "cp1")
	spec.Disks = append(spec.Disks, proxmox.Disk{Slot: "scsi1", Storage: "vmdata", Size: 200 * proxmox.GiB, Serial: "scratch"})
	return spec
}

func TestCrashAtEveryRequest(t *testing.T) {
	mine := share.Start(t, "deaths at requests")
	for n := 1; n <= 4; n++ {
		for _, before := range []bool{true, false} {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprintf("%d before=%t", n, before), func(t *testing.T) {
				bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
					template(t, c)
					spec := scratchNode(t, c)
					ctx, cancel := context.WithCancel(t.Context())
					require.ErrorIs(t, ensure(ctx, crashing(t, sim, &crash{n: n, before: before, kill: cancel}), spec), context.Canceled)
					converges(t, sim, spec)
				})
			})
		}
	}
}

func TestCrashAtAnyTime(t *testing.T) {
	mine := share.Start(t, "deaths at times")
	for at := 50 * time.Millisecond; at < 6*time.Second; at += 210 * time.Millisecond {
		if !mine.Next() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, pvesim.EightA100(), pvesim.Options{CleanupLinger: 3 * time.Second}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				template(t, c)
				spec := scratchNode(t, c)
				ctx, cancel := context.WithTimeout(t.Context(), at)
				defer cancel()
				if ensure(ctx, dialSim(t, sim), spec) == nil {
					t.Skip("done before")
				}
				converges(t, sim, spec)
			})
		})
	}
}

// A run that reads the list of VMs while an earlier run's clone is not in it yet, and clones once
// that has ended, finds the earlier clone instead of making a second one.
func TestAnEarlierCloneEndsMeanwhile(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := scratchNode(t, c)
		next := dialSim(t, sim)
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, ensure(ctx, crashing(t, sim, &crash{n: 1, kill: cancel}), spec), context.Canceled)
		vm, err := next.VMs.Get(t.Context(), spec.Owner, spec.Name)
		require.NoError(t, err)
		require.Nil(t, vm, "it has no name yet")
		time.Sleep(1900 * time.Millisecond) // the clone ends, and the list is still shared
		require.NoError(t, next.VMs.Shape(t.Context(), spec, nil))
		converges(t, sim, spec)
	})
}
