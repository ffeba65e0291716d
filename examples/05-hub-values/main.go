// Command 05-hub-values writes the values of a JupyterHub with three profiles for its
// chart, Zero to JupyterHub:
//
//	go run . hub.lab.example > values.yaml
//
// A profile that fits on no node is refused, with the largest that would fit.
package main

import (
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/jupyterhub"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: hub-values HOSTNAME")
	}
	const image = "quay.io/jupyter/pytorch-notebook:cuda12-2026-10-05"
	pool := jupyterhub.Pool{
		Name: "gpu", Labels: map[string]string{"pool": "gpu"},
		Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}},
	}
	for _, name := range []string{"wk-gpu1", "wk-gpu2"} {
		pool.Nodes = append(pool.Nodes, jupyterhub.Node{Name: name, CPU: 15.5, Memory: 124 * jupyterhub.GiB, GPUs: 2}) // of 16 cores and 128 GiB
	}
	hub := jupyterhub.Hub{
		Hub: spec.Hub{
			Hostname: os.Args[1], Auth: spec.HubAuth{Kind: spec.AuthNative, Admins: []string{"teacher"}},
			Profiles: []spec.HubProfile{
				{Name: "small", Image: image, Pool: "gpu", CPU: spec.CPU{Limit: 2}, Memory: spec.Memory{Limit: 8 * spec.GiB}},
				{Name: "gpu", Title: "One GPU", Image: image, Pool: "gpu", GPUs: 1, CPU: spec.CPU{Limit: 4}, Memory: spec.Memory{Limit: 32 * spec.GiB}},
				{Name: "two", Title: "Two", Image: image, Pool: "gpu", GPUs: 2, CPU: spec.CPU{Limit: 8}, Memory: spec.Memory{Limit: 64 * spec.GiB}, Groups: []string{"lab"}},
			},
		},
		Pools: []jupyterhub.Pool{pool},
	}
	fit := hub.Fit()
	fmt.Fprint(os.Stderr, fit)
	if err := fit.Err(); err != nil {
		log.Fatal(err)
	}
	values, err := hub.Values()
	if err != nil {
		log.Fatal(err)
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
}
