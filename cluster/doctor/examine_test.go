package doctor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestCollect: every machine is looked at, from outside and from inside, and what does not answer is in the evidence.
func TestCollect(t *testing.T) {
	lost := errors.New("lost")
	disk := func(storage string) spec.DiskOptions { return spec.DiskOptions{Storage: storage} }
	divided := spec.GPURequest{Count: 1, Sharing: spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{Profiles: map[string]int{"1g.5gb": 7}}}}}
	file := &spec.Spec{Nodes: []spec.Node{
		{Name: "cp1", Host: "pve1", OSDisk: spec.OSDisk{DiskOptions: disk("a")}, Disks: []spec.Disk{{DiskOptions: disk("b")}}}, {Name: "gpu1", Host: "pve2", GPUs: divided},
		{Name: "away", Host: "pve1", OSDisk: spec.OSDisk{DiskOptions: disk("c")}}, {Name: "nuc", External: true, Host: "pve1"}, {Name: "files", Role: spec.FileServer},
	}}
	var mu sync.Mutex
	asked := map[string]int{}
	s := Sources{
		Spec: file, Away: lost, LastRun: &FailedRun{},
		VM: func(_ context.Context, name string) (*proxmox.VM, error) {
			if name == "away" {
				return nil, lost
			}
			return &proxmox.VM{Name: name}, nil
		},
		Root: func(name string) remote.Runner {
			return remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
				mu.Lock()
				defer mu.Unlock()
				if asked[name]++; name == "away" || c.Args[2] != observeScript {
					return lost
				}
				_, err := c.Stdout.Write([]byte(seen))
				return err
			})
		},
		Kube: func(context.Context) (*kube.Client, error) { return nil, lost },
	}
	s.Kubernetes = func(ctx context.Context, n spec.Node) (Kubernetes, error) {
		return Kubernetes{}, remote.Run(ctx, s.Root(n.Name), "sh", "-c", "kubernetes")
	}
	s.Certificates = func(ctx context.Context, n spec.Node) ([]Certificate, error) {
		return nil, remote.Run(ctx, s.Root(n.Name), "sh", "-c", "certificates")
	}
	e := Collect(t.Context(), s)
	assert.Equal(t, []any{lost, lost, s.LastRun, file}, []any{e.Proxmox, e.API, e.LastRun, e.Spec})
	require.Len(t, e.Machines, 5)
	for i, m := range e.Machines {
		assert.Equal(t, file.Nodes[i].Name, m.Name)
		assert.Equal(t, m.Name != "away" && m.Name != "nuc", m.VM != nil, m.Name)
		assert.Equal(t, m.VM != nil, m.Asked, m.Name)
		assert.Equal(t, m.Name == "away", m.Err != nil, m.Name)
		assert.Equal(t, m.Err == nil && m.Role != spec.FileServer, m.KubernetesErr != nil, m.Name)
		assert.Equal(t, m.Name == "gpu1", m.DrvErr != nil, m.Name)
		assert.Equal(t, m.Err == nil, len(m.State.Disks) > 0, m.Name)
		assert.True(t, m.MIG == nil && m.Driver == nil, "neither was seen")
	}
	assert.Equal(t, map[string]int{"cp1": 3, "gpu1": 5, "away": 1, "nuc": 3, "files": 1}, asked)
	assert.Equal(t, []string{"a", "b", "c"}, s.storages("pve1"))
	s.HasDriver = func(n spec.Node) bool { return n.Name == "cp1" }
	assert.True(t, s.hasDriver(file.Nodes[0]))
	assert.False(t, s.hasDriver(file.Nodes[1]))

	r, err := Examine(t.Context(), s)
	require.NoError(t, err)
	assert.NotEmpty(t, r.Findings)
	assert.NotZero(t, r.Took)
	over, end := context.WithCancel(t.Context())
	end()
	_, err = Examine(over, s)
	require.ErrorIs(t, err, context.Canceled)
}

// Of a host of the file it is known whether it is online, which of its storages are used, and which cards have a problem.
func TestHosts(t *testing.T) {
	model := pvesim.TwoHosts()
	model.Hosts[1].Offline = true
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(model, pvesim.Options{})
		defer sim.Close()
		id, token := sim.Token()
		c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: sim.Client()})
		require.NoError(t, err)
		cards := map[string][]Card{"pve1": {{}}}
		var lost error
		s := Sources{
			Spec: &spec.Spec{Proxmox: spec.Proxmox{Hosts: []spec.Host{{Name: "pve1"}, {Name: "pve2"}, {Name: "pve3"}}},
				Nodes: []spec.Node{{Name: "cp1", Host: "pve1", OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "vmdata"}}}}},
			Proxmox: c,
			Cards:   func(context.Context) (map[string][]Card, error) { return cards, lost },
		}
		all, err := s.hosts(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 3)
		for i, h := range all {
			assert.Equal(t, s.Spec.Proxmox.Hosts[i].Name, h.Name)
			assert.Equal(t, i == 0, h.Online, h.Name)
			assert.Equal(t, cards[h.Name], h.Cards)
			assert.NoError(t, h.Err)
		}
		require.Len(t, all[0].Storages, 1)
		assert.Equal(t, "vmdata", all[0].Storages[0].Name)
		lost = errors.New("no cards")
		_, err = s.hosts(t.Context())
		require.ErrorIs(t, err, lost)
		time.Sleep(time.Minute) // answers are shared for a moment
		sim.Fail(pvesim.Rule{Path: "^/nodes$", Times: -1, Status: 403, Message: "no nodes"})
		_, err = s.hosts(t.Context())
		require.ErrorContains(t, err, "no nodes")
	})
}
