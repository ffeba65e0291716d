package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/verify"
)

// PlatformVerify tries parts of the file as people use them, without names all, and returns a result for each check. A
// part without one has a result that says what tries it.
func (c *Cluster) PlatformVerify(ctx context.Context, parts ...string) ([]verify.Result, error) {
	pieces, err := platform.Pieces(c.site.spec, false)
	if err != nil {
		return nil, err
	}
	var checks []verify.Check
	var names []string
	for _, p := range pieces {
		names = append(names, p.Name)
		if len(parts) == 0 || slices.Contains(parts, p.Name) {
			checks = append(checks, p.Checks()...)
		}
	}
	for _, part := range parts {
		if !slices.Contains(names, part) {
			return nil, fmt.Errorf("the file has no part %q; it has %s", part, strings.Join(names, ", "))
		}
	}
	way, err := reach(ctx, c)
	if err != nil {
		return nil, err
	}
	return verify.Run(ctx, way, checks), nil
}

// reach is how checks of the platform reach the cluster.
func reach(ctx context.Context, c *Cluster) (verify.Cluster, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return verify.Cluster{}, err
	}
	roots, err := authorities(ctx, client, c.site.spec.Platform.TLS)
	if err != nil {
		return verify.Cluster{}, err
	}
	return verify.Cluster{Kube: client, Dial: c.Dial, Roots: roots, Tolerations: addon.Tolerations(addon.Taints(c.site.spec.Nodes)), Image: addon.ProbeImage}, nil
}

// authorities are those of the system and, of the cluster, the one that signs its pages.
func authorities(ctx context.Context, client *kube.Client, t *spec.TLS) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities
	}
	its, err := addon.Authority(t)
	if err == nil && t != nil && t.Source == spec.TLSSelfSigned {
		its, err = addon.IssuerCA(ctx, client, t.Issuer)
		if errors.Is(err, kube.ErrNotFound) {
			err = nil // the pages' checks say that their certificates are not trusted
		}
	}
	pool.AppendCertsFromPEM(its)
	return pool, err
}
