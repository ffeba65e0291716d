package addon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

// Issuer provides a ClusterIssuer of cert-manager. Certificates select it by the annotation
// cert-manager.io/cluster-issuer, or by name.
type Issuer struct{ CertManager }

func (i Issuer) Info() Info {
	info := i.CertManager.Info()
	info.Name, info.Namespace, info.Chart = "issuer", "", chart.Pin{}
	return info
}

func (i Issuer) Make(s *Site) (Recipe, error) {
	p := Recipe{Verify: []verify.Check{{Name: "certificates are issued", Try: i.issues}}, Part: chart.Part{Name: "issuer", Needs: []string{"cert-manager"}, Keep: true}}
	source := i.Source
	if source == spec.TLSCA && s.Unread {
		source = spec.TLSSelfSigned // without the key the pair cannot be checked
	}
	switch source {
	case spec.TLSSelfSigned:
		p.After = i.selfSignedObjects()
	case spec.TLSACME:
		if _, err := mail.ParseAddress(i.Email); err != nil {
			return Recipe{}, fmt.Errorf("issuer: email %q: the CA needs an address for notices before a certificate expires", i.Email)
		}
		solver, secrets, err := i.solver(s)
		if err != nil {
			return Recipe{}, err
		}
		ca, err := File("tls.ca", i.CACert)
		if err != nil {
			return Recipe{}, err
		}
		p.After, p.Secrets = []runtime.Object{i.acme(solver, ca)}, secrets
	case spec.TLSCA:
		cert, err := File("tls.ca", i.CACert)
		key, keyErr := s.Secret("tls.ca.key", i.CAKey)
		if err := errors.Join(err, keyErr); err != nil {
			return Recipe{}, err
		}
		if err := checkCA(cert, key); err != nil {
			return Recipe{}, err
		}
		p.Secrets = []chart.Secret{{
			Namespace: certManagerNamespace, Name: issuerSecret(i.Issuer), Type: string(corev1.SecretTypeTLS),
			Data: map[string]secret.Value{corev1.TLSCertKey: secret.New(string(cert)), corev1.TLSPrivateKeyKey: key},
		}}
		p.After = []runtime.Object{clusterIssuer(i.Issuer, values{"ca": values{"secretName": issuerSecret(i.Issuer)}})}
	default:
		return Recipe{}, fmt.Errorf("issuer: source %q: want %s, %s or %s", source, spec.TLSSelfSigned, spec.TLSACME, spec.TLSCA)
	}
	return p, nil
}

// issues looks at the issuer and at all certificates that it is asked for. It asks for none of its own: public
// authorities count them.
func (i Issuer) issues(ctx context.Context, c verify.Cluster) (string, error) {
	if why, ok, err := c.Kube.Ready(ctx, clusterIssuer(i.Issuer, nil)); err != nil || !ok {
		return "", cmp.Or(err, errors.New(why))
	}
	all, err := c.Kube.List(ctx, certManagerV1, "Certificate", "", "")
	if err != nil {
		return "", err
	}
	count := 0
	for _, one := range all {
		if by, _, _ := unstructured.NestedString(one.Object, "spec", "issuerRef", "name"); by != i.Issuer {
			continue
		}
		if why, err := kube.NotReadyReason(&one); err != nil || why != "" {
			return "", cmp.Or(err, fmt.Errorf("%s: %s: kubectl describe orders,challenges --all-namespaces shows what the authority says", kube.RefOf(&one), why))
		}
		count++
	}
	return printable.Count(count, "certificate"), nil
}

// issuerSecret is the Secret with the CA of an issuer.
func issuerSecret(issuer string) string { return issuer + "-ca" }

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

func clusterIssuer(name string, spec values) *unstructured.Unstructured {
	return object(certManagerV1, "ClusterIssuer", meta("issuer", "", name), spec)
}

// selfSignedObjects: an issuer that signs with the key of the certificate itself, used once,
// for the CA whose certificate lasts ten years and is renewed a year before its end.
func (i Issuer) selfSignedObjects() []runtime.Object {
	name, root := i.Issuer, i.Issuer+"-root"
	return []runtime.Object{
		clusterIssuer(root, values{"selfSigned": values{}}),
		object(certManagerV1, "Certificate", meta("issuer", certManagerNamespace, issuerSecret(name)), values{
			"isCA": true, "commonName": name + " CA", "secretName": issuerSecret(name),
			"duration": "87600h", "renewBefore": "8760h",
			// With a new key, everything that trusts the old certificate would no longer trust
			// the CA.
			"privateKey": values{"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
			"issuerRef":  values{"group": "cert-manager.io", "kind": "ClusterIssuer", "name": root},
		}),
		clusterIssuer(name, values{"ca": values{"secretName": issuerSecret(name)}}),
	}
}

func (i Issuer) acme(solver values, ca []byte) *unstructured.Unstructured {
	v := values{
		"email": i.Email, "server": i.Server,
		"privateKeySecretRef": values{"name": i.Issuer + "-acme"},
		"solvers":             []any{solver},
	}
	if len(ca) > 0 {
		v["caBundle"] = base64.StdEncoding.EncodeToString(ca)
	}
	return clusterIssuer(i.Issuer, values{"acme": v})
}

// solver says how the authority is shown that a name is ours, and has the credentials for that.
func (i Issuer) solver(s *Site) (values, []chart.Secret, error) {
	switch {
	case i.Challenge == spec.ChallengeDNS:
		return zone{s.DNS}.solver(s, i.Issuer+"-dns")
	case s.gateway() != nil:
		return values{"http01": values{"gatewayHTTPRoute": values{"parentRefs": []any{values{
			"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GatewayName(s.Ingress), "namespace": GatewayNamespace}}}}}, nil, nil
	}
	return values{"http01": values{"ingress": values{"ingressClassName": s.Ingress.Class}}}, nil, nil
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
	name := issuerSecret(issuer)
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
