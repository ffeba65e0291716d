package operators

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
	"github.com/cps-gpu/homelab/sim/lab/login"
)

func rancherPrograms() []program {
	return []program{{name: "rancher", image: "rancher/rancher", watch: []kind{}, sync: rancher}}
}

// Namespaces of Rancher and its Fleet.
const (
	fleetNamespace      = "cattle-fleet-system"
	fleetLocalNamespace = "fleet-local"
	rancherAgents       = "cattle-fleet-local-system"
)

// fleetVersion is what the pinned Rancher brings.
const fleetVersion = "v0.16.2"

// rancher does what Rancher does at its first start: it creates its namespaces and kinds, its
// CA, and its own Fleet.
func rancher(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept != nil {
		return 0, nil
	}
	var objs []*unstructured.Unstructured
	for _, ns := range []string{fleetNamespace, rancherAgents, "cattle-fleet-clusters-system", fleetLocalNamespace, "fleet-default", "cattle-impersonation-system", "local"} {
		objs = append(objs, object.New("v1", "Namespace", "", ns, nil))
	}
	objs = append(objs, fleetDefinitions()...)
	for _, d := range [][3]string{{"management.cattle.io", "clusters", "Cluster"}, {"management.cattle.io", "settings", "Setting"}, {"management.cattle.io", "features", "Feature"},
		{"management.cattle.io", "authconfigs", "AuthConfig"}, {"management.cattle.io", "globalroles", "GlobalRole"}, {"management.cattle.io", "globalrolebindings", "GlobalRoleBinding"}} {
		objs = append(objs, definition(d[0], "v3", d[1], d[2], "Cluster"))
	}
	objs = append(objs, definition("provisioning.cattle.io", "v1", "clusters", "Cluster", "Namespaced"))
	if err := i.apply(ctx, objs...); err != nil {
		return 0, err
	}
	if err := i.rancherSecrets(ctx); err != nil {
		return 0, err
	}
	objs = []*unstructured.Unstructured{
		object.New("management.cattle.io/v3", "Cluster", "", "local", map[string]any{"spec": map[string]any{"displayName": "local", "internal": true}}),
		object.New("management.cattle.io/v3", "Setting", "", "server-url", map[string]any{"value": i.environment("CATTLE_SERVER_URL")}),
		object.New("management.cattle.io/v3", "Setting", "", "server-version", map[string]any{"value": "v2.15.2"}),
		object.New("v1", "ConfigMap", fleetNamespace, "fleet-controller", map[string]any{"data": map[string]any{
			"config": `{"agentImage":"rancher/fleet-agent:` + fleetVersion + `","bootstrap":{"agentNamespace":"` + rancherAgents + `"}}`}}),
	}
	for _, name := range []string{"fleet-controller", "gitjob", "helmops"} {
		objs = append(objs, deployment(fleetNamespace, name, "rancher/fleet:"+fleetVersion, "fleetcontroller", name))
	}
	objs = append(objs, deployment(i.pod.Namespace, "rancher-webhook", "rancher/rancher-webhook:v0.10.2"))
	if err := i.apply(ctx, objs...); err != nil {
		return 0, err
	}
	if err := i.rancherData(ctx); err != nil {
		return 0, err
	}
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		ca, err := i.file(ctx, "tls-ca-additional-volume", "ca-additional.pem")
		return i.rancherPages([]byte(ca)).Handler(), err
	})
}

// rancherData makes what Rancher keeps as it is if it is there, in the order of the real one (pkg/data/management/add.go).
func (i *instance) rancherData(ctx context.Context) error {
	objs := []*unstructured.Unstructured{object.New("management.cattle.io/v3", "GlobalRole", "", "admin", map[string]any{"builtin": true, "displayName": "Admin"})}
	for name, kind := range map[string]string{"genericoidc": "genericOIDCConfig", "local": "localConfig"} {
		o := object.New("management.cattle.io/v3", "AuthConfig", "", name, map[string]any{"type": kind, "enabled": name == "local", "logoutAllSupported": name != "local"})
		o.SetAnnotations(map[string]string{"management.cattle.io/auth-provider-cleanup": "rancher-locked"})
		objs = append(objs, o)
	}
	objs = append(objs, object.New("v1", "Namespace", "", "cattle-global-data", nil))
	for _, o := range objs {
		client, err := i.client(o)
		if err != nil {
			return err
		}
		if _, err := client.Create(ctx, o, metav1.CreateOptions{FieldManager: i.program.name}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// rancherPages are its pages as far as a sign-in shows them.
func (i *instance) rancherPages(ca []byte) *login.Rancher {
	at := func(resource string) dynamic.ResourceInterface {
		return i.Dynamic.Resource(kind{"management.cattle.io", "v3", resource}.gvr())
	}
	return &login.Rancher{
		Config: func(ctx context.Context) ([]byte, error) {
			o, err := at("authconfigs").Get(ctx, "genericoidc", metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return o.MarshalJSON()
		},
		Secret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			s, err := i.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return s.Data, nil
		},
		Admins: func(ctx context.Context) (out []string, err error) {
			list, err := at("globalrolebindings").List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for _, o := range list.Items {
				if group, _ := o.Object["groupPrincipalName"].(string); o.Object["globalRoleName"] == "admin" {
					out = append(out, group)
				}
			}
			return out, nil
		},
		HTTP: i.Traffic.Client(ca), Now: time.Now,
	}
}

// rancherSecrets makes the first password, unless one is given, and the CA of the Issuer of
// Rancher's own certificate.
func (i *instance) rancherSecrets(ctx context.Context) error {
	cert, key, err := pki.NewCA("dynamiclistener-ca")
	if err != nil {
		return err
	}
	for name, data := range map[string]map[string]any{
		"bootstrap-secret": {"bootstrapPassword": []byte(rand.Text())},
		"tls-rancher":      {"tls.crt": cert, "tls.key": key},
	} {
		_, err := i.Client.CoreV1().Secrets(i.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("secret %s: %w", name, err)
		}
		for k, v := range data {
			data[k] = base64.StdEncoding.EncodeToString(v.([]byte))
		}
		kind := "Opaque"
		if name == "tls-rancher" {
			kind = "kubernetes.io/tls"
		}
		if err := i.apply(ctx, object.New("v1", "Secret", i.pod.Namespace, name, map[string]any{"data": data, "type": kind})); err != nil {
			return err
		}
	}
	return nil
}

// deployment is a small one with one pod, which runs where Rancher's do.
func deployment(namespace, name, image string, command ...string) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	container := map[string]any{"name": name, "image": image}
	if len(command) > 0 {
		container["command"] = command
	}
	return object.New("apps/v1", "Deployment", namespace, name, map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"tolerations": []any{map[string]any{"key": "cattle.io/os", "operator": "Equal", "value": "linux", "effect": "NoSchedule"}},
				"containers":  []any{container},
			},
		},
	}})
}

// fleetDefinitions are the kinds that Fleet brings with Rancher.
func fleetDefinitions() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for plural, kind := range map[string]string{
		"bundledeployments": "BundleDeployment", "bundlenamespacemappings": "BundleNamespaceMapping", "bundles": "Bundle", "clustergroups": "ClusterGroup",
		"clusterregistrations": "ClusterRegistration", "clusterregistrationtokens": "ClusterRegistrationToken", "clusters": "Cluster", "contents": "Content",
		"gitreporestrictions": "GitRepoRestriction", "gitrepos": "GitRepo", "helmops": "HelmOp", "imagescans": "ImageScan", "policies": "Policy", "schedules": "Schedule",
	} {
		scope := "Namespaced"
		if kind == "Content" {
			scope = "Cluster"
		}
		out = append(out, definition("fleet.cattle.io", "v1alpha1", plural, kind, scope))
	}
	return out
}
