package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/proxmox"
	pveguest "github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// thorn is what a request is refused with.
const thorn = "a thorn in its way"

// thorns is a way to Kubernetes on which the request of one number is refused.
type thorns struct {
	next http.RoundTripper
	mu   sync.Mutex
	on   bool
	at   int // from 1; 0: none
	seen []string
	// prick is the refusal, nil for that of Kubernetes.
	prick func(*http.Request) *http.Response
}

func (w *thorns) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	bad := false
	if w.on {
		w.seen = append(w.seen, r.Method+" "+r.URL.Path)
		bad = len(w.seen) == w.at
	}
	w.mu.Unlock()
	if !bad {
		return w.next.RoundTrip(r)
	}
	if w.prick != nil {
		return w.prick(r), nil
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"` + thorn + `"}`
	return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
}

// thornsFile has parts of every kind, and one machine that is nobody's VM.
const thornsFile = `
name: lab
nodes: {a: {role: server, external: ops@10.0.0.40}}
storage: {default: nfs, nfs: {server: 192.168.1.5, export: /export/k3s}}
tls: self-signed
hub: {hostname: hub.lab.example, auth: dummy, profiles: {small: {cpu: 1, memory: 2GiB}}}
fleet: {repo: 'http://127.0.0.1/gpu.git', username: homelab, password: env:GIT_TOKEN}
`

// thorny is a cluster of that file with an API, without its machines.
func thorny(t *testing.T, text string) (*Cluster, *kubesim.Cluster, *thorns) {
	t.Helper()
	t.Setenv("GIT_TOKEN", "correct horse battery")
	charts, err := filepath.Abs("../lab/charts")
	require.NoError(t, err)
	c, err := New(fileOf(t, text+"charts: {folder: "+charts+", offline: true, via: {jupyterhub: fleet}}\n"), Backend{Dir: t.TempDir(),
		Dial:    func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") },
		GitDial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way to Git") }})
	require.NoError(t, err)
	sim, err := kubesim.New(t.Context(), pveguest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, 1)
	require.NoError(t, err)
	way := &thorns{}
	client, err := kube.New(kube.Config{Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
		Wrap: func(next http.RoundTripper) http.RoundTripper { way.next = next; return way }})
	require.NoError(t, err)
	c.api.client = client
	t.Cleanup(func() { c.Close(); _, _ = client.Close(), sim.Close() })
	return c, sim, way
}

func pieceOf(t *testing.T, c *Cluster, name string) platform.Piece {
	t.Helper()
	all, err := c.platformParts()
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(p platform.Piece) bool { return p.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

// fleetKinds are what Fleet's chart brings.
func fleetKinds() string {
	var out strings.Builder
	for _, kind := range []string{"GitRepo", "Bundle", "BundleDeployment", "Cluster"} {
		plural := strings.ToLower(kind) + "s"
		out.WriteString("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural + ".fleet.cattle.io}\n" +
			"spec:\n  group: fleet.cattle.io\n  scope: Namespaced\n  names: {kind: " + kind + ", plural: " + plural + ", singular: " + strings.ToLower(kind) + "}\n" +
			"  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n")
	}
	return out.String()
}

// Every request of a step that Kubernetes refuses fails the step, and it says with what.
func TestKubernetesRefusesAStep(t *testing.T) {
	const node = "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: true}}"
	of := func(name string) platform.Piece { return platform.Piece{Part: chart.Part{Name: name}} }
	for name, tt := range map[string]thornCase{
		"a password is read": {there: "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: kube-system}, data: {k: aGk=}}", step: func(ctx context.Context, c *Cluster) error {
			return second(c.ReadPassword(ctx, Password{Namespace: "kube-system", Name: "s", Key: "k"}))
		}},
		"objects are looked at": {step: func(ctx context.Context, c *Cluster) error {
			return second(c.objectsStep(pieceOf(t, c, platform.GitOps)).Observe(ctx))
		}},
		"a chart is looked at": {step: func(ctx context.Context, c *Cluster) error {
			return second(c.chartStep(pieceOf(t, c, "nfs")).Observe(ctx))
		}},
		"storage is looked at": {step: func(ctx context.Context, c *Cluster) error {
			return second(c.storageStep(pieceOf(t, c, "nfs"), "nfs").Observe(ctx))
		}},
		"Fleet is looked at": {step: func(ctx context.Context, c *Cluster) error { return second(c.fleetStep().Observe(ctx)) }},
		"a bundle is looked at": {step: func(ctx context.Context, c *Cluster) error {
			return second(c.bundleStep(of("jupyterhub")).Observe(ctx))
		}},
		"Fleet's state":            {step: func(ctx context.Context, c *Cluster) error { return second(c.FleetState(ctx, "")) }},
		"one Fleet":                {step: func(ctx context.Context, c *Cluster) error { return c.oneFleet(ctx, of("fleet")) }},
		"whether Fleet has a part": {noReach: true, step: func(ctx context.Context, c *Cluster) error { return c.stillInFleet(ctx, c.api.client, of("hub")) }},
		"a node is emptied":        {there: node, step: func(ctx context.Context, c *Cluster) error { return second(c.drain(ctx, "a")) }},
		"a node is deleted":        {there: node, step: func(ctx context.Context, c *Cluster) error { return c.deleteNode(ctx, "a") }},
		"a node is marked": {there: node, step: func(ctx context.Context, c *Cluster) error {
			n, _ := c.spec.Node("a")
			return c.settleNode(ctx, "a", c.marks(n))
		}},
		"objects are made": {there: "{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}", step: func(ctx context.Context, c *Cluster) error {
			return c.objectsStep(pieceOf(t, c, platform.GitOps)).Apply(ctx, objectsSeen{part: pieceOf(t, c, platform.GitOps)})
		}},
	} {
		t.Run(name, func(t *testing.T) { tt.run(t) })
	}
}

// So does every request with which a part goes.
func TestKubernetesRefusesToLetGo(t *testing.T) {
	at := func(kind, name string) []kube.Ref {
		return []kube.Ref{{APIVersion: "v1", Kind: kind, Namespace: "kube-system", Name: name}}
	}
	old := record{Part: "old", Namespace: "old", Classes: []string{"slow"}, Before: at("ConfigMap", "before"), After: at("ConfigMap", "after"), Secrets: at("Secret", "given")}
	released := old
	released.Release = "old"
	for name, step := range map[string]func(ctx context.Context, c *Cluster) error{
		"a part is retired":    func(ctx context.Context, c *Cluster) error { return c.retirePart(ctx, old) },
		"a release is retired": func(ctx context.Context, c *Cluster) error { return c.retirePart(ctx, released) },
		"a part is superseded": func(ctx context.Context, c *Cluster) error {
			return c.supersede(ctx, platform.Piece{Replaces: []string{"old"}})
		},
		"a part is handed over":                 func(ctx context.Context, c *Cluster) error { return c.handOver(ctx, old) },
		"a part without Secrets is handed over": func(ctx context.Context, c *Cluster) error { return c.handOver(ctx, record{Part: "old"}) },
		"leftovers are looked for":              func(ctx context.Context, c *Cluster) error { return second(c.leftoversStep().Observe(ctx)) },
		"leftovers go": func(ctx context.Context, c *Cluster) error {
			return c.leftoversStep().Apply(ctx, unneeded{parts: []record{old}, given: []record{{Part: "theirs"}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			thornCase{step: step, before: func(ctx context.Context, c *Cluster) error { return second(c.api.client.Apply(ctx, old.object())) }}.run(t)
		})
	}
}

// What was shown as left over goes only if it still is, and is still the same; a part that
// was to stay when it was shown stays.
func TestLeftoversThatChangedSinceTheyWereShown(t *testing.T) {
	at := []kube.Ref{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "thing"}}
	old := record{Part: "old", Classes: []string{"slow"}, Before: at}
	thing := objectOf(at[0])
	const volumes = `{"apiVersion":"v1","kind":"PersistentVolumeList","metadata":{},"items":[{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},` +
		`"spec":{"storageClassName":"slow","claimRef":{"namespace":"x","name":"y"}},"status":{"phase":"Bound"}}]}`
	for name, tt := range map[string]struct {
		claimed   bool // a claim is bound to a volume of its class, when it is shown
		meanwhile func(ctx context.Context, client *kube.Client) error
		err       string // "" for none
		gone      bool
	}{
		"nothing happens": {gone: true},
		"somebody has taken it for his own": {meanwhile: func(ctx context.Context, client *kube.Client) error {
			return client.Delete(ctx, old.object())
		}},
		"it is another": {meanwhile: func(ctx context.Context, client *kube.Client) error {
			other := old
			other.Namespace, other.Release = "old", "new"
			return second(client.Apply(ctx, other.object()))
		}, err: "part old changed after it was shown: run it again"},
		"its claims have gone": {claimed: true, err: "volumes of slow are in use"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, way := thorny(t, thornsFile)
				ctx, client := run.Begin(t.Context()), c.api.client
				require.NoError(t, second(client.Apply(ctx, thing, old.object())))
				next, claimed := way.next, tt.claimed
				way.next = roundTrip(func(r *http.Request) (*http.Response, error) {
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
				err = client.Get(ctx, objectOf(at[0]))
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
	seen := unneeded{rests: []rest{
		{host: "pve1", volumes: volumes("a", "b"), mappings: []string{"m", "n"}, templates: []proxmox.Summary{{VMID: 100, Name: "t"}, {VMID: 101, Name: "u"}}},
		{host: "pve2", volumes: volumes("a")},
	}}
	now := unneeded{rests: []rest{{host: "pve1", volumes: volumes("b", "c"), mappings: []string{"o", "m"}, templates: []proxmox.Summary{{VMID: 100, Name: "theirs"}, {VMID: 101, Name: "u"}}}}}
	out, err := seen.still(now)
	require.NoError(t, err)
	assert.Equal(t, []rest{{host: "pve1", volumes: volumes("b"), mappings: []string{"m"}, templates: []proxmox.Summary{{VMID: 101, Name: "u"}}}}, out.rests)
}

// second is the error of a call that returns something else as well.
func second[T any](_ T, err error) error { return err }

// thornCase is a step, and what is there before.
type thornCase struct {
	there   string
	before  func(ctx context.Context, c *Cluster) error
	step    func(ctx context.Context, c *Cluster) error
	noReach bool // it does not fail where the API cannot be had
}

func (tt thornCase) run(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for at := 0; ; at++ {
			c, sim, way := thorny(t, thornsFile)
			require.NoError(t, sim.Apply(t.Context(), []byte(fleetKinds())))
			if tt.there != "" {
				require.NoError(t, sim.Apply(t.Context(), []byte(tt.there)))
			}
			ctx := run.Begin(t.Context())
			if tt.before != nil {
				require.NoError(t, tt.before(ctx, c))
			}
			way.on, way.at = true, at
			err := tt.step(ctx, c)
			if at == 0 {
				require.NoError(t, err)
			} else if at > len(way.seen) {
				break
			} else {
				assert.ErrorContains(t, err, thorn, "request %d, %s", at, way.seen[at-1])
			}
			_ = sim.Close()
		}
		if !tt.noReach {
			c, _, _ := thorny(t, thornsFile)
			c.api.client = nil
			assert.ErrorIs(t, tt.step(run.Begin(t.Context()), c), errNoServer, "nobody leads to the API")
		}
		synctest.Wait()
	})
}
