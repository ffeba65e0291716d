package jupyterhub_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/jupyterhub"
)

func Example() {
	gpu := jupyterhub.Pool{
		Name:   "gpu",
		Labels: map[string]string{"homelab.cps-gpu.github.com/pool": "gpu"},
		Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}},
	}
	for _, name := range []string{"wk-gpu1", "wk-gpu2"} {
		gpu.Nodes = append(gpu.Nodes, jupyterhub.Node{Name: name, CPU: 15.5, Memory: 124 * jupyterhub.GiB, GPUs: 2}) // of 16 cores and 128 GiB
	}
	hub := jupyterhub.Hub{
		Hub: spec.Hub{
			Hostname: "hub.lab.example",
			Auth:     spec.HubAuth{Kind: spec.AuthNative, Admins: []string{"teacher"}},
			Profiles: []spec.HubProfile{
				{Name: "gpu", Image: "quay.io/jupyter/pytorch-notebook:cuda12-2026-10-05", Pool: "gpu", GPUs: 1, CPU: spec.CPU{Limit: 4}, Memory: spec.Memory{Limit: 32 * jupyterhub.GiB}},
				{Name: "four", Image: "quay.io/jupyter/pytorch-notebook:cuda12-2026-10-05", Pool: "gpu", GPUs: 4, CPU: spec.CPU{Limit: 8}, Memory: spec.Memory{Limit: 64 * jupyterhub.GiB}},
			},
		},
		Pools: []jupyterhub.Pool{gpu},
	}
	report := jupyterhub.Fit(hub.Profiles, hub.Pools, hub.Quota)
	fmt.Print(report)
	fmt.Println(report.Err())

	part, err := hub.Part()
	fmt.Println(part.Release.Chart, part.Release.Namespace, hub.URL(), err)
	// Output:
	// PROFILE  gpu                       AT ONCE
	// gpu      4                         4
	// four     - a node has 2 GPUs of 4  0
	// Profiles[four]: none of its servers can ever start: on gpu: a node has 2 GPUs of 4. The largest that fits: 2 GPUs, 8 cores, 64Gi (on gpu)
	// jupyterhub jupyterhub http://hub.lab.example <nil>
}
