package traffic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Client asks Services by their names, NAME.NAMESPACE:PORT, as programs in pods do, and what is outside of the cluster,
// of which it trusts these authorities.
func (t *Traffic) Client(authorities ...[]byte) *http.Client {
	roots := x509.NewCertPool()
	for _, pem := range authorities {
		roots.AppendCertsFromPEM(pem)
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, ErrNoRoute)
		}
		name, domain, _ := strings.Cut(host, ".")
		namespace, _, _ := strings.Cut(domain, ".")
		s, err := t.services.Services(namespace).Get(name)
		if err != nil {
			if t.Outside != nil {
				return t.Outside(ctx, address)
			}
			return nil, fmt.Errorf("service %s/%s: %w", namespace, name, err)
		}
		return t.Dial(net.JoinHostPort(s.Spec.ClusterIP, port))
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// ByName asks pages by their public names, which the network's DNS server knows by the address of the ingress. It trusts
// these authorities; nil: the system's.
func (t *Traffic) ByName(roots *x509.CertPool) *http.Client {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return t.dialName(ctx, address) }
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func (t *Traffic) dialName(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, ErrNoRoute)
	}
	if t.Outside != nil {
		if conn, err := t.Outside(ctx, address); !errors.Is(err, ErrNoRoute) {
			return conn, err
		}
	}
	s, err := t.services.Services("kube-system").Get("traefik")
	if err != nil || len(s.Status.LoadBalancer.Ingress) == 0 {
		return nil, fmt.Errorf("lookup %s: no such host", host)
	}
	return t.Dial(net.JoinHostPort(s.Status.LoadBalancer.Ingress[0].IP, port))
}

// Named is the way to a page by its public name, host:port, for a program of a machine of the cluster.
func (t *Traffic) Named(address string) (serve func(net.Conn), err error) {
	far, err := t.dialName(t.life, address)
	if err != nil {
		return nil, err
	}
	return func(near net.Conn) {
		end := context.AfterFunc(t.life, func() { _ = errors.Join(near.Close(), far.Close()) })
		defer end()
		var both sync.WaitGroup
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			both.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = errors.Join(near.Close(), far.Close())
			})
		}
		both.Wait()
	}, nil
}

// Inside is the place of what listens at 127.0.0.1 of a workload's pod: nothing outside of it gets there.
func Inside(at Place) Place { return Place{at.Namespace, "127.0.0.1 of " + at.Workload} }

// At is what listens at a port of a place when it is asked.
func (t *Traffic) At(at Place, port int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.mu.Lock()
		h := t.handlers[at][port]
		t.mu.Unlock()
		if h == nil {
			http.Error(w, "502 Bad Gateway", http.StatusBadGateway)
			return
		}
		h.ServeHTTP(w, r)
	})
}
