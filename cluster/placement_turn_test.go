package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestCardsAreWaitedForOutsideATurn: a server that is away needs a turn to come back, so
// whoever waits for it before GPUs move must not have it.
func TestCardsAreWaitedForOutsideATurn(t *testing.T) {
	const file = `
name: small
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s:
  version: v1.36.5+k3s1
  vip: 10.0.0.100
defaults: {storage: vmdata, cores: 4, memory: 8GiB}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  cp2: {role: server, address: 10.0.0.12}
  cp3: {role: server, address: 10.0.0.13, gpus: {pci: ['01:00']}}
  gpu1: {address: 10.0.0.21, gpus: {pci: ['25:00']}}
`
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		w.up(t, parse(t, file))
		time.Sleep(time.Minute)
		_, err := w.guests()["cp1"].AgentExec([]string{"systemctl", "stop", "k3s"}, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		then := strings.NewReplacer("01:00", "25:00", "25:00", "41:00").Replace(file)
		w.up(t, parse(t, then))
		w.holdsWhatItsFileNames(t, then)
	})
}

// meanwhile does something once, when a node is cordoned.
type meanwhile struct {
	next http.RoundTripper
	node string
	do   func()
	done atomic.Bool
}

func (m *meanwhile) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/nodes/"+m.node) && m.done.CompareAndSwap(false, true) {
		m.do()
	}
	return m.next.RoundTrip(r)
}

// TestOnlyTheMachineThatWasSeenGoesDown: by the end of a drain its VMID may be another's.
func TestOnlyTheMachineThatWasSeenGoesDown(t *testing.T) {
	for name, files := range map[string][2]string{
		"another card": {gpuNodes("{pci: ['01:00']}"), gpuNodes("{pci: ['41:00']}")},
		"another's":    {gpuNodes("{pci: ['01:00']}", "{pci: ['25:00']}"), gpuNodes("{pci: ['25:00']}", "{pci: ['41:00']}")},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, files[0])
				w.up(t, spec)
				time.Sleep(time.Minute)
				vm := w.vm(t, "gpu1")
				happened := false
				w.kubeTap = func(next http.RoundTripper) http.RoundTripper {
					return &meanwhile{next: next, node: "gpu1", do: func() {
						w.kubeTap, happened = nil, true
						pve := w.cluster(t, spec).Proxmox
						ours, err := pve.VMs.GetByID(t.Context(), vm.ID)
						require.NoError(t, err)
						require.NoError(t, pve.VMs.Remove(t.Context(), ours))
						w.sim.AddVM(pvesim.VM{ID: vm.ID, Node: vm.Node, Name: "theirs", Running: true})
						w.sim.ForgetRequests()
					}}
				}
				c := w.cluster(t, parse(t, files[1]))
				defer c.Close()
				_, err := c.Up().Run(t.Context(), w.listen(t))
				require.True(t, happened)
				assert.NotContains(t, strings.Join(w.mutations(), "\n"), fmt.Sprintf("/qemu/%d/", vm.ID), "it is left alone: %v", err)
			})
		})
	}
}
