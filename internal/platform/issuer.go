package platform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	if len(i.ca) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(i.ca) {
			return jupyterhub.Endpoints{}, errors.New("hub.auth: there is no certificate in the CA's file")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	found, err := jupyterhub.Discover(ctx, &http.Client{Transport: transport}, i.url)
	if err == nil {
		i.found = &found
	}
	return found, err
}
