package chart

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// Source finds charts. The zero Source asks the repositories that releases name.
type Source struct {
	Folder  string // folder of charts, NAME-VERSION.tgz or unpacked; asked first; empty: none
	Offline bool   // ask nothing but Folder and Cache
	Cache   string // where downloads are kept; empty: homelab/charts in the user's cache folder

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: directly
	Wrap func(http.RoundTripper) http.RoundTripper                         // around every request; may be nil
}

// Capabilities are what templates may ask about a cluster.
type Capabilities struct {
	Kubernetes string   // e.g. v1.36.5+k3s1
	APIs       []string // e.g. monitoring.coreos.com/v1 or monitoring.coreos.com/v1/ServiceMonitor, beside Kubernetes' own
}

// Validate checks a release without a cluster: the chart is there, it allows the
// Kubernetes version, and its own schema accepts the values. Everything that is
// wrong is in the error, a [*ValuesError] where values are.
func (s Source) Validate(ctx context.Context, r Release, c Capabilities) error {
	return errors.New("not yet")
}

// Render returns the manifest of a release, without a cluster: hooks left out,
// definitions of kinds first, documents in the order in which Helm installs them.
func (s Source) Render(ctx context.Context, r Release, c Capabilities) ([]byte, error) {
	return nil, errors.New("not yet")
}
