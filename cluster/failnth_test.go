package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// failingFile has parts of every kind, and one machine that is nobody's VM.
const failingFile = `
name: lab
nodes: {a: {role: server, external: ops@10.0.0.40}}
storage: {default: nfs, nfs: {server: 192.168.1.5, export: /export/k3s}}
tls: self-signed
hub: {hostname: hub.lab.example, auth: dummy, profiles: {small: {cpu: 1, memory: 2GiB}}}
fleet: {repo: 'http://127.0.0.1/gpu.git', username: homelab, password: env:GIT_TOKEN}
`

// failing is a cluster of that file with an API, without its machines.
func failing(t *testing.T, text string) (inside, *kubesim.Cluster, *kubetest.FailNth) {
	t.Helper()
	t.Setenv("GIT_TOKEN", "correct horse battery")
	charts, err := filepath.Abs("../sim/lab/charts")
	require.NoError(t, err)
	c, err := New(fileOf(t, text+"charts: {folder: "+charts+", offline: true, via: {jupyterhub: fleet}}\n"), Backend{Dir: t.TempDir(),
		Dial:    func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") },
		GitDial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way to Git") }})
	require.NoError(t, err)
	client, sim, way := kubetest.Kubernetes(t)
	in := insideOf(c)
	in.members.SetClient(client, "")
	t.Cleanup(c.Close)
	return in, sim, way
}

// inside is a cluster with the steps of one run.
type inside struct {
	*Cluster
	*flow
}

func insideOf(c *Cluster) inside { return inside{c, c.site.flow()} }

func usual(t *testing.T) (inside, *kubesim.Cluster, *kubetest.FailNth) {
	return failing(t, failingFile)
}

func withoutAPI(c inside) error {
	c.members.SetClient(nil, "")
	return members.ErrNoServer
}

func kubeOf(t *testing.T, c inside) *kube.Client {
	t.Helper()
	client, err := c.Kube(t.Context())
	require.NoError(t, err)
	return client
}

// Every request of a step that Kubernetes refuses fails the step, and it says with what.
func TestKubernetesRefusesAStep(t *testing.T) {
	const node = "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: true}}"
	for name, tt := range map[string]kubetest.Refusals[inside]{
		"a password is read": {There: "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: kube-system}, data: {k: aGk=}}", Step: func(ctx context.Context, c inside) error {
			client, err := c.members.Kube(ctx)
			if err != nil {
				return err
			}
			return kubetest.ErrOf(Password{Namespace: "kube-system", Name: "s", Key: "k"}.Read(ctx, client))
		}},
		"Fleet's state":     {Step: func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.FleetState(ctx, "")) }},
		"a node is emptied": {There: node, Step: func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.members.Drain(ctx, "a")) }},
		"a node is deleted": {There: node, Step: func(ctx context.Context, c inside) error { return c.members.DeleteNode(ctx, "a") }},
		"a node is marked": {There: node, Step: func(ctx context.Context, c inside) error {
			n, _ := c.spec.Node("a")
			return c.members.SettleNode(ctx, "a", c.members.Marks(n))
		}},
	} {
		t.Run(name, func(t *testing.T) { tt.Run(t, usual, withoutAPI) })
	}
}

// So does every request with which a part goes.
func TestKubernetesRefusesToLetGo(t *testing.T) {
	at := func(kind, name string) []kube.Ref {
		return []kube.Ref{{APIVersion: "v1", Kind: kind, Namespace: "kube-system", Name: name}}
	}
	old := parts.Record{Part: "old", Namespace: "old", Classes: []string{"slow"}, Before: at("ConfigMap", "before"), After: at("ConfigMap", "after"), Secrets: at("Secret", "given")}
	for name, step := range map[string]func(ctx context.Context, c inside) error{
		"leftovers are looked for": func(ctx context.Context, c inside) error { return kubetest.ErrOf(c.leftoversStep().Observe(ctx)) },
		"leftovers go": func(ctx context.Context, c inside) error {
			return c.leftoversStep().Apply(ctx, leftovers{parts: []parts.Record{old}, given: []parts.Record{{Part: "theirs"}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			kubetest.Refusals[inside]{Step: step, Before: func(ctx context.Context, c inside) error {
				return kubetest.ErrOf(kubeOf(t, c).Apply(ctx, old.Object()))
			}}.Run(t, usual, withoutAPI)
		})
	}
}

// What was shown as left over goes only if it still is, and is still the same; a part that
// was to stay when it was shown stays.
func TestLeftoversThatChangedSinceTheyWereShown(t *testing.T) {
	at := []kube.Ref{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "thing"}}
	old := parts.Record{Part: "old", Classes: []string{"slow"}, Before: at}
	thing := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "thing"}}
	}
	const volumes = `{"apiVersion":"v1","kind":"PersistentVolumeList","metadata":{},"items":[{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},` +
		`"spec":{"storageClassName":"slow","claimRef":{"namespace":"kube-system","name":"y"}},"status":{"phase":"Bound"}}]}`
	for name, tt := range map[string]struct {
		claimed   bool // a claim is bound to a volume of its class, when it is shown
		meanwhile func(ctx context.Context, client *kube.Client) error
		err       string // "" for none
		gone      bool
	}{
		"nothing happens": {gone: true},
		"somebody has taken it for his own": {meanwhile: func(ctx context.Context, client *kube.Client) error {
			return client.Delete(ctx, old.Object())
		}},
		"it is another": {meanwhile: func(ctx context.Context, client *kube.Client) error {
			other := old
			other.Namespace, other.Release = "old", "new"
			return kubetest.ErrOf(client.Apply(ctx, other.Object()))
		}, err: "part old changed after it was shown: run it again"},
		"its claims have gone": {claimed: true, err: "volumes of slow are in use"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, way := failing(t, failingFile)
				ctx, client := t.Context(), kubeOf(t, c)
				require.NoError(t, kubetest.ErrOf(client.Apply(ctx, thing(), old.Object())))
				if tt.claimed {
					class := "slow"
					require.NoError(t, kubetest.ErrOf(client.Apply(ctx, &corev1.PersistentVolumeClaim{
						TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "y"},
						Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
							Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}})))
				}
				next, claimed := way.Next, tt.claimed
				way.Next = roundTrip(func(r *http.Request) (*http.Response, error) {
					if !claimed || r.URL.Path != "/api/v1/persistentvolumes" {
						return next.RoundTrip(r)
					}
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(volumes)), Request: r}, nil
				})
				step := c.leftoversStep()
				seen, err := step.Observe(ctx)
				require.NoError(t, err)
				require.Len(t, seen.parts, 1)
				claimed = false
				if tt.meanwhile != nil {
					require.NoError(t, tt.meanwhile(ctx, client))
				}
				if err = step.Apply(ctx, seen); tt.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.err)
				}
				err = client.Get(ctx, thing())
				assert.Equal(t, tt.gone, errors.Is(err, kube.ErrNotFound), "%v", err)
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What lies about on a host goes if it was shown and lies there still.
func TestWhatLiesAboutNoLonger(t *testing.T) {
	volumes := func(ids ...string) (out []proxmox.Volume) {
		for _, id := range ids {
			out = append(out, proxmox.Volume{ID: id})
		}
		return out
	}
	seen := leftovers{rests: []templates.Leftover{
		{Host: "pve1", Volumes: volumes("a", "b"), Mappings: []string{"m", "n"}, Templates: []proxmox.Summary{{VMID: 100, Name: "t"}, {VMID: 101, Name: "u"}}},
		{Host: "pve2", Volumes: volumes("a")},
	}}
	now := leftovers{rests: []templates.Leftover{{Host: "pve1", Volumes: volumes("b", "c"), Mappings: []string{"o", "m"}, Templates: []proxmox.Summary{{VMID: 100, Name: "theirs"}, {VMID: 101, Name: "u"}}}}}
	out, err := seen.confirm(now)
	require.NoError(t, err)
	assert.Equal(t, []templates.Leftover{{Host: "pve1", Volumes: volumes("b"), Mappings: []string{"m"}, Templates: []proxmox.Summary{{VMID: 101, Name: "u"}}}}, out.rests)
}
