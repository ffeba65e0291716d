package operators

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/login"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Ports of a pod of the chat. Only the first is to be reached from outside of the pod.
const chatRolesPort = 8081

// chatGate starts OAuth2 Proxy, once.
func chatGate(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		env, err := i.variables(ctx)
		if err != nil {
			return nil, err
		}
		at := traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}
		return login.Gate(i.container.Args, env, i.Traffic.Client(), time.Now, i.Traffic.At(traffic.Inside(at), chatRolesPort))
	})
}

// chatRoles starts nginx between it and Open WebUI, once.
func chatRoles(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveInside(ctx, chatRolesPort, func(at traffic.Place) (http.Handler, error) {
		config, err := i.file(ctx, "roles", "nginx.conf")
		return login.Roles(config, i.Traffic.At(at, 8080)), err
	})
}

// chat starts Open WebUI, once.
func chat(ctx context.Context, i *instance) (time.Duration, error) {
	port, err := strconv.Atoi(i.environment("PORT"))
	if err != nil {
		return 0, err
	}
	return 0, i.serveInside(ctx, port, func(traffic.Place) (http.Handler, error) {
		env, err := i.variables(ctx)
		return login.Chat(env, i.Traffic.Client(), time.Now), err
	})
}

// serveInside lets a program answer at 127.0.0.1 of its pod.
func (i *instance) serveInside(ctx context.Context, port int, start func(traffic.Place) (http.Handler, error)) error {
	if i.kept != nil {
		return nil
	}
	at := traffic.Inside(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)})
	h, err := start(at)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, i.Traffic.Handle(at, port, h))
	i.kept = true
	return nil
}
