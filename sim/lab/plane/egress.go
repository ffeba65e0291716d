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
	"strconv"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// egress is where the API server's only way out leads (kubelets, webhooks, pods behind its proxy).
// Only the kubelets of the lab's nodes and the simulated programs in its pods answer: the addresses
// are virtual, and on the real network they may belong to another owner.
type egress struct {
	kubelets *http.Server
	conns    chan net.Conn // to kubelets
	ca       traffic.Authority
	find     func(address string) (*member, bool)
	traffic  *traffic.Traffic // pods and Services
	done     chan struct{}
	running  sync.WaitGroup
}

type memberKey struct{}

// newEgress starts to serve kubelets. kubelet answers requests that have a *member in their context.
func newEgress(ca traffic.Authority, find func(address string) (*member, bool), kubelet http.Handler, pods *traffic.Traffic) *egress {
	e := &egress{conns: make(chan net.Conn), ca: ca, find: find, traffic: pods, done: make(chan struct{})}
	e.kubelets = &http.Server{
		Handler: kubelet, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, memberKey{}, c.(nodeConn).member)
		},
	}
	e.running.Go(func() { _ = e.kubelets.Serve(toKubelets{e}) })
	return e
}

// nodeConn is a connection to the kubelet of a node.
type nodeConn struct {
	net.Conn
	member *member
}

// kubelet is the API of a node's kubelet.
func (e *egress) kubelet(node string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, ok := e.find(net.JoinHostPort(node, strconv.Itoa(kubeletPort)))
		if !ok {
			http.Error(w, "no route to host", http.StatusBadGateway)
			return
		}
		e.kubelets.Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), memberKey{}, m)))
	})
}

// to is the way to an address: of a node, a pod, or one behind a Service.
func (e *egress) to(address string) (serve func(net.Conn), err error) {
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host) == nil {
		return e.traffic.Named(address)
	}
	m, ok := e.find(address)
	if !ok {
		pod, err := e.traffic.Find(address)
		if err != nil {
			return nil, err
		}
		return func(conn net.Conn) { e.traffic.Serve(conn, pod) }, nil
	}
	config, err := serverConfig(e.ca, m.InternalIP.String(), m.Name)
	if err != nil {
		return nil, err
	}
	return func(conn net.Conn) {
		select {
		case e.conns <- nodeConn{tls.Server(conn, config), m}:
		case <-e.done:
			_ = conn.Close()
		}
	}, nil
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

// Addr is nowhere: connections come from the API server.
func (toKubelets) Addr() net.Addr { return &net.TCPAddr{} }

// close ends it all, once.
func (e *egress) close() {
	close(e.done)
	_ = e.kubelets.Close()
	e.running.Wait()
}

// serverConfig is the TLS configuration of a server for names, which requires client
// certificates of the authority.
func serverConfig(ca traffic.Authority, names ...string) (*tls.Config, error) {
	certPEM, key, err := ca.Issue(names...)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, nil
}
