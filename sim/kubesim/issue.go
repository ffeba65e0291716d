package kubesim

import (
	"crypto/ecdsa"
	"crypto/x509"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/authority"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// issue simulates cert-manager, while a pod of its image is ready: issuers become Ready, and a
// Certificate gets its Secret, signed by the cluster's own authority.
func (c *machines) issue() {
	for _, kind := range []string{"clusterissuers.cert-manager.io", "issuers.cert-manager.io", "certificates.cert-manager.io"} {
		for _, e := range c.all(kind) {
			if dig(e.obj, "status", "conditions") != nil || !c.runsImage("cert-manager-controller") {
				continue
			}
			if strings.HasPrefix(kind, "certificates.") && !c.certify(e) {
				continue
			}
			c.putField(e, "status", map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Simulated"}}})
		}
	}
}

// runsImage reports whether a pod is ready whose image has a word in its name.
func (c *machines) runsImage(image string) bool {
	for _, e := range c.all("pods") {
		p := entryAs[corev1.Pod](e)
		if control.Ready(p) && len(p.Spec.Containers) > 0 && strings.Contains(p.Spec.Containers[0].Image, image) {
			return true
		}
	}
	return false
}

// certify writes the Secret of a Certificate.
func (c *machines) certify(e *entry) bool {
	name, _ := dig(e.obj, "spec", "secretName").(string)
	common, _ := dig(e.obj, "spec", "commonName").(string)
	isCA, _ := dig(e.obj, "spec", "isCA").(bool)
	cert := authority.Template(common)
	if isCA {
		cert.IsCA, cert.BasicConstraintsValid, cert.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	}
	signed, err := c.auth.Sign(cert)
	if err != nil {
		return false
	}
	key, err := x509.MarshalECPrivateKey(signed.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return false
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.u().GetNamespace()}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: authority.Encode("CERTIFICATE", signed.Certificate[0]), corev1.TLSPrivateKeyKey: authority.Encode("EC PRIVATE KEY", key)},
	}
	if have := c.get(mustKind("secrets"), secret.Namespace, name); have != nil {
		secret.UID = types.UID(have.uid)
		controllerStore{c: c.Cluster}.Update(secret)
	} else {
		c.make(secret)
	}
	return true
}

// play does what some programs of hooks do that guests do not have: kube-webhook-certgen
// makes a certificate for a webhook.
func (c *machines) play(ct guest.Container, namespace string) {
	name := ""
	for i, arg := range ct.Args {
		if v, ok := strings.CutPrefix(arg, "--secret-name="); ok {
			name = v
		} else if arg == "--secret-name" && i+1 < len(ct.Args) {
			name = ct.Args[i+1]
		}
	}
	if name == "" || !slices.Contains(ct.Args, "create") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.get(mustKind("secrets"), namespace, name) != nil {
		return
	}
	signed, err := c.auth.Sign(authority.Template("webhook"))
	if err != nil {
		return
	}
	c.make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Data: map[string][]byte{"cert": authority.Encode("CERTIFICATE", signed.Certificate[0]), "ca": authority.Encode("CERTIFICATE", c.auth.Cert.Raw), "key": {}}})
}

// share simulates MetalLB's controller, which creates the secret that its speakers share.
func (c *machines) share() {
	for _, e := range c.all("pods") {
		p := entryAs[corev1.Pod](e)
		if !control.Ready(p) {
			continue
		}
		for _, v := range p.Spec.Containers[0].Env {
			if v.Name == "METALLB_ML_SECRET_NAME" && c.get(mustKind("secrets"), p.Namespace, v.Value) == nil {
				c.make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: v.Value, Namespace: p.Namespace},
					Data: map[string][]byte{"secretkey": []byte("simulated")}})
			}
		}
	}
}
