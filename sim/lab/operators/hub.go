package operators

import (
	"context"
	"net/http"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/hub"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

func hubPrograms() []program {
	return []program{
		{name: "jupyterhub", image: "jupyterhub/k8s-hub", watch: []kind{}, sync: jupyterHub},
		{name: "configurable-http-proxy", image: "configurable-http-proxy", watch: []kind{}, sync: hubProxy},
	}
}

// hubPort is the port of the hub, behind the proxy.
const hubPort = 8081

// jupyterHub starts a hub, once.
func jupyterHub(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept != nil {
		return 0, nil
	}
	if err := hub.Start(ctx, hub.Options{Pod: i.pod, Port: hubPort, Client: i.Client, Traffic: i.Traffic, Exec: i.Exec, Go: i.all.Go}); err != nil {
		return 0, err
	}
	i.kept = true
	return 0, nil
}

// hubProxy simulates the proxy: everything goes to the hub, which here also forwards to
// servers.
func hubProxy(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept != nil {
		return 0, nil
	}
	release := i.Traffic.Handle(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := i.Traffic.Service(i.pod.Namespace, "hub", "", hubPort)
		if err != nil {
			http.Error(w, "Service Unavailable: the hub does not answer", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}))
	context.AfterFunc(ctx, release)
	i.kept = true
	return 0, nil
}
