package traffic

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/cps-gpu/homelab/sim/lab/internal/informer"
)

// Traffic is the cluster's network for callers: it finds the pod behind an address, which may
// be the pod's own, a Service's or a load balancer's, and lets its program answer. As with
// endpoints, pods that are not Ready are not found.
type Traffic struct {
	// Outside reaches what is not of the cluster, and returns ErrNoRoute for everything else; nil: there is nothing.
	Outside func(ctx context.Context, address string) (net.Conn, error)

	ca       Authority
	services listers.ServiceLister
	pods     listers.PodLister
	conns    chan net.Conn
	server   *http.Server
	client   kubernetes.Interface
	life     context.Context //nolint:containedctx // the cluster's context, which limits connections

	mu       sync.Mutex
	handlers map[Place]map[int]*handler // by workload, then by the container's port; 0 is all others
	certs    map[string]*tls.Certificate
	shown    map[Place]func(name string) *tls.Certificate // by workload, what it has for a name; nil: nothing
	fronts   map[Place]*corev1.Pod                        // by Service without a selector, the pod that answers for it
}

// Place is a workload of a namespace.
type Place struct{ Namespace, Workload string }

// Destination is a port of a pod.
type Destination struct {
	pod  *corev1.Pod
	port int
}

// NewTraffic makes the network; it lives until ctx ends.
func NewTraffic(ctx context.Context, client kubernetes.Interface, ca Authority) *Traffic {
	t := &Traffic{ca: ca, client: client, life: ctx, conns: make(chan net.Conn), handlers: map[Place]map[int]*handler{}, certs: map[string]*tls.Certificate{}, shown: map[Place]func(string) *tls.Certificate{}, fronts: map[Place]*corev1.Pod{}}
	core := client.CoreV1()
	var watching informer.Set
	t.services = listers.NewServiceLister(informer.Add(&watching, core.Services(""), &corev1.Service{}, nil))
	t.pods = listers.NewPodLister(informer.Add(&watching, core.Pods(""), &corev1.Pod{}, nil))
	t.server = &http.Server{
		Handler: http.HandlerFunc(t.answer), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if arrived, ok := c.(*arrival); ok {
				return context.WithValue(ctx, arrivalKey{}, arrived.to)
			}
			return ctx
		},
	}
	watching.Start(ctx)
	go func() { _ = t.server.Serve(acceptor{ctx, t.conns}) }()
	context.AfterFunc(ctx, func() { _ = t.server.Close() })
	return t
}

type arrivalKey struct{}

// arrival is a connection that has come to a pod.
type arrival struct {
	net.Conn
	to Destination
}

// acceptor passes arrivals to the HTTP server of all pods.
type acceptor struct {
	ctx   context.Context //nolint:containedctx // net.Listener knows no other way to end
	conns chan net.Conn
}

// Accept returns the next arrival.
func (a acceptor) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close is called by the server that is being closed, and has nothing to do.
func (acceptor) Close() error { return nil }

// Addr is a dummy: arrivals come from a pipe.
func (acceptor) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// handler is one registration: two of the same handler differ.
type handler struct{ http.Handler }

// Handle lets h answer for a workload at a port of its pods, 0 for every other one,
// until release is called or another handler has come in its place.
func (t *Traffic) Handle(at Place, port int, h http.Handler) (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handlers[at] == nil {
		t.handlers[at] = map[int]*handler{}
	}
	own := &handler{h}
	t.handlers[at][port] = own
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.handlers[at][port] == own {
			delete(t.handlers[at], port)
		}
	}
}

// ErrNoRoute says that nothing in the cluster has an address.
var ErrNoRoute = errors.New("no route to host")

// ErrRefused says that nothing is Ready behind an address.
var ErrRefused = errors.New("connection refused")

// Balances reports whether a load balancer assigned an address, host:port, to a Service.
func (t *Traffic) Balances(address string) bool {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	list, err := t.services.List(labels.Everything())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeLoadBalancer && isAt(s, host) && s.Spec.ClusterIP != host &&
			slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == portText })
	})
}

// Dial connects to an address of the cluster, host:port.
func (t *Traffic) Dial(address string) (net.Conn, error) {
	to, err := t.Find(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	near, far := net.Pipe()
	t.Serve(far, to)
	return near, nil
}

// Serve lets the program at a destination answer on an existing connection.
func (t *Traffic) Serve(conn net.Conn, to Destination) {
	go t.arrive(conn, to)
}

// arrive detects whether the caller speaks TLS, and passes the connection to the server.
func (t *Traffic) arrive(conn net.Conn, to Destination) {
	const tlsHandshake = 0x16
	reader := bufio.NewReader(conn)
	first, err := reader.Peek(1)
	if err != nil {
		_ = conn.Close()
		return
	}
	var c net.Conn = &buffered{Conn: conn, reader: reader}
	if first[0] == tlsHandshake {
		c = tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: t.certificateOf(to), NextProtos: []string{"http/1.1"}})
	}
	select {
	case t.conns <- &arrival{Conn: c, to: to}:
	case <-t.life.Done():
		_ = conn.Close()
	}
}

// buffered first returns the bytes that were already read.
type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// Show lets a workload choose its certificates, until release is called.
func (t *Traffic) Show(at Place, choose func(name string) *tls.Certificate) (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown[at] = choose
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.shown, at)
	}
}

// Front lets a pod answer for a Service that selects none, on the Service's own ports, until release is called.
func (t *Traffic) Front(namespace, service string, pod *corev1.Pod) (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := Place{namespace, service}
	t.fronts[at] = pod
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.fronts[at] == pod {
			delete(t.fronts, at)
		}
	}
}

// certificateOf finds a pod's certificate: the one that its program chooses, one that it
// mounts, or one of the cluster's own CA for the requested name. Package operators makes
// clients trust that CA: see trustWebhooks.
func (t *Traffic) certificateOf(to Destination) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		t.mu.Lock()
		choose := t.shown[Place{to.pod.Namespace, Workload(to.pod)}]
		t.mu.Unlock()
		if choose != nil {
			if c := choose(hello.ServerName); c != nil {
				return c, nil
			}
		}
		for _, v := range to.pod.Spec.Volumes {
			if v.Secret == nil {
				continue
			}
			if c := t.SecretPair(hello.Context(), to.pod.Namespace, v.Secret.SecretName); c != nil && c.Leaf.VerifyHostname(hello.ServerName) == nil {
				return c, nil
			}
		}
		return t.ownCertificate(hello.ServerName)
	}
}

// SecretPair reads a certificate and its key from a Secret; nil if they are missing.
func (t *Traffic) SecretPair(ctx context.Context, namespace, name string) *tls.Certificate {
	s, err := t.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || s.Type != corev1.SecretTypeTLS {
		return nil
	}
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil
	}
	return &pair
}

func (t *Traffic) ownCertificate(name string) (*tls.Certificate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.certs[name]; ok {
		return c, nil
	}
	cert, key, err := t.ca.Issue(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	t.certs[name] = &pair
	return &pair, nil
}

// answer lets the program of the pod answer, or reports that it is simulated.
func (t *Traffic) answer(w http.ResponseWriter, r *http.Request) {
	to, ok := r.Context().Value(arrivalKey{}).(Destination)
	if !ok {
		http.Error(w, "nothing answers there", http.StatusBadGateway)
		return
	}
	t.handlerOf(to).ServeHTTP(w, r)
}

func (t *Traffic) handlerOf(to Destination) http.Handler {
	t.mu.Lock()
	defer t.mu.Unlock()
	ports := t.handlers[Place{to.pod.Namespace, Workload(to.pod)}]
	if h, ok := ports[to.port]; ok {
		return h
	}
	if h, ok := ports[0]; ok {
		return h
	}
	return http.HandlerFunc(simulated)
}

// Find finds what is at the address of a pod, a Service, or a load balancer.
func (t *Traffic) Find(address string) (Destination, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return Destination{}, fmt.Errorf("%s: %w", address, ErrNoRoute)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return Destination{}, fmt.Errorf("%s: %w", address, ErrNoRoute)
	}
	list, err := t.services.List(labels.Everything())
	if err != nil {
		return Destination{}, err
	}
	for _, s := range list {
		if i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == port }); i >= 0 && isAt(s, host) {
			return t.behind(s, s.Spec.Ports[i])
		}
	}
	return t.podAt(host, port)
}

func isAt(s *corev1.Service, host string) bool {
	return s.Spec.ClusterIP == host || slices.Contains(s.Spec.ExternalIPs, host) ||
		slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == host })
}

func (t *Traffic) podAt(host string, port int) (Destination, error) {
	if _, err := netip.ParseAddr(host); err != nil {
		return Destination{}, ErrNoRoute
	}
	pods, err := t.pods.List(labels.Everything())
	if err != nil {
		return Destination{}, err
	}
	for _, p := range pods {
		if p.Status.PodIP == host && !p.Spec.HostNetwork && p.DeletionTimestamp == nil {
			return Destination{p, port}, nil
		}
	}
	return Destination{}, ErrNoRoute
}

// behind finds a Ready pod of a Service.
func (t *Traffic) behind(s *corev1.Service, port corev1.ServicePort) (Destination, error) {
	if len(s.Spec.Selector) == 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		if pod := t.fronts[Place{s.Namespace, s.Name}]; pod != nil {
			return Destination{pod, int(port.Port)}, nil
		}
		return Destination{}, ErrRefused
	}
	pods, err := t.pods.Pods(s.Namespace).List(labels.SelectorFromSet(s.Spec.Selector))
	if err != nil {
		return Destination{}, err
	}
	for _, p := range pods {
		if !Ready(p) {
			continue
		}
		if n := targetPort(p, port); n > 0 {
			return Destination{p, n}, nil
		}
	}
	return Destination{}, ErrRefused
}

// targetPort resolves the name of a port as endpoints do: 0 when the pod has none.
func targetPort(p *corev1.Pod, port corev1.ServicePort) int {
	if port.TargetPort.StrVal == "" {
		if n := port.TargetPort.IntValue(); n > 0 {
			return n
		}
		return int(port.Port)
	}
	for _, c := range p.Spec.Containers {
		for _, cp := range c.Ports {
			if cp.Name == port.TargetPort.StrVal {
				return int(cp.ContainerPort)
			}
		}
	}
	return 0
}

// Service finds the pod behind a port of a Service.
func (t *Traffic) Service(namespace, name, portName string, portNumber int32) (http.Handler, error) {
	s, err := t.services.Services(namespace).Get(name)
	if err != nil {
		return nil, fmt.Errorf("service %s/%s: %w", namespace, name, err)
	}
	for _, p := range s.Spec.Ports {
		if portName != "" && p.Name != portName || portName == "" && portNumber != 0 && p.Port != portNumber {
			continue
		}
		to, err := t.behind(s, p)
		if err != nil {
			return nil, fmt.Errorf("service %s/%s: %w", namespace, name, err)
		}
		return t.handlerOf(to), nil
	}
	return nil, fmt.Errorf("service %s/%s has no port %s%d", namespace, name, portName, portNumber)
}

// Authority is a certificate authority that programs may use.
type Authority interface {
	// PEM is its own certificate.
	PEM() []byte
	// Issue makes a server's certificate and key for names and addresses.
	Issue(names ...string) (cert, key []byte, err error)
}

func Ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Workload is the name of what a pod belongs to; of a ReplicaSet, its Deployment's.
func Workload(pod *corev1.Pod) string {
	for _, owner := range pod.OwnerReferences {
		if owner.Controller == nil || !*owner.Controller {
			continue
		}
		if owner.Kind == "ReplicaSet" {
			return strings.TrimSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
		}
		return owner.Name
	}
	return pod.Name
}
