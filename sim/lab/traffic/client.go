package traffic

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Client asks Services by their names, NAME.NAMESPACE:PORT, as programs in pods do.
func (t *Traffic) Client() *http.Client {
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, ErrNoRoute)
		}
		name, domain, _ := strings.Cut(host, ".")
		namespace, _, _ := strings.Cut(domain, ".")
		s, err := t.services.Services(namespace).Get(name)
		if err != nil {
			return nil, fmt.Errorf("service %s/%s: %w", namespace, name, err)
		}
		return t.Dial(net.JoinHostPort(s.Spec.ClusterIP, port))
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 10 * time.Second}
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
