package hub

import (
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/login"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// serverPort is where a user's server answers at its pod's address.
const serverPort = 8888

// Options are the hub's access to its cluster.
type Options struct {
	Pod     *corev1.Pod // the hub's own, which has its configuration
	Port    int
	Client  kubernetes.Interface
	Traffic *traffic.Traffic
	// Exec runs a command in the first container of a running pod.
	Exec func(ctx context.Context, pod *corev1.Pod, args []string) (code int, output string, err error)
	// Go runs what the caller waits for after ctx has ended.
	Go func(func())
}

// hub simulates JupyterHub: services with tokens, users with sessions, and servers that are
// pods, made as KubeSpawner makes them of the chart's values.
type hub struct {
	Options
	ctx    context.Context //nolint:containedctx // the hub's context, under which its servers start
	values hubValues
	tokens map[string]string // of services, by token

	passwords struct{ user, admin string } // of all, where one password is everybody's

	now   func() time.Time
	web   *http.Client  // for what is in the cluster
	oauth *login.Client // who people sign in with; nil: the hub's own page asks for a password

	mu       sync.Mutex
	users    map[string]*hubUser
	sessions map[string]*session // by cookie

	userTokens map[string]string // users by their tokens
	hostKey    xssh.Signer       // of servers' SSH
}

// hubUser is a user of the hub, with their server.
type hubUser struct {
	name   string
	groups []string // as the provider says
	server *hubServer
	failed string // why the last server did not start
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

// Start starts a hub, which ends with ctx. It reads its configuration once, as the real one
// does, so a later change of a Secret has no effect until the pod is recreated.
func Start(ctx context.Context, o Options) error {
	h, err := start(ctx, o)
	if err != nil {
		return err
	}
	release := o.Traffic.Handle(traffic.Place{Namespace: o.Pod.Namespace, Workload: traffic.Workload(o.Pod)}, o.Port, h.handler())
	context.AfterFunc(ctx, release)
	return nil
}

func start(ctx context.Context, o Options) (*hub, error) {
	key, err := newHostKey()
	if err != nil {
		return nil, err
	}
	h := &hub{Options: o, ctx: ctx, tokens: map[string]string{}, users: map[string]*hubUser{}, sessions: map[string]*session{}, now: time.Now, web: o.Traffic.Client(),
		userTokens: map[string]string{}, hostKey: key}
	if err := h.configure(ctx); err != nil {
		return nil, err
	}
	return h, h.recall(ctx)
}

// trust lets the hub trust the authorities of its bundle.
func (h *hub) trust(ctx context.Context) error {
	for _, v := range h.Pod.Spec.Volumes {
		if v.Name != "homelab-ca" || v.ConfigMap == nil {
			continue
		}
		bundle, err := h.Client.CoreV1().ConfigMaps(h.Pod.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the hub's authorities: %w", err)
		}
		h.web = h.Traffic.Client([]byte(bundle.Data["ca.crt"]))
	}
	return nil
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
		TemplateVars struct {
			Announcement template.HTML `json:"announcement"` // taken for HTML, as by the real one's page.html
		} `json:"templateVars"`
		AllowNamedServers bool        `json:"allowNamedServers"`
		Config            loginConfig `json:"config"`
	} `json:"hub"`
	Singleuser singleuser `json:"singleuser"`
	Scheduling struct {
		UserPods struct {
			Tolerations []any `json:"tolerations"`
		} `json:"userPods"`
	} `json:"scheduling"`
	Custom struct {
		Homelab struct {
			ProfileGroups map[string][]string `json:"profileGroups"`
			VerifyUser    string              `json:"verifyUser"`
		} `json:"homelab"`
	} `json:"custom"`
}

func (h *hub) configure(ctx context.Context) error {
	merged, keys := map[string]any{}, map[string][]byte{}
	for _, v := range h.Pod.Spec.Volumes {
		if v.Secret == nil || v.Name != "secret" && v.Name != "existing-secret" {
			continue
		}
		s, err := h.Client.CoreV1().Secrets(h.Pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
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
	if err := h.trust(ctx); err != nil {
		return err
	}
	h.oauth = h.provider()
	h.passwords.user, h.passwords.admin = string(keys["user-password"]), string(keys["admin-password"])
	return nil
}

// mergeInto merges b over a, tables recursively; what is null in b goes.
func mergeInto(a, b map[string]any) {
	for key, value := range b {
		if value == nil {
			delete(a, key)
			continue
		}
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
	pods, err := h.Client.CoreV1().Pods(h.Pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "component=" + Component})
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
