package real

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// proxy is the API server's only way out: whatever it dials in "the cluster" (kubelets, webhooks,
// pods behind its proxy) comes here as an HTTP CONNECT. So does what it asks by public names, the
// issuer of tokens, by the proxy of its environment.
type proxy struct {
	listener net.Listener
	names    net.Listener // of the environment's, without TLS
	password string       // for that
	server   *http.Server
	to       atomic.Pointer[plane.Outside]
	running  sync.WaitGroup
}

// newProxy starts listening.
func newProxy(ctx context.Context, ca *authority) (*proxy, error) {
	config, err := ca.serverConfig("127.0.0.1")
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	e := &proxy{listener: tls.NewListener(listener, config), password: rand.Text()}
	if e.names, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("egress: %w", err)
	}
	silent := log.New(io.Discard, "", 0)
	e.server = &http.Server{Handler: http.HandlerFunc(e.connect), ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent}
	for _, l := range []net.Listener{e.listener, e.names} {
		e.running.Go(func() { _ = e.server.Serve(l) })
	}
	return e, nil
}

// environment leads what the API server asks by a public name here. It asks addresses and names of Services as its egress
// configuration says.
func (e *proxy) environment() []string {
	u := url.URL{Scheme: "http", User: url.UserPassword("lab", e.password), Host: e.names.Addr().String()}
	return []string{"HTTPS_PROXY=" + u.String(), "NO_PROXY=0.0.0.0/0,::/0,.svc,localhost"}
}

// admits reports whether a request is of the API server: it has shown a certificate, or knows the password.
func (e *proxy) admits(r *http.Request) bool {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("lab:"+e.password))
	return r.TLS != nil || subtle.ConstantTimeCompare([]byte(want), []byte(r.Header.Get("Proxy-Authorization"))) == 1
}

func (e *proxy) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	if !e.admits(r) {
		http.Error(w, "only the API server", http.StatusProxyAuthRequired)
		return
	}
	to, err := e.to.Load(), errors.New("no route to host")
	var serve func(net.Conn)
	if to != nil {
		serve, err = to.Way(r.Host)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if conn := established(w); conn != nil {
		serve(conn)
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

func (e *proxy) close() {
	_ = e.server.Close()
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
	roots.AddCert(a.Cert)
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, nil
}

func (cp *controlPlane) egressFile() string { return filepath.Join(cp.dir, "egress.yaml") }

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
