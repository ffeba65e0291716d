package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/lab/traffic"
)

// egress is the API server's only way out: whatever it dials in "the cluster" (kubelets,
// webhooks, pods behind its proxy) comes here as an HTTP CONNECT. Only the kubelets of the
// lab's nodes and the simulated programs in its pods answer: the addresses are virtual, and on
// the real network they may belong to another owner.
type egress struct {
	listener net.Listener
	proxy    *http.Server
	kubelets *http.Server
	conns    chan net.Conn // to kubelets
	ca       *authority
	nodes    atomic.Pointer[nodesFunc]
	traffic  atomic.Pointer[traffic.Traffic] // pods and Services
	done     chan struct{}
	running  sync.WaitGroup
}

// nodesFunc finds the node at the address of a kubelet, host:port.
type nodesFunc func(address string) (*member, bool)

type memberKey struct{}

// newEgress starts listening. kubelet answers requests that have a *member in
// their context.
func newEgress(ctx context.Context, ca *authority) (*egress, error) {
	config, err := ca.serverConfig("127.0.0.1")
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	e := &egress{listener: tls.NewListener(listener, config), ca: ca, conns: make(chan net.Conn), done: make(chan struct{})}
	silent := log.New(io.Discard, "", 0)
	e.proxy = &http.Server{Handler: http.HandlerFunc(e.connect), ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent}
	e.running.Go(func() { _ = e.proxy.Serve(e.listener) })
	return e, nil
}

// serveNodes makes kubelets answer.
func (e *egress) serveNodes(find nodesFunc, kubelet http.Handler) {
	e.nodes.Store(&find)
	e.kubelets = &http.Server{
		Handler: kubelet, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, memberKey{}, c.(nodeConn).member)
		},
	}
	e.running.Go(func() { _ = e.kubelets.Serve(toKubelets{e}) })
}

// nodeConn is a connection to the kubelet of a node.
type nodeConn struct {
	net.Conn
	member *member
}

func (e *egress) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	find := e.nodes.Load()
	if find == nil {
		http.Error(w, "no route to host", http.StatusBadGateway)
		return
	}
	m, ok := (*find)(r.Host)
	if !ok {
		e.connectPod(w, r)
		return
	}
	config, err := e.ca.serverConfig(m.InternalIP.String(), m.Name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	conn := established(w)
	if conn == nil {
		return
	}
	select {
	case e.conns <- nodeConn{tls.Server(conn, config), m}:
	case <-e.done:
		_ = conn.Close()
	}
}

// established tells the client that it is connected, and takes over the connection; nil if the
// client has disconnected.
func established(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = conn.Close()
		return nil
	}
	return conn
}

// connectPod connects to a pod, or to one behind a Service.
func (e *egress) connectPod(w http.ResponseWriter, r *http.Request) {
	t := e.traffic.Load()
	if t == nil {
		http.Error(w, traffic.ErrNoRoute.Error(), http.StatusBadGateway)
		return
	}
	to, err := t.Find(r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if conn := established(w); conn != nil {
		t.Serve(conn, to) //nolint:contextcheck // the connection outlives the request, and ends with the cluster
	}
}

// toKubelets passes connections to the kubelets' server.
type toKubelets struct{ *egress }

// Accept returns the next connection.
func (l toKubelets) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close is called when the server is closed, and does nothing.
func (toKubelets) Close() error { return nil }

// Addr is where the proxy listens.
func (l toKubelets) Addr() net.Addr { return l.listener.Addr() }

// close ends it all, once.
func (e *egress) close() {
	close(e.done)
	_ = e.proxy.Close()
	if e.kubelets != nil {
		_ = e.kubelets.Close()
	}
	e.running.Wait()
}

// serverConfig is the TLS configuration of a server for names, which requires client
// certificates of the CA.
func (a *authority) serverConfig(names ...string) (*tls.Config, error) {
	p, err := a.issue(names[0], "", names...)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, nil
}

// writeEgress writes the API server's egress configuration. What it dials as the
// control plane (etcd) it dials directly.
func (cp *controlPlane) writeEgress() error {
	pki := cp.ca.path
	proxy := map[string]any{
		"proxyProtocol": "HTTPConnect",
		"transport": map[string]any{"tcp": map[string]any{
			"url":       "https://" + cp.egress.listener.Addr().String(),
			"tlsConfig": map[string]string{"caBundle": pki("ca.crt"), "clientCert": pki("etcd.crt"), "clientKey": pki("etcd.key")},
		}},
	}
	direct := map[string]string{"proxyProtocol": "Direct"}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
		"egressSelections": []any{
			map[string]any{"name": "cluster", "connection": proxy},
			map[string]any{"name": "controlplane", "connection": direct},
			map[string]any{"name": "etcd", "connection": direct},
		},
	})
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	if err := writeAtomic(cp.egressFile(), data); err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	return nil
}
