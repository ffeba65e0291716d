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
