package operators

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

func validating() kind {
	return kind{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"}
}

func mutating() kind {
	return kind{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"}
}

// certManagerWebhook makes the Secret with the CA of its own serving certificate. In the lab
// that CA is the cluster's, because the lab answers instead of the webhook.
func certManagerWebhook(ctx context.Context, i *instance) (time.Duration, error) {
	name := i.argument("dynamic-serving-ca-secret-name")
	if name == "" {
		return 0, nil
	}
	return 0, i.servingSecret(ctx, i.pod.Namespace, name, name)
}

// servingSecret makes a Secret of the lab's CA and a certificate for hosts, under all the keys
// that various programs use.
func (i *instance) servingSecret(ctx context.Context, namespace, name string, hosts ...string) error {
	cert, key, err := i.CA.Issue(hosts...)
	if err != nil {
		return err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"ca.crt": i.CA.PEM(), "ca": i.CA.PEM(), corev1.TLSCertKey: cert, "cert": cert, corev1.TLSPrivateKeyKey: key, "key": key},
	}
	_, err = i.Client.CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

// caInjector simulates cert-manager's: webhooks that name a Secret or a Certificate trust its
// CA.
func caInjector(ctx context.Context, i *instance) (time.Duration, error) {
	for _, k := range []kind{validating(), mutating()} {
		list, err := all[unstructured.Unstructured](i, k)
		if err != nil {
			return 0, err
		}
		for _, hook := range list {
			ca, err := i.injected(ctx, hook.GetAnnotations())
			if err != nil || ca == nil {
				continue
			}
			if err := i.trust(ctx, hook, ca); err != nil {
				return 0, err
			}
		}
	}
	return 10 * time.Second, nil
}

// injected finds the CA that annotations name.
func (i *instance) injected(ctx context.Context, annotations map[string]string) ([]byte, error) {
	from := annotations["cert-manager.io/inject-ca-from-secret"]
	if from == "" {
		from = annotations["cert-manager.io/inject-ca-from"]
		if namespace, name, ok := strings.Cut(from, "/"); ok {
			c, err := i.Dynamic.Resource(certificatesKind().gvr()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			from = namespace + "/" + object.Text(c, "spec", "secretName")
		}
	}
	namespace, name, ok := strings.Cut(from, "/")
	if !ok {
		return nil, nil
	}
	s, err := one[corev1.Secret](i, secrets(), namespace, name)
	if err != nil || s == nil {
		return nil, err
	}
	return s.Data["ca.crt"], nil
}

// trust writes a CA into all webhooks of a configuration.
func (i *instance) trust(ctx context.Context, configuration *unstructured.Unstructured, ca []byte) error {
	hooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for n := range hooks {
		m, ok := hooks[n].(map[string]any)
		if !ok {
			continue
		}
		if err := unstructured.SetNestedField(m, base64.StdEncoding.EncodeToString(ca), "clientConfig", "caBundle"); err != nil {
			return fmt.Errorf("webhook %s: %w", configuration.GetName(), err)
		}
	}
	return i.patch(ctx, configuration, map[string]any{"webhooks": hooks})
}

// trustWebhooks lets the API server trust the lab's answers for webhooks that would write
// their own CA into their configuration, as MetalLB does. It skips those of cert-manager's
// injector.
func trustWebhooks(ctx context.Context, i *instance) (time.Duration, error) {
	for _, k := range []kind{validating(), mutating()} {
		list, err := all[unstructured.Unstructured](i, k)
		if err != nil {
			return 0, err
		}
		for _, configuration := range list {
			if !selfMade(configuration) {
				continue
			}
			if err := i.trust(ctx, configuration, i.CA.PEM()); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// selfMade reports whether a configuration has Services as webhooks, and no injector for their
// CA.
func selfMade(configuration *unstructured.Unstructured) bool {
	for name := range configuration.GetAnnotations() {
		if strings.HasPrefix(name, "cert-manager.io/inject-ca-from") {
			return false
		}
	}
	for _, hook := range nestedList(configuration, "webhooks") {
		h := &unstructured.Unstructured{Object: hook}
		if !has(h, "clientConfig", "service") || object.Text(h, "clientConfig", "caBundle") != "" {
			return false
		}
	}
	return true
}
