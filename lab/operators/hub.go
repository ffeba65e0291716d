package operators

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/lab/traffic"
)

func hubPrograms() []program {
	return []program{
		{name: "jupyterhub", image: "jupyterhub/k8s-hub", watch: []kind{}, sync: jupyterHub},
		{name: "configurable-http-proxy", image: "configurable-http-proxy", watch: []kind{}, sync: hubProxy},
	}
}

// Ports of the hub and the proxy in front of it.
const (
	hubPort    = 8081
	serverPort = 8888
)

// hub simulates JupyterHub's API: services with tokens, users, and servers that are pods, made
// as KubeSpawner makes them of the chart's values.
type hub struct {
	*instance
	ctx    context.Context //nolint:containedctx // the hub's context, under which its servers start
	values hubValues
	tokens map[string]string // of services, by token

	mu    sync.Mutex
	users map[string]*hubUser
}

// hubUser is a user of the hub, with their server.
type hubUser struct {
	name   string
	server *hubServer
}

// hubServer is a user's server.
type hubServer struct {
	profile string
	options map[string]any
	pod     string
	pending string // spawn or stop
	ready   bool
	events  []hubEvent
	news    chan struct{} // closed at every change
}

type hubEvent struct {
	Progress int    `json:"progress"`
	Message  string `json:"message"`
	Ready    bool   `json:"ready,omitempty"`
	Failed   bool   `json:"failed,omitempty"`
	URL      string `json:"url,omitempty"`
}

// jupyterHub starts a hub: it reads its configuration once, as the real one does, so a later
// change of a Secret has no effect until the pod is recreated.
func jupyterHub(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept != nil {
		return 0, nil
	}
	h := &hub{instance: i, ctx: ctx, tokens: map[string]string{}, users: map[string]*hubUser{}}
	if err := h.configure(ctx); err != nil {
		return 0, err
	}
	if err := h.recall(ctx); err != nil {
		return 0, err
	}
	release := i.Traffic.Handle(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}, hubPort, h.api())
	context.AfterFunc(ctx, release)
	i.kept = h
	return 0, nil
}

// hubValues are the chart's values that the hub uses, with those of its Secret merged over
// them (files/hub/z2jh.py of the chart).
type hubValues struct {
	Hub struct {
		Services  map[string]map[string]any `json:"services"`
		LoadRoles map[string]struct {
			Scopes   []string `json:"scopes"`
			Services []string `json:"services"`
		} `json:"loadRoles"`
		AllowNamedServers bool `json:"allowNamedServers"`
	} `json:"hub"`
	Singleuser singleuser `json:"singleuser"`
	Scheduling struct {
		UserPods struct {
			Tolerations []any `json:"tolerations"`
		} `json:"userPods"`
	} `json:"scheduling"`
}

func (h *hub) configure(ctx context.Context) error {
	merged, keys := map[string]any{}, map[string][]byte{}
	for _, v := range h.pod.Spec.Volumes {
		if v.Secret == nil || v.Name != "secret" && v.Name != "existing-secret" {
			continue
		}
		s, err := h.Client.CoreV1().Secrets(h.pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the hub's configuration: %w", err)
		}
		var values map[string]any
		if err := yaml.Unmarshal(s.Data["values.yaml"], &values); err != nil {
			return fmt.Errorf("values.yaml of secret %s: %w", s.Name, err)
		}
		mergeInto(merged, values)
		maps.Copy(keys, s.Data) // the existing one stands after the chart's own
	}
	text, err := yaml.Marshal(merged)
	if err != nil {
		return fmt.Errorf("the hub's configuration: %w", err)
	}
	if err := yaml.Unmarshal(text, &h.values); err != nil {
		return fmt.Errorf("the hub's configuration: %w", err)
	}
	for name, service := range h.values.Hub.Services {
		token, _ := service["apiToken"].(string)
		if token == "" {
			token, _ = service["api_token"].(string)
		}
		if token == "" {
			token = string(keys["hub.services."+name+".apiToken"])
		}
		if token != "" {
			h.tokens[token] = name
		}
	}
	return nil
}

// mergeInto merges b over a, tables recursively.
func mergeInto(a, b map[string]any) {
	for key, value := range b {
		old, isTable := a[key].(map[string]any)
		if over, ok := value.(map[string]any); ok && isTable {
			mergeInto(old, over)
			continue
		}
		a[key] = value
	}
}

// scopes are what a service may do.
func (h *hub) scopes(service string) []string {
	var out []string
	for _, role := range h.values.Hub.LoadRoles {
		if slices.Contains(role.Services, service) {
			out = append(out, role.Scopes...)
		}
	}
	slices.Sort(out)
	return out
}

// may reports whether a service has a scope for a user.
func (h *hub) may(service, scope, user string) bool {
	return slices.ContainsFunc(h.scopes(service), func(s string) bool {
		name, filter, narrow := strings.Cut(s, "!")
		return name == scope && (!narrow || filter == "user="+user)
	})
}

// recall finds the servers that an earlier hub started.
func (h *hub) recall(ctx context.Context) error {
	pods, err := h.Client.CoreV1().Pods(h.pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "component=" + serverComponent})
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	for n := range pods.Items {
		pod := &pods.Items[n]
		name := pod.Annotations["hub.jupyter.org/username"]
		s := &hubServer{pod: pod.Name, ready: traffic.Ready(pod), news: make(chan struct{})}
		h.users[name] = &hubUser{name: name, server: s}
		h.serve(s)
	}
	return nil
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

// gone reports whether something was removed already, which counts as success.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
