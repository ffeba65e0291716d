package operators

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
	"github.com/cps-gpu/homelab/sim/lab/zones"
)

func certificatesKind() kind { return kind{"cert-manager.io", "v1", "certificates"} }
func issuers() kind          { return kind{"cert-manager.io", "v1", "issuers"} }
func clusterIssuers() kind   { return kind{"cert-manager.io", "v1", "clusterissuers"} }
func secrets() kind          { return kind{"", "v1", "secrets"} }

func certificatePrograms() []program {
	return []program{
		{name: "cert-manager", image: "cert-manager-controller", watch: []kind{certificatesKind(), issuers(), clusterIssuers(), secrets(), ingresses()}, sync: certManager},
		{name: "cert-manager-webhook", image: "cert-manager-webhook", watch: []kind{}, sync: certManagerWebhook},
		{name: "cert-manager-cainjector", image: "cert-manager-cainjector", watch: []kind{secrets(), validating(), mutating()}, sync: caInjector},
	}
}

// certManager simulates the controller: issuers become Ready, or say why not; Ingresses with
// its annotations get a Certificate; Certificates get their Secret.
func certManager(ctx context.Context, i *instance) (time.Duration, error) {
	for _, k := range []kind{issuers(), clusterIssuers()} {
		list, err := all[unstructured.Unstructured](i, k)
		if err != nil {
			return 0, err
		}
		for _, issuer := range list {
			if err := i.issuerState(ctx, issuer); err != nil {
				return 0, err
			}
		}
	}
	if err := i.certificatesOfIngresses(ctx); err != nil {
		return 0, err
	}
	if err := i.certificatesOfGateways(ctx); err != nil {
		return 0, err
	}
	list, err := all[unstructured.Unstructured](i, certificatesKind())
	if err != nil {
		return 0, err
	}
	for _, c := range list {
		if err := i.issue(ctx, c); err != nil {
			return 0, err
		}
	}
	return 10 * time.Second, nil // Gateways are not watched, because their kind may not exist
}

// issuerState writes the Ready condition of an issuer, with cert-manager's reasons.
func (i *instance) issuerState(ctx context.Context, issuer *unstructured.Unstructured) error {
	status, reason, message := "True", "IsReady", ""
	switch {
	case has(issuer, "spec", "ca"):
		reason, message = "KeyPairVerified", "Signing CA verified"
		if _, err := i.signer(ctx, issuer); err != nil {
			status, reason, message = "False", "ErrGetKeyPair", "Error getting keypair for CA issuer: "+err.Error()
		}
	case has(issuer, "spec", "selfSigned"):
	case has(issuer, "spec", "acme"):
		reason, message = "ACMEAccountRegistered", "The ACME account was registered with the ACME server"
		if object.Text(issuer, "spec", "acme", "server") == "" || object.Text(issuer, "spec", "acme", "privateKeySecretRef", "name") == "" {
			status, reason, message = "False", "ErrInitIssuer", "Error initializing issuer: spec.acme wants server and privateKeySecretRef"
		} else if hasServer(issuer) {
			if err := i.registered(ctx, issuer); err != nil {
				status, reason, message = "False", "ErrRegisterACMEAccount", err.Error()
			}
		}
	default:
		status, reason, message = "False", "ErrInitIssuer", "Error initializing issuer: no issuer specified for Issuer '"+strings.TrimPrefix(issuer.GetNamespace()+"/"+issuer.GetName(), "/")+"'"
	}
	return i.patchStatus(ctx, issuer, map[string]any{"conditions": object.Conditions(issuer, true, "Ready", status, reason, message)})
}

func has(obj *unstructured.Unstructured, path ...string) bool {
	_, ok, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return ok
}

// signer is the key and certificate of a CA issuer.
func (i *instance) signer(ctx context.Context, issuer *unstructured.Unstructured) (*pki.Pair, error) {
	namespace := cmp.Or(issuer.GetNamespace(), i.resourceNamespace())
	name := object.Text(issuer, "spec", "ca", "secretName")
	s, err := i.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("secrets %q not found", name)
	}
	if err != nil {
		return nil, err
	}
	pair, err := pki.Parse(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	if !pair.Cert.IsCA {
		return nil, fmt.Errorf("signing certificate is not a CA")
	}
	return pair, nil
}

// resourceNamespace is where Secrets of ClusterIssuers are.
func (i *instance) resourceNamespace() string {
	if ns := i.argument("cluster-resource-namespace"); ns != "" && !strings.HasPrefix(ns, "$(") {
		return ns
	}
	return i.pod.Namespace
}

// issue brings one Certificate to its Secret.
func (i *instance) issue(ctx context.Context, c *unstructured.Unstructured) error {
	name := object.Text(c, "spec", "secretName")
	old, err := one[corev1.Secret](i, secrets(), c.GetNamespace(), name)
	if err != nil {
		return err
	}
	issuer, why, err := i.issuerOf(c)
	if err != nil {
		return err
	}
	if old != nil && i.current(c, old, issuer) {
		return i.certificateReady(ctx, c, old)
	}
	if backsOff(c) {
		return nil
	}
	if why == "" && !object.IsTrue(issuer, "Ready") {
		why = fmt.Sprintf("Issuer %s is not ready", issuer.GetName())
	}
	if why != "" {
		return i.certificateWaits(ctx, c, why)
	}
	data, err := i.sign(ctx, c, issuer, old)
	if refused := (*zones.Refused)(nil); errors.As(err, &refused) {
		return i.certificateFailed(ctx, c, refused.Reason)
	} else if err != nil {
		return i.certificateWaits(ctx, c, err.Error())
	}
	if err := i.writePair(ctx, c, issuer, data); err != nil {
		return err
	}
	i.events.Eventf(c, corev1.EventTypeNormal, "Issuing", "The certificate has been successfully issued")
	return nil // the new Secret triggers the rest
}

// issuerOf finds the issuer that a Certificate names; why says why there is none.
func (i *instance) issuerOf(c *unstructured.Unstructured) (issuer *unstructured.Unstructured, why string, err error) {
	ref := object.Text(c, "spec", "issuerRef", "name")
	kind := cmp.Or(object.Text(c, "spec", "issuerRef", "kind"), "Issuer")
	group := cmp.Or(object.Text(c, "spec", "issuerRef", "group"), "cert-manager.io")
	if group != "cert-manager.io" {
		return nil, fmt.Sprintf("Waiting on certificate issuance: no controller for the group %s runs", group), nil
	}
	k, namespace := issuers(), c.GetNamespace()
	if kind == "ClusterIssuer" {
		k, namespace = clusterIssuers(), ""
	}
	issuer, err = one[unstructured.Unstructured](i, k, namespace, ref)
	if err != nil || issuer != nil {
		return issuer, "", err
	}
	return nil, fmt.Sprintf("Referenced %q not found: %s.cert-manager.io %q not found", kind, strings.ToLower(kind), ref), nil
}

// current reports whether a Secret matches the Certificate.
func (i *instance) current(c *unstructured.Unstructured, s *corev1.Secret, issuer *unstructured.Unstructured) bool {
	pair, err := pki.Parse(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil || time.Now().After(pair.Cert.NotAfter) {
		return false
	}
	names, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
	isCA, _, _ := unstructured.NestedBool(c.Object, "spec", "isCA")
	same := slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(pair.Cert.DNSNames)))
	if issuer == nil { // it was issued, and stays valid without its issuer
		return same && isCA == pair.Cert.IsCA
	}
	return same && isCA == pair.Cert.IsCA && s.Annotations["cert-manager.io/issuer-name"] == issuer.GetName() && s.Annotations["cert-manager.io/issuer-kind"] == issuer.GetKind()
}

func (i *instance) certificateReady(ctx context.Context, c *unstructured.Unstructured, s *corev1.Secret) error {
	pair, err := pki.Parse(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	list := object.Conditions(c, true, "Ready", "True", "Ready", "Certificate is up to date and has not expired")
	list = slices.DeleteFunc(list, func(v any) bool { return v.(map[string]any)["type"] == "Issuing" })
	left := pair.Cert.NotAfter.Sub(pair.Cert.NotBefore)
	return i.patchStatus(ctx, c, map[string]any{
		"conditions": list, "revision": 1, "lastFailureTime": nil, "failedIssuanceAttempts": nil, "notBefore": pair.Cert.NotBefore.UTC().Format(time.RFC3339), "notAfter": pair.Cert.NotAfter.UTC().Format(time.RFC3339),
		"renewalTime": pair.Cert.NotAfter.Add(-left / 3).UTC().Format(time.RFC3339),
	})
}

func (i *instance) certificateWaits(ctx context.Context, c *unstructured.Unstructured, why string) error {
	list := object.Conditions(c, true, "Ready", "False", "DoesNotExist", "Issuing certificate as Secret does not exist")
	both := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": c.GetGeneration()}, "status": map[string]any{"conditions": list}}}
	if err := i.patchStatus(ctx, c, map[string]any{"conditions": object.Conditions(both, true, "Issuing", "True", "DoesNotExist", why)}); err != nil {
		return err
	}
	return i.request(ctx, c, why)
}

// request makes the CertificateRequest of a Certificate that cannot be issued: cert-manager
// reports the reason there.
func (i *instance) request(ctx context.Context, c *unstructured.Unstructured, why string) error {
	client := i.Dynamic.Resource(kind{"cert-manager.io", "v1", "certificaterequests"}.gvr()).Namespace(c.GetNamespace())
	if _, err := client.Get(ctx, c.GetName()+"-1", metav1.GetOptions{}); apierrors.IsNotFound(err) {
		csr, err := pki.Request(object.Text(c, "spec", "commonName"))
		if err != nil {
			return err
		}
		r := object.New("cert-manager.io/v1", "CertificateRequest", c.GetNamespace(), c.GetName()+"-1", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"cert-manager.io/certificate-name": c.GetName(), "cert-manager.io/certificate-revision": "1"}},
			"spec":     map[string]any{"issuerRef": c.Object["spec"].(map[string]any)["issuerRef"], "request": csr},
		})
		object.OwnedBy(r, c)
		if err := i.apply(ctx, r); err != nil {
			return err
		}
	}
	now, err := client.Get(ctx, c.GetName()+"-1", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("certificate request: %w", err)
	}
	return i.patchStatus(ctx, now, map[string]any{"conditions": object.Conditions(now, false, "Ready", "False", "Pending", why)})
}

// sign makes the requested certificate.
func (i *instance) sign(ctx context.Context, c, issuer *unstructured.Unstructured, old *corev1.Secret) (map[string][]byte, error) {
	t, err := certificateTemplate(c)
	if err != nil {
		return nil, err
	}
	if has(issuer, "spec", "acme") && hasServer(issuer) {
		return i.order(ctx, c, issuer)
	}
	var key []byte
	if old != nil && object.Text(c, "spec", "privateKey", "rotationPolicy") == "Never" {
		key = old.Data[corev1.TLSPrivateKeyKey]
	}
	var by *pki.Pair
	switch {
	case has(issuer, "spec", "ca"):
		if by, err = i.signer(ctx, issuer); err != nil {
			return nil, err
		}
	case has(issuer, "spec", "acme"):
		if by, err = i.acmeCA(); err != nil {
			return nil, err
		}
	}
	cert, keyPEM, err := pki.Make(t, key, by)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: keyPEM, "ca.crt": cert}
	switch {
	case has(issuer, "spec", "acme"):
		delete(data, "ca.crt") // who asks a public CA trusts it already
	case by != nil:
		data["ca.crt"] = by.PEM()
	}
	return data, nil
}

// certificateTemplate is what a Certificate's specification says of the certificate.
func certificateTemplate(c *unstructured.Unstructured) (*x509.Certificate, error) {
	names, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
	ips, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "ipAddresses")
	t := pki.Template(object.Text(c, "spec", "commonName"), names, ips)
	if t.Subject.CommonName == "" && len(names)+len(ips) == 0 {
		return nil, fmt.Errorf("at least one of commonName (from the commonName field or from a literalSubject), dnsNames, uriSANs, ipAddresses, emailSANs or otherNames must be set")
	}
	t.IsCA, _, _ = unstructured.NestedBool(c.Object, "spec", "isCA")
	t.BasicConstraintsValid = true
	if t.IsCA {
		t.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	const usual = 90 * 24 * time.Hour
	life := usual
	if s := object.Text(c, "spec", "duration"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, fmt.Errorf("spec.duration: %w", err)
		}
		life = d
	}
	t.NotAfter = t.NotBefore.Add(life)
	return t, nil
}

func (i *instance) writePair(ctx context.Context, c, issuer *unstructured.Unstructured, data map[string][]byte) error {
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	return i.apply(ctx, object.New("v1", "Secret", c.GetNamespace(), object.Text(c, "spec", "secretName"), map[string]any{
		"metadata": map[string]any{
			"labels": map[string]any{"controller.cert-manager.io/fao": "true"},
			"annotations": map[string]any{
				"cert-manager.io/certificate-name": c.GetName(), "cert-manager.io/issuer-name": issuer.GetName(),
				"cert-manager.io/issuer-kind": issuer.GetKind(), "cert-manager.io/issuer-group": "cert-manager.io",
			},
		},
		"type": "kubernetes.io/tls", "data": encoded,
	}))
}

// acmeCA is the public CA of the lab's internet, which no client trusts.
func (i *instance) acmeCA() (*pki.Pair, error) {
	if have, ok := i.kept.(*pki.Pair); ok {
		return have, nil
	}
	cert, key, err := pki.NewCA("Simulated ACME CA of the lab")
	if err != nil {
		return nil, err
	}
	pair, err := pki.Parse(cert, key)
	if err != nil {
		return nil, err
	}
	i.kept = pair
	return pair, nil
}
