package addon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/mail"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// Kinds of issuers.
const (
	SelfSigned = "self-signed" // a CA of the cluster's own, made by cert-manager
	ACME       = "acme"        // Let's Encrypt or another, by HTTP
	PrivateCA  = "ca"          // a given certificate and key
)

// IssuerOptions say who signs the cluster's certificates.
type IssuerOptions struct {
	Kind string
	Name string // of the ClusterIssuer; default "homelab"

	Email  string // acme: address for the CA's notices
	Server string // acme: its directory; default Let's Encrypt
	Class  string // acme: ingress class of the challenge; default "traefik"
	// acme: namespace/name of the Gateway of the challenge; empty: an Ingress
	GatewayNamespace, GatewayName string

	Certificate []byte       // ca: PEM, the signing certificate first
	Key         secret.Value // ca: PEM
}

const letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// Issuer provides a ClusterIssuer of cert-manager. Certificates select it by the annotation
// cert-manager.io/cluster-issuer, or by name.
func Issuer(o IssuerOptions) (chart.Part, error) {
	if o.Name == "" {
		o.Name = "homelab"
	}
	p := chart.Part{Name: "issuer", Needs: []string{"cert-manager"}, Keep: true}
	switch o.Kind {
	case SelfSigned:
		p.After = o.selfSigned()
	case ACME:
		if _, err := mail.ParseAddress(o.Email); err != nil {
			return chart.Part{}, fmt.Errorf("issuer: email %q: the CA needs an address for notices before a certificate expires", o.Email)
		}
		p.After = []runtime.Object{o.acme()}
	case PrivateCA:
		if err := checkCA(o.Certificate, o.Key); err != nil {
			return chart.Part{}, err
		}
		p.Secrets = []chart.Secret{{
			Namespace: certManagerNamespace, Name: o.secretName(), Type: string(corev1.SecretTypeTLS),
			Data: map[string]secret.Value{corev1.TLSCertKey: secret.New(string(o.Certificate)), corev1.TLSPrivateKeyKey: o.Key},
		}}
		p.After = []runtime.Object{o.clusterIssuer(o.Name, values{"ca": values{"secretName": o.secretName()}})}
	default:
		return chart.Part{}, fmt.Errorf("issuer: kind %q: want %s, %s or %s", o.Kind, SelfSigned, ACME, PrivateCA)
	}
	return p, nil
}

func (o IssuerOptions) secretName() string { return o.Name + "-ca" }

// object makes an object of a kind without a Go type here.
func object(apiVersion, kind string, m metav1.ObjectMeta, spec values) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: values{"apiVersion": apiVersion, "kind": kind}}
	u.SetName(m.Name)
	if m.Namespace != "" {
		u.SetNamespace(m.Namespace)
	}
	u.SetLabels(m.Labels)
	if len(m.Annotations) > 0 {
		u.SetAnnotations(m.Annotations)
	}
	if spec != nil {
		u.Object["spec"] = plain(spec)
	}
	return u
}

const certManagerV1 = "cert-manager.io/v1"

func (o IssuerOptions) clusterIssuer(name string, spec values) *unstructured.Unstructured {
	return object(certManagerV1, "ClusterIssuer", meta("issuer", "", name), spec)
}

// selfSigned: an issuer that signs with the key of the certificate itself, used once,
// for the CA whose certificate lasts ten years and is renewed a year before its end.
func (o IssuerOptions) selfSigned() []runtime.Object {
	root := o.Name + "-root"
	return []runtime.Object{
		o.clusterIssuer(root, values{"selfSigned": values{}}),
		object(certManagerV1, "Certificate", meta("issuer", certManagerNamespace, o.secretName()), values{
			"isCA": true, "commonName": o.Name + " CA", "secretName": o.secretName(),
			"duration": "87600h", "renewBefore": "8760h",
			// With a new key, everything that trusts the old certificate would no longer trust
			// the CA.
			"privateKey": values{"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
			"issuerRef":  values{"group": "cert-manager.io", "kind": "ClusterIssuer", "name": root},
		}),
		o.clusterIssuer(o.Name, values{"ca": values{"secretName": o.secretName()}}),
	}
}

func (o IssuerOptions) acme() *unstructured.Unstructured {
	if o.Server == "" {
		o.Server = letsEncrypt
	}
	if o.Class == "" {
		o.Class = "traefik"
	}
	solver := values{"ingress": values{"ingressClassName": o.Class}}
	if o.GatewayName != "" {
		solver = values{"gatewayHTTPRoute": values{"parentRefs": []any{values{
			"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": o.GatewayName, "namespace": o.GatewayNamespace}}}}
	}
	return o.clusterIssuer(o.Name, values{"acme": values{
		"email": o.Email, "server": o.Server,
		"privateKeySecretRef": values{"name": o.Name + "-acme"},
		"solvers":             []any{values{"http01": solver}},
	}})
}

// checkCA says why a certificate and key cannot sign.
func checkCA(cert []byte, key secret.Value) error {
	pair, err := tls.X509KeyPair(cert, []byte(key.Reveal()))
	if err != nil {
		return fmt.Errorf("issuer: certificate and key of the CA: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return fmt.Errorf("issuer: certificate of the CA: %w", err)
	}
	switch {
	case !leaf.IsCA:
		return fmt.Errorf("issuer: %s is not a CA certificate (basic constraint CA is not set): clients do not trust certificates that it signs", leaf.Subject)
	case time.Now().After(leaf.NotAfter):
		return fmt.Errorf("issuer: the certificate of %s ended on %s", leaf.Subject, leaf.NotAfter.Format(time.DateOnly))
	}
	return nil
}

// IssuerCA reads the certificate of a self-signed or private CA from the cluster, by the name
// of its issuer. The error is [kube.ErrNotFound] until it exists.
func IssuerCA(ctx context.Context, k *kube.Client, issuer string) ([]byte, error) {
	name := IssuerOptions{Name: issuer}.secretName()
	s := corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: certManagerNamespace, Name: name},
	}
	if err := k.Get(ctx, &s); err != nil {
		return nil, err
	}
	if len(s.Data[corev1.TLSCertKey]) == 0 {
		return nil, fmt.Errorf("secret %s/%s has no %s yet: %w", certManagerNamespace, name, corev1.TLSCertKey, kube.ErrNotFound)
	}
	return s.Data[corev1.TLSCertKey], nil
}
