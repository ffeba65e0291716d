package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// copiedCertificate adds to a part without a release the certificate of tls.secret, if there is one and the part's
// Ingress cannot read it.
func (s *Site) copiedCertificate(part chart.Part, namespace, name string) func(context.Context, *kube.Client) (chart.Part, error) {
	if s.TLS == nil || s.TLS.Source != spec.TLSSecret || s.Ingress.Kind != spec.IngressTraefik {
		return nil
	}
	return withCertificate(part, s.TLS.Secret, namespace, name)
}

// Authority is the certificates, as PEM, of a private CA that the file has and that signs all pages; none if the file has
// none, as with a public CA or one that the cluster makes itself.
func Authority(t *spec.TLS) ([]byte, error) {
	if t == nil || t.Source == spec.TLSSelfSigned {
		return nil, nil
	}
	return File("tls.ca", t.CACert)
}

// withCertificate adds to a part a certificate that another owner keeps in the cluster, as
// namespace/name.
func withCertificate(part chart.Part, from, namespace, name string) func(context.Context, *kube.Client) (chart.Part, error) {
	if from == namespace+"/"+name { // it is in the right namespace already
		return nil
	}
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		its, err := CopyCertificate(ctx, client, from, namespace, name)
		out := part
		out.Secrets = append(slices.Clone(part.Secrets), its)
		return out, err
	}
}

// CopyCertificate copies another owner's certificate into a namespace, because an Ingress reads only
// its own namespace.
func CopyCertificate(ctx context.Context, client *kube.Client, from, namespace, name string) (chart.Secret, error) {
	ns, of, _ := strings.Cut(from, "/")
	if ns == "" || of == "" {
		return chart.Secret{}, fmt.Errorf("tls.secret %q: write namespace/name", from)
	}
	have, err := client.SecretData(ctx, ns, of)
	if errors.Is(err, kube.ErrNotFound) {
		return chart.Secret{}, fmt.Errorf("tls.secret names %s, which is not in the cluster: make it (kubectl -n %s create secret tls %s --cert=… --key=…), and run it again", from, printable.Word(ns), printable.Word(of))
	} else if err != nil {
		return chart.Secret{}, err
	}
	data := map[string]secret.Value{}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(have[key]) == 0 {
			return chart.Secret{}, fmt.Errorf("tls.secret: %s has no %s", from, key)
		}
		data[key] = secret.New(string(have[key]))
	}
	return chart.Secret{Namespace: namespace, Name: name, Type: string(corev1.SecretTypeTLS), Data: data}, nil
}
