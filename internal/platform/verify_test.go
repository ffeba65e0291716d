package platform_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

const verifiedFile = `name: lab
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  gpu1: {role: agent, address: 10.0.0.21, gpus: {count: 1}}
tls: self-signed
ingress: gateway
loadBalancer: {addresses: [10.0.0.200-10.0.0.219]}
backup: {endpoint: "https://s3.lab.example", bucket: backups, accessKey: env:NONE, secretKey: env:NONE}
postgres: {databases: {tracking: {}}}
queues: {class: {gpus: 1, namespaces: [course]}}
logs: {size: 10GiB}
monitoring: {hostname: grafana.lab.example, alerts: {ntfy: env:NONE, mail: {server: "smtp.lab.example:587", to: [me@lab.example], from: lab@lab.example}}}
login: {hostname: login.lab.example, allowedGroups: [lab], adminGroups: [staff], people: {ada: {email: ada@lab.example, hash: file:hash, groups: [staff]}}}
models: {qwen: {source: Qwen/Qwen3-4B, context: 4096}}
modelGateway: {hostname: models.lab.example}
modelChat: {hostname: chat.lab.example}
`

// gateways are the ways to the pages.
const gateways = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: homelab, namespace: kube-system}
status:
  addresses: [{type: IPAddress, value: 10.0.0.200}]
  conditions: [{type: Programmed, status: "True"}]
  listeners: [{name: login, conditions: [{type: ResolvedRefs, status: "True"}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: all, namespace: default}
spec: {hostnames: [login.lab.example, chat.lab.example, grafana.lab.example, models.lab.example], parentRefs: [{name: homelab, namespace: kube-system}]}
`

// kinds are defined as charts do that.
func kinds() string {
	var b strings.Builder
	for _, k := range []string{"gateway.networking.k8s.io v1 Gateway", "gateway.networking.k8s.io v1 HTTPRoute", "cert-manager.io v1 Certificate", "velero.io v1 BackupStorageLocation", "velero.io v1 Backup",
		"kueue.x-k8s.io v1beta2 ClusterQueue", "postgresql.cnpg.io v1 Cluster", "cert-manager.io v1 ClusterIssuer"} {
		f := strings.Fields(k)
		scope := "Namespaced"
		if f[2] == "ClusterQueue" || f[2] == "ClusterIssuer" {
			scope = "Cluster"
		}
		plural := strings.ToLower(f[2]) + "s"
		fmt.Fprintf(&b, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec: {group: %[1]s, scope: %[5]s, names: {kind: %[3]s, plural: %[4]s}, versions: [{name: %[2]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
`, f[0], f[1], f[2], plural, scope)
	}
	return b.String()
}

// world is what operators say of the objects of the file, all of it good.
const world = `---
apiVersion: v1
kind: Namespace
metadata: {name: course}
---
apiVersion: v1
kind: Namespace
metadata: {name: databases}
---
apiVersion: v1
kind: Namespace
metadata: {name: velero}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: homelab}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: login, namespace: kube-system}
spec: {issuerRef: {name: homelab}}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: default, namespace: velero}
status: {phase: Available}
---
apiVersion: velero.io/v1
kind: Backup
metadata: {name: old, namespace: velero, labels: {velero.io/schedule-name: homelab}}
status: {phase: Failed, startTimestamp: "1999-12-30T03:00:00Z"}
---
apiVersion: velero.io/v1
kind: Backup
metadata: {name: new, namespace: velero, labels: {velero.io/schedule-name: homelab}}
status: {phase: Completed, startTimestamp: "1999-12-31T03:00:00Z"}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: class}
status: {conditions: [{type: Active, status: "True"}]}
---
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {name: tracking, namespace: databases}
spec: {instances: 1}
status: {readyInstances: 1, phase: Cluster in healthy state, conditions: [{type: Ready, status: "True"}]}
`

// visited is a cluster whose programs are this test: what answers behind Services, and pages by their names.
type visited struct {
	sim *kubesim.Cluster
	verify.Cluster

	mu       sync.Mutex
	stuck    bool                        // pods do not end
	psql     string                      // what it says of a database that does not answer
	logged   string                      // what pods wrote
	services map[string]http.HandlerFunc // by name, and path
	pages    map[string]http.HandlerFunc // by host
	validity time.Duration               // of certificates
	ca       *x509.Certificate
	key      *ecdsa.PrivateKey
	unnamed  bool // the file does not name the authority of the provider
	silenced []string
	changed  string // an object of the world, as YAML
}

func visit(t *testing.T, test func(t *testing.T, v *visited)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim, err := kubesim.New(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{"10.0.0.10"}}, 1)
		require.NoError(t, err)
		v := &visited{sim: sim, services: map[string]http.HandlerFunc{}, pages: map[string]http.HandlerFunc{}, validity: 90 * 24 * time.Hour}
		client, err := kube.New(kube.Config{Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
			Wrap: func(next http.RoundTripper) http.RoundTripper { return behind{next, v} }})
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = client.Close(), sim.Close() })
		require.NoError(t, sim.Join(t.Context(), guest.Node{Name: "cp1", Role: "server", Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30, InternalIP: netip.MustParseAddr("10.0.0.11"), Run: v.run}))
		v.ca, v.key = authority(t)
		roots := x509.NewCertPool()
		roots.AddCert(v.ca)
		v.Kube, v.Dial, v.Roots, v.Image = client, v.dial, roots, "busybox"
		for _, text := range []string{kinds(), gateways, world} {
			require.NoError(t, sim.Apply(t.Context(), []byte(text)))
		}
		v.healthy()
		time.Sleep(10 * time.Second)
		test(t, v)
	})
}

// run is what pods do.
func (v *visited) run(ctx context.Context, c guest.Container) (int, string, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.stuck:
		v.mu.Unlock()
		<-ctx.Done()
		v.mu.Lock()
		return 137, "", ""
	case v.psql != "" && strings.Contains(c.Args[2], "psql"):
		return 2, "", v.psql
	}
	v.logged += c.Env["WORD"] + "\n"
	return 0, c.Env["WORD"], ""
}

// behind answers for programs behind Services.
type behind struct {
	http.RoundTripper
	v *visited
}

func (b behind) RoundTrip(r *http.Request) (*http.Response, error) {
	_, rest, ok := strings.Cut(r.URL.Path, "/services/")
	name, path, proxied := strings.Cut(rest, "/proxy")
	if !ok || !proxied {
		return b.RoundTripper.RoundTrip(r)
	}
	service, _, _ := strings.Cut(name, ":")
	w := httptest.NewRecorder()
	h := b.v.services[service+" "+path]
	if h == nil {
		h = http.NotFound
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h(w, r)
	res := w.Result()
	res.Request = r
	return res, nil
}

// dial reaches the pages at the address of the Ingress.
func (v *visited) dial(_ context.Context, _, addr string) (net.Conn, error) {
	if addr != "10.0.0.200:443" {
		return nil, fmt.Errorf("dial %s: no route to host", addr)
	}
	near, far := net.Pipe()
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := v.pages[r.Host]; h != nil {
			h(w, r)
			return
		}
		http.NotFound(w, r)
	})}
	done := make(chan struct{})
	l := &once{conn: tls.Server(far, &tls.Config{GetCertificate: v.certificate}), done: done}
	go func() { _ = server.Serve(l) }()
	return closing{near, func() { close(done); _ = server.Close() }}, nil
}

// once accepts one connection.
type once struct {
	conn net.Conn
	done chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if c := o.conn; c != nil {
		o.conn = nil
		return c, nil
	}
	<-o.done
	return nil, net.ErrClosed
}
func (*once) Close() error   { return nil }
func (*once) Addr() net.Addr { return &net.TCPAddr{} }

type closing struct {
	net.Conn
	after func()
}

func (c closing) Close() error { defer sync.OnceFunc(c.after)(); return c.Conn.Close() }

func authority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	its := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now(), NotAfter: time.Now().AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, its, its, key.Public(), key)
	require.NoError(t, err)
	ca, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return ca, key
}

// certificate is of 90 days, of which validity is left.
func (v *visited) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	end := time.Now().Add(v.validity)
	its := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{hello.ServerName}, NotBefore: end.AddDate(0, 0, -90), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, its, v.ca, v.key.Public(), v.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: v.key}, err
}

// healthy has every program do what people expect of it.
func (v *visited) healthy() {
	v.services["victoria-logs /select/logsql/query"] = func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if word := r.URL.Query().Get("query"); strings.Contains(v.logged, word) {
			_ = json.NewEncoder(w).Encode(map[string]string{"_msg": word})
		}
	}
	v.targets("1")
	v.alertmanager(0, 0)
	v.pages["login.lab.example"] = func(w http.ResponseWriter, r *http.Request) {
		v.dex(w, r, "https://login.lab.example", `[{"use":"sig"}]`)
	}
	toLogin := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://login.lab.example/auth?client_id=x", http.StatusFound)
	}
	v.pages["chat.lab.example"], v.pages["grafana.lab.example"] = toLogin, toLogin
	v.pages["models.lab.example"] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no key", http.StatusUnauthorized) }
}

func (v *visited) dex(w http.ResponseWriter, r *http.Request, issuer, keys string) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		const at = "https://login.lab.example/"
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer, "authorization_endpoint": at + "auth", "token_endpoint": at + "token", "userinfo_endpoint": at + "userinfo", "jwks_uri": at + "keys"})
	case "/keys":
		_, _ = io.WriteString(w, `{"keys":`+keys+`}`)
	case "/auth":
		_, _ = io.WriteString(w, "who are you?")
	default:
		http.NotFound(w, r)
	}
}

func (v *visited) targets(second string) {
	v.services["monitoring-kube-prometheus-prometheus /api/v1/query"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"kubelet","instance":"10.0.0.11:10250"},"value":[1,"1"]},
{"metric":{"job":"node-exporter","instance":"10.0.0.21:9100"},"value":[1,"`+second+`"]}]}}`)
	}
}

// alertmanager fails attempts by webhook, and gives messages up; it sends after half a minute.
func (v *visited) alertmanager(failed, given int) {
	const service = "monitoring-kube-prometheus-alertmanager "
	var sent time.Time
	v.services[service+"/api/v2/alerts"] = func(http.ResponseWriter, *http.Request) { sent = time.Now().Add(30 * time.Second) }
	v.services[service+"/api/v2/silences"] = func(_ http.ResponseWriter, r *http.Request) {
		var s struct{ Matchers []struct{ Value string } }
		_ = json.NewDecoder(r.Body).Decode(&s)
		v.silenced = append(v.silenced, s.Matchers[0].Value)
	}
	v.services[service+"/metrics"] = func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		if !sent.IsZero() && time.Now().After(sent) {
			n = 1
		}
		for _, by := range []string{"email", "webhook"} {
			bad, given := n*failed, n*given
			if by == "email" {
				bad, given = 0, 0
			}
			_, _ = fmt.Fprintf(w, "alertmanager_notification_requests_total{integration=%q} %d\nalertmanager_notification_requests_failed_total{integration=%q} %d\n"+
				"alertmanager_notifications_failed_total{integration=%q,reason=\"other\"} %d\n", by, 7+max(n, bad), by, 3+bad, by, 1+given)
		}
	}
}

// try tries a part of the file.
func (v *visited) try(t *testing.T, part string) map[string]verify.Result {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("hash", []byte("$2a$10$abcdefghijklmnopqrstuuIqk4D.GkXg1j5qXqv9j8iTq4e1m5k1e"), 0o600))
	text := verifiedFile
	if part == "login-provider" {
		text = v.byProvider(t)
	}
	s, err := clusterfile.Parse("cluster.yaml", []byte(text))
	require.NoError(t, err)
	pieces, err := platform.Pieces(s, false)
	require.NoError(t, err)
	out := map[string]verify.Result{}
	for _, p := range pieces {
		if p.Name == part {
			for _, r := range verify.Run(t.Context(), v.Cluster, p.Checks()) {
				out[r.Name] = r
			}
		}
	}
	require.NotEmpty(t, out)
	return out
}

// byProvider is the file with a login by a provider, whose authority the cluster does not know.
func (v *visited) byProvider(t *testing.T) string {
	t.Helper()
	v.Roots = x509.NewCertPool()
	ca := "ca: ca.pem, "
	if v.unnamed {
		ca = ""
	}
	require.NoError(t, os.WriteFile("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.ca.Raw}), 0o600))
	before, rest, _ := strings.Cut(verifiedFile, "login: ")
	_, after, _ := strings.Cut(rest, "\n")
	return before + `login: {adminGroups: [staff], provider: {` + ca + `issuer: "https://login.lab.example", clientID: lab, clientSecret: env:NONE}}` + "\n" + after
}

// TestVerify: what works passes, and what does not has a message that says what, and what to do.
func TestVerify(t *testing.T) {
	const found, delivered, targets, page, published = "a line of a pod is found", "an alert is delivered", "Prometheus reads its targets", "its page opens by its name", "programs find it and its keys"
	const key, issued, address, bucket, queue, database, names = "it asks for a key", "certificates are issued", "a Service gets an address", "its bucket can be reached", "queue class lets a pod start",
		"database tracking answers", "the Gateway takes all its names"
	change := func(text string) func(*visited) { return func(v *visited) { v.changed = text } }
	never := func(http.ResponseWriter, *http.Request) {}
	for _, c := range []struct {
		part, check string
		fault       func(v *visited)
		seen, err   string
	}{
		{"logs", found, nil, "0s after it was written", ""},
		{"logs", found, func(v *visited) { v.services["victoria-logs /select/logsql/query"] = never }, "",
			"not done within 3m0s: VictoriaLogs has no line of the pod: kubectl -n logs get pods shows whether log-collector runs on its node"},
		{"logs", found, func(v *visited) { v.services = nil }, "", "service logs/victoria-logs answers /select/logsql/query with 404 Not Found"},
		{"monitoring", targets, nil, "2 targets", ""},
		{"monitoring", targets, func(v *visited) { v.targets("0") }, "", "for a minute: 1 of 2 targets do not answer: node-exporter 10.0.0.21:9100"},
		{"monitoring", delivered, nil, "by email and webhook, after 31s", ""},
		{"monitoring", delivered, func(v *visited) { v.alertmanager(1, 1) }, "", "it could not be delivered by webhook: kubectl -n monitoring logs alertmanager-"},
		{"monitoring", delivered, func(v *visited) { v.alertmanager(4, 0) }, "", "each attempt to deliver it by webhook failed, 4 so far: kubectl"},
		{"dex", published, nil, "1 key; certificate until 2000-03-31", ""},
		{"dex", published, func(v *visited) {
			v.pages["login.lab.example"] = func(w http.ResponseWriter, r *http.Request) { v.dex(w, r, "http://dex", "[]") }
		}, "", `it calls itself "http://dex", and programs take no tokens but those of "https://login.lab.example"`},
		{"dex", published, func(v *visited) {
			v.pages["login.lab.example"] = func(w http.ResponseWriter, r *http.Request) { v.dex(w, r, "https://login.lab.example", "[]") }
		}, "", "https://login.lab.example/keys has no keys"},
		{"dex", published, func(v *visited) { v.Roots = x509.NewCertPool() }, "", "certificate signed by unknown authority: kubectl get certificates,challenges --all-namespaces shows which are not ready"},
		{"dex", published, func(v *visited) { v.validity = 9 * 24 * time.Hour }, "", "the certificate of login.lab.example ends on 2000-01-10 and was not renewed"},
		{"login-provider", published, nil, "1 key; certificate until 2000-03-31", ""},
		{"login-provider", published, func(v *visited) {
			v.pages["login.lab.example"] = func(w http.ResponseWriter, r *http.Request) { v.dex(w, r, "https://login.lab.example/", "[]") }
		}, "", `it calls itself "https://login.lab.example/", and programs take no tokens but those of "https://login.lab.example": write exactly its own name as issuer`},
		{"login-provider", published, func(v *visited) { v.unnamed = true }, "", "certificate signed by unknown authority"},
		{"login-provider", published, func(v *visited) { delete(v.pages, "login.lab.example") }, "", "https://login.lab.example/.well-known/openid-configuration answers 404 Not Found"},
		{"model-chat", page, nil, "it leads to the sign-in; certificate until 2000-03-31", ""},
		{"model-chat", page, func(v *visited) { v.pages["chat.lab.example"] = never }, "", "https://chat.lab.example opens https://chat.lab.example without a sign-in at https://login.lab.example"},
		{"model-chat", page, func(v *visited) { delete(v.pages, "chat.lab.example") }, "", "https://chat.lab.example answers 404 Not Found: kubectl get ingresses,httproutes --all-namespaces"},
		{"model-chat", page, func(v *visited) {
			v.pages["login.lab.example"] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) }
		}, "", "https://login.lab.example/auth answers 503 Service Unavailable: no pod answers behind it"},
		{"monitoring", page, nil, "it leads to the sign-in; certificate until 2000-03-31", ""},
		{"model-gateway", key, nil, "model:verify asks it with one; certificate until 2000-03-31", ""},
		{"model-gateway", key, func(v *visited) { v.pages["models.lab.example"] = never }, "", "https://models.lab.example/v1/models answers 200 without a key"},
		{"issuer", issued, nil, "1 certificate", ""},
		{"issuer", issued, change(`{apiVersion: cert-manager.io/v1, kind: ClusterIssuer, metadata: {name: homelab}, status: {conditions: [{type: Ready, status: "False", reason: ErrGetKeyPair, message: no key}]}}`),
			"", "clusterissuer homelab: ErrGetKeyPair: no key"},
		{"issuer", issued, change(`{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: chat, namespace: kube-system}, spec: {issuerRef: {name: homelab}}}`),
			"", "certificate kube-system/chat: cert-manager has not processed it yet: kubectl describe orders,challenges --all-namespaces"},
		{"metallb", address, nil, "", "not done within 3m0s: it has none: all of loadBalancer.addresses may be taken"},
		{"velero", bucket, nil, "the backup of 1999-12-31 03:00:00 is Completed", ""},
		{"velero", bucket, change(`{apiVersion: velero.io/v1, kind: BackupStorageLocation, metadata: {name: default, namespace: velero}, status: {phase: Unavailable, message: no such host}}`),
			"", "the bucket backups is Unavailable: no such host"},
		{"velero", bucket, change(`{apiVersion: velero.io/v1, kind: Backup, metadata: {name: last, namespace: velero, labels: {velero.io/schedule-name: homelab}}, status: {phase: PartiallyFailed, startTimestamp: "2000-01-01T00:00:00Z"}}`),
			"", "the backup of 2000-01-01 00:00:00 is PartiallyFailed: velero backup logs says why"},
		{"kueue", queue, nil, "in namespace course", ""},
		{"kueue", queue, func(v *visited) {
			v.changed = `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: class}, status: {conditions: [{type: Active, status: "False", reason: FlavorNotFound, message: no flavor}]}}`
		}, "", "clusterqueue class: FlavorNotFound: no flavor"},
		{"kueue", queue, func(v *visited) { v.stuck = true }, "", "not done within 3m0s: pod course/homelab-verify-queue does not run"},
		{"postgres", database, nil, "asked by its owner, from namespace databases", ""},
		{"postgres", database, func(v *visited) { v.psql = "psql: error: connection refused" }, "", "the pod ended with exit status 2: psql: error: connection refused"},
		{"ingress", names, nil, "1 listener at 10.0.0.200", ""},
		{"ingress", names, change(`{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: homelab, namespace: kube-system}, status: {listeners: [{name: hub, conditions: [{type: ResolvedRefs, status: "False", message: no such secret}]}]}}`),
			"", "listener hub: ResolvedRefs: no such secret"},
	} {
		t.Run(c.part+" "+c.check, func(t *testing.T) {
			visit(t, func(t *testing.T, v *visited) {
				if c.fault != nil {
					c.fault(v)
				}
				require.NoError(t, v.sim.Apply(t.Context(), []byte(v.changed)))
				r, ok := v.try(t, c.part)[c.check]
				require.True(t, ok)
				if c.err != "" {
					assert.ErrorContains(t, r.Err, c.err)
				} else if assert.NoError(t, r.Err) {
					assert.Equal(t, c.seen, r.Seen)
				}
				assert.Empty(t, slices.DeleteFunc(v.sim.Names("pods"), func(n string) bool { return !strings.Contains(n, "homelab-verify-") }), "pods are removed")
				if c.check == delivered {
					assert.Len(t, v.silenced, 1, "nobody is told that it is over")
				}
			})
		})
	}
}
