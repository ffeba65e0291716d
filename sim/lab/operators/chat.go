package operators

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/login"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Ports of a pod of the chat. Only the first is to be reached from outside of the pod.
const chatRolesPort = 8081

// gate starts OAuth2 Proxy, once.
func gate(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		env, err := i.variables(ctx)
		if err != nil {
			return nil, err
		}
		var to *url.URL
		for _, arg := range i.container.Args {
			if at, ok := strings.CutPrefix(arg, "--upstream="); ok {
				to, err = url.Parse(at)
			}
		}
		if err != nil || to == nil {
			return nil, fmt.Errorf("OAuth2 Proxy: an upstream is wanted: %w", err)
		}
		ca, err := i.file(ctx, "login-ca", "ca.crt")
		if err != nil {
			return nil, err
		}
		return login.Gate(ctx, i.container.Args, env, i.Traffic.Client([]byte(ca)), time.Now, i.upstream(to))
	})
}

// upstream is what a proxy of a pod passes requests to: a program of the pod, or a Service.
func (i *instance) upstream(to *url.URL) http.Handler {
	if port, err := strconv.Atoi(to.Port()); err == nil && to.Hostname() == "127.0.0.1" {
		return i.Traffic.At(traffic.Inside(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}), port)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, Transport: i.Traffic.Client().Transport}
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
