package platform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/cps-gpu/homelab/jupyterhub"
)

// issuer is an identity provider. It is asked for its addresses once.
type issuer struct {
	mu    sync.Mutex
	url   string
	ca    []byte // that signed its certificate; empty: the public CAs
	found *jupyterhub.Endpoints
}

func (i *issuer) endpoints(ctx context.Context) (jupyterhub.Endpoints, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found != nil {
		return *i.found, nil
	}
	client, done, err := clientWith(i.ca)
	if err != nil {
		return jupyterhub.Endpoints{}, fmt.Errorf("hub.auth: %w", err)
	}
	defer done()
	found, err := jupyterhub.Discover(ctx, client, i.url)
	if err == nil {
		i.found = &found
	}
	return found, err
}

// clientWith trusts an authority as well as the system's, until done.
func clientWith(ca []byte) (client *http.Client, done func(), err error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if len(ca) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, nil, errors.New("there is no certificate in the CA's file")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}, transport.CloseIdleConnections, nil
}
