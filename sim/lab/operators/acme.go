package operators

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
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

func challenges() kind { return kind{"acme.cert-manager.io", "v1", "challenges"} }

// hasServer reports whether an issuer's ACME server is a real one, on the loopback interface. Others are of the
// lab's internet, whose CA signs at once.
func hasServer(issuer *unstructured.Unstructured) bool {
	u, err := url.Parse(object.Text(issuer, "spec", "acme", "server"))
	return err == nil && zones.OnLoopback(u.Host)
}

// account is that of an issuer, whose key is made once and kept in a Secret.
func (i *instance) account(ctx context.Context, issuer *unstructured.Unstructured) (zones.Authority, error) {
	a := zones.Authority{Directory: object.Text(issuer, "spec", "acme", "server"), Email: object.Text(issuer, "spec", "acme", "email")}
	var err error
	if a.CA, err = base64.StdEncoding.DecodeString(object.Text(issuer, "spec", "acme", "caBundle")); err != nil {
		return a, fmt.Errorf("spec.acme.caBundle: %w", err)
	}
	a.Key, err = i.accountKey(ctx, object.Text(issuer, "spec", "acme", "privateKeySecretRef", "name"))
	return a, err
}

func (i *instance) accountKey(ctx context.Context, name string) (crypto.Signer, error) {
	client := i.Client.CoreV1().Secrets(i.resourceNamespace())
	s, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, key, err := pki.NewCA("account")
		if err != nil {
			return nil, err
		}
		s, err = client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{corev1.TLSPrivateKeyKey: key}}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("account: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	return pki.Key(s.Data[corev1.TLSPrivateKeyKey])
}

// registered makes an issuer's account, unless its status has one of this server and address.
// Source: pkg/issuer/acme/setup.go.
func (i *instance) registered(ctx context.Context, issuer *unstructured.Unstructured) error {
	email := object.Text(issuer, "spec", "acme", "email")
	server, _ := url.Parse(object.Text(issuer, "spec", "acme", "server"))
	have, err := url.Parse(object.Text(issuer, "status", "acme", "uri"))
	if err == nil && have.Host == server.Host && object.Text(issuer, "status", "acme", "lastRegisteredEmail") == email {
		return nil
	}
	a, err := i.account(ctx, issuer)
	if err != nil {
		return err
	}
	uri, err := a.Register(ctx)
	if err != nil {
		return err
	}
	return i.patchStatus(ctx, issuer, map[string]any{"acme": map[string]any{"uri": uri, "lastRegisteredEmail": email}})
}

// order gets a certificate's chain and key from an ACME server.
func (i *instance) order(ctx context.Context, c, issuer *unstructured.Unstructured) (map[string][]byte, error) {
	a, err := i.account(ctx, issuer)
	if err != nil {
		return nil, err
	}
	solver, err := i.solver(ctx, issuer)
	if err != nil {
		return nil, err
	}
	_, keyPEM, err := pki.NewCA("")
	if err != nil {
		return nil, err
	}
	key, err := pki.Key(keyPEM)
	if err != nil {
		return nil, err
	}
	solver.Say = func(name, reason string) error { return i.challenge(ctx, c, name, reason) }
	names, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
	chain, err := a.Certificate(ctx, names, key, solver)
	if refused := (*zones.Refused)(nil); err != nil && !errors.As(err, &refused) {
		i.Log.Info("an order waits", "certificate", c.GetNamespace()+"/"+c.GetName(), "why", err)
		return nil, fmt.Errorf("Waiting on certificate issuance from order %s/%s-1: %q", c.GetNamespace(), c.GetName(), "pending") //nolint:staticcheck // cert-manager's words
	} else if err != nil {
		return nil, err
	}
	return map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: keyPEM}, nil
}

// solver is how an issuer proves names: by signed updates, or by Cloudflare or Route 53.
func (i *instance) solver(ctx context.Context, issuer *unstructured.Unstructured) (zones.Solver, error) {
	for _, s := range nestedList(issuer, "spec", "acme", "solvers") {
		of := &unstructured.Unstructured{Object: s}
		text := func(fields ...string) string { return object.Text(of, append([]string{"dns01"}, fields...)...) }
		from := func(provider, ref string) (string, error) {
			secret, err := i.Client.CoreV1().Secrets(i.resourceNamespace()).Get(ctx, text(provider, ref, "name"), metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("error getting %s secret: %w", provider, err)
			}
			return strings.TrimSpace(string(secret.Data[text(provider, ref, "key")])), nil
		}
		var out zones.Solver
		switch {
		case has(of, "dns01", "rfc2136"):
			secret, err := from("rfc2136", "tsigSecretSecretRef")
			if err != nil {
				return out, err
			}
			// HMACSHA256 here is hmac-sha256 in a message
			algorithm := strings.Replace(strings.ToLower(text("rfc2136", "tsigAlgorithm")), "hmac", "hmac-", 1)
			out.Service = zones.Server{Address: text("rfc2136", "nameserver"), Key: text("rfc2136", "tsigKeyName"), Algorithm: algorithm, Secret: secret}
			out.Resolvers = []string{text("rfc2136", "nameserver")}
		case has(of, "dns01", "cloudflare"):
			token, err := from("cloudflare", "apiTokenSecretRef")
			if err != nil {
				return out, err
			}
			out.Service = zones.CloudflareOf(token)
		case has(of, "dns01", "route53"):
			secret, err := from("route53", "secretAccessKeySecretRef")
			if err != nil {
				return out, err
			}
			out.Service = zones.Route53Of(text("route53", "accessKeyID"), secret, text("route53", "hostedZoneID"))
		default:
			continue
		}
		out.Zones, _, _ = unstructured.NestedStringSlice(of.Object, "selector", "dnsZones")
		if servers := i.argument("dns01-recursive-nameservers"); servers != "" {
			out.Resolvers = strings.Split(servers, ",")
		}
		return out, nil
	}
	return zones.Solver{}, &zones.Refused{Reason: `order is in "errored" state: the lab proves names by dns01.rfc2136, cloudflare and route53 alone`}
}

// challenge shows what a name's proof waits for; empty: it is done, and its object goes.
func (i *instance) challenge(ctx context.Context, c *unstructured.Unstructured, host, reason string) error {
	name := c.GetName() + "-1-" + strings.NewReplacer("*", "wildcard", ".", "-").Replace(host)
	if reason == "" {
		err := i.Dynamic.Resource(challenges().gvr()).Namespace(c.GetNamespace()).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err //nolint:wrapcheck // names the object
	}
	of := object.New("acme.cert-manager.io/v1", "Challenge", c.GetNamespace(), name, map[string]any{"spec": map[string]any{"dnsName": host, "type": "DNS-01", "issuerRef": c.Object["spec"].(map[string]any)["issuerRef"]}})
	object.OwnedBy(of, c)
	if err := i.apply(ctx, of); err != nil {
		return err
	}
	return i.patchStatus(ctx, of, map[string]any{"state": "pending", "processing": true, "reason": reason})
}

// backsOff reports whether a refused Certificate waits: an hour at least, unless it was changed since.
// Source: pkg/controller/certificates/trigger, and certificateRequestMinimumBackoffDuration's default.
func backsOff(c *unstructured.Unstructured) bool {
	at, err := time.Parse(time.RFC3339, object.Text(c, "status", "lastFailureTime"))
	if err != nil || time.Since(at) > time.Hour {
		return false
	}
	for _, of := range nestedList(c, "status", "conditions") {
		if of["type"] == "Issuing" {
			seen, _ := of["observedGeneration"].(int64)
			return of["reason"] == "Failed" && seen == c.GetGeneration()
		}
	}
	return false
}

// certificateFailed says that the authority refused. Source: pkg/controller/certificates/issuing.
func (i *instance) certificateFailed(ctx context.Context, c *unstructured.Unstructured, why string) error {
	why = fmt.Sprintf("The certificate request has failed to complete and will be retried: Failed to wait for order resource %q to become ready: %s", c.GetName()+"-1", why)
	i.events.Event(c, corev1.EventTypeWarning, "Failed", why)
	list := object.Conditions(c, true, "Ready", "False", "DoesNotExist", "Issuing certificate as Secret does not exist")
	both := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": c.GetGeneration()}, "status": map[string]any{"conditions": list}}}
	return i.patchStatus(ctx, c, map[string]any{
		"conditions": object.Conditions(both, true, "Issuing", "False", "Failed", why), "lastFailureTime": time.Now().UTC().Format(time.RFC3339), "failedIssuanceAttempts": 1,
	})
}
