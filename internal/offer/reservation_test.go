package offer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
)

// What the kubelet keeps is in its arguments and in its configuration file; the arguments win.
func TestKeptBy(t *testing.T) {
	const file = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 250
kubeReserved: {cpu: 1, memory: 1Gi}
systemReserved: {cpu: 500m, memory: 512Mi}
evictionHard: {memory.available: 10%, nodefs.available: 5%}
`
	for name, x := range map[string]struct {
		agent, server any
		file          string
		role          spec.Role
		want          offer.Reservation
	}{
		"one":                {agent: "--max-pods=32", want: offer.Reservation{Pods: 32}},
		"a broken file":      {agent: []any{"config=/etc/k.yaml"}, file: "{", want: offer.Reservation{Pods: 110}},
		"too much":           {agent: []any{"reserved-cpus=0,8190-8191,8191-8192", "kube-reserved=memory=1e999"}, want: offer.Reservation{CPU: 3, Pods: 110}},
		"all is evicted":     {agent: []any{"eviction-hard=memory.available<100%"}, want: offer.Reservation{Memory: 9900 * spec.MiB, Pods: 110}},
		"no share":           {agent: []any{"eviction-hard=memory.available<x%"}, want: offer.Reservation{Pods: 110}},
		"less than usual":    {agent: []any{"eviction-hard=memory.available<-1%"}, want: offer.Reservation{Pods: 110}},
		"nothing":            {want: offer.Reservation{Pods: 110}},
		"pods":               {agent: []any{"max-pods=32"}, want: offer.Reservation{Pods: 32}},
		"reserved":           {agent: []any{"kube-reserved=cpu=500m,memory=1Gi", "system-reserved=cpu=1,memory=1Gi,ephemeral-storage=1Gi"}, want: offer.Reservation{CPU: 1.5, Memory: 2 * spec.GiB, Pods: 110}},
		"CPUs by number":     {agent: []any{"cpu-manager-policy=static", "reserved-cpus=0,2-3", "kube-reserved=cpu=9"}, want: offer.Reservation{CPU: 3, Pods: 110}},
		"eviction":           {agent: []any{"eviction-hard=memory.available<1124Mi,nodefs.available<5%"}, want: offer.Reservation{Memory: spec.GiB, Pods: 110}},
		"no more than usual": {agent: []any{"eviction-hard=nodefs.available<5%"}, want: offer.Reservation{Pods: 110}},
		"a file":             {agent: []any{"config=/etc/k.yaml"}, file: file, want: offer.Reservation{CPU: 1.5, Memory: 1536*spec.MiB + 1000*spec.MiB - 100*spec.MiB, Pods: 250}},
		"a file, and more":   {agent: []any{"config=/etc/k.yaml", "max-pods=64", "kube-reserved=cpu=2"}, file: file, want: offer.Reservation{CPU: 2.5, Memory: 512*spec.MiB + 900*spec.MiB, Pods: 64}},
		"another file":       {agent: []any{"config=/etc/other.yaml"}, file: file, want: offer.Reservation{Pods: 110}},
		"of servers":         {agent: []any{"max-pods=64"}, server: []any{"max-pods=20"}, role: spec.Server, want: offer.Reservation{Pods: 20}},
		"not of agents":      {agent: []any{"max-pods=64"}, server: []any{"max-pods=20"}, want: offer.Reservation{Pods: 64}},
		"nonsense":           {agent: []any{"max-pods=-1", "kube-reserved=cpu=x,memory=-5", "reserved-cpus=9-1,a,-3,0-999999999999", 7, "eviction-hard=memory.available<200%"}, file: "{", want: offer.Reservation{Pods: 110}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spec.Spec{}
			s.K3s.AgentConfig = map[string]any{"kubelet-arg": x.agent}
			if x.server != nil {
				s.K3s.ServerConfig = map[string]any{"kubelet-arg": x.server}
			}
			s.Guest.Files = []spec.File{{Path: "/etc/k.yaml", Content: &x.file}}
			assert.Equal(t, x.want, offer.ReservedBy(s, spec.Node{Role: x.role, Cores: 16, Memory: 10000 * spec.MiB}))
		})
	}
}

// Of 128 GiB, pods have between 123 and 126.
func TestMemory(t *testing.T) {
	have := offer.Memory(spec.Node{Memory: 128 * spec.GiB})
	assert.Greater(t, have, 123*spec.GiB)
	assert.Less(t, have, 126*spec.GiB)
}

// The kubelet does not start if it would keep all that the node has.
func TestOverReserved(t *testing.T) {
	for want, x := range map[string]struct {
		args string
		node spec.Node
	}{
		"":                                 {"kube-reserved=memory=924Mi,cpu=4", spec.Node{Memory: spec.GiB, Cores: 4}},
		"925MiB of memory, and a has 1GiB": {"kube-reserved=memory=925Mi,cpu=9", spec.Node{Name: "a", Memory: spec.GiB, Cores: 4}},
		"4.5 CPUs, and a has 4":            {"kube-reserved=cpu=4500m", spec.Node{Name: "a", Memory: spec.GiB, Cores: 4}},
	} {
		s := &spec.Spec{}
		s.K3s.AgentConfig = map[string]any{"kubelet-arg": x.args}
		assert.Equal(t, want, offer.OverReservedText(s, x.node))
		x.node.External = true
		assert.Empty(t, offer.OverReservedText(s, x.node), "its size is not known")
		assert.Empty(t, offer.OverReservedText(&spec.Spec{}, spec.Node{}), "nothing is kept of nothing")
	}
}
