package operators

import (
	"context"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
	"github.com/cps-gpu/homelab/sim/modelengine"
)

// modelPrograms are the servers of language models. Their pods are Ready once the kubelet has taken them
// through their load.
func modelPrograms() []program {
	var out []program
	for kind, image := range modelengine.Images() {
		out = append(out, program{name: string(kind), image: image, watch: nil, sync: modelServer})
	}
	return append(out, program{name: "litellm", image: modelengine.GatewayImage, sync: modelGateway})
}

// modelServer answers for a workload, once.
func modelServer(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept != nil {
		return 0, nil
	}
	e, ok := modelengine.New(i.container.Image, slices.Concat(i.container.Command, i.container.Args))
	if !ok {
		return 0, nil
	}
	var err error
	if e.Key, err = i.variable(ctx, engineKey(e.Kind)); err != nil {
		return 0, err
	}
	at := traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}
	context.AfterFunc(ctx, i.Traffic.Handle(at, 0, e.Handler(func() bool { return true })))
	i.kept = true
	return 0, nil
}
