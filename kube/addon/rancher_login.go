package addon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const (
	rancherLogin = "rancher-login"
	rancherAPI   = "management.cattle.io/v3"
	rancherOIDC  = "genericoidc" // Rancher's name of the only such provider that it can have
	// rancherGlobal is where Rancher reads secrets of providers (pkg/auth/providers/common/password.go). Of what
	// this part needs Rancher makes it last (pkg/data/management/add.go).
	rancherGlobal = "cattle-global-data"
	// rancherSecret is the name that Rancher itself gives it, and deletes when an administrator disables the provider.
	// It takes the only key, whatever its name.
	rancherSecret, rancherSecretKey = "genericoidcconfig-clientsecret", "clientsecret"
	rancherCallback                 = "/verify-auth" // of its pages
)

// RancherLogin lets people sign in to Rancher by the login. Rancher's local accounts stay.
type RancherLogin struct {
	*spec.Platform
}

func (l RancherLogin) Info() Info {
	return Info{Name: rancherLogin, Section: "login", On: l.RancherSignsIn(), NeverInFleet: "its secret is made in the cluster"}
}

func (l RancherLogin) Make(s *Site) (Recipe, error) {
	p := Recipe{Part: chart.Part{Name: rancherLogin}}
	p.After = append(p.After, l.provider(l.Issuer()))
	for _, group := range l.Login.AdminGroups {
		// A binding cannot change. The name of an object takes less than that of a group.
		sum := sha256.Sum256([]byte(group))
		o := object(rancherAPI, "GlobalRoleBinding", meta(rancherLogin, "", fmt.Sprintf("homelab-login-%x", sum[:6])), nil)
		o.Object["globalRoleName"], o.Object["groupPrincipalName"] = "admin", rancherGroup(group)
		p.After = append(p.After, o)
	}
	s.requireParts(&p, "rancher", LoginName)
	proof, err := s.ClientSecret(l.Login, spec.LoginRancher)
	part := p.Part
	p.Late = func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		out := part
		if err := rancherTakes(ctx, client); err != nil {
			return out, err
		}
		its, err := proof(ctx, client)
		if err == nil && l.Issuer().Authorize == "" { // where its pages send browsers, Rancher does not look up
			var found spec.Issuer
			found, err = s.Discover(ctx)
			out.After = append([]runtime.Object{l.provider(found)}, part.After[1:]...)
		}
		out.Secrets = []chart.Secret{{Namespace: rancherGlobal, Name: rancherSecret, Data: map[string]secret.Value{rancherSecretKey: its}}}
		return out, err
	}
	return p, err
}

func rancherGroup(name string) string { return rancherOIDC + "_group://" + name }

// provider is the AuthConfig (OIDCConfig in pkg/apis/management.cattle.io/v3/authn_types.go at v2.15.0). With all
// addresses Rancher asks Dex inside the cluster, and browsers alone use its public name. A field certificate has an effect
// only with a client's key (pkg/auth/providers/oidc/oidc_client.go), so Rancher itself trusts a provider's authority.
func (l RancherLogin) provider(its spec.Issuer) *unstructured.Unstructured {
	var allowed []any
	for _, group := range l.Login.AdminGroups {
		allowed = append(allowed, rancherGroup(group))
	}
	root := "https://" + l.Rancher.Hostname
	scopes := slices.DeleteFunc(slices.Clone(its.Scopes), func(s string) bool { return s == "offline_access" }) // it asks once
	o := object(rancherAPI, "AuthConfig", meta(rancherLogin, "", rancherOIDC), nil)
	for key, value := range (values{
		"type": "genericOIDCConfig", "enabled": true,
		// Others sign in only if an administrator has made them, or a group of theirs, members of a cluster or project.
		"accessMode": "restricted", "allowedPrincipalIds": allowed, "groupSearchEnabled": true,
		"clientId": l.Login.Client(spec.LoginRancher).ClientID, "clientSecret": rancherGlobal + ":" + rancherSecret, "scope": strings.Join(scopes, " "), "pkceMethod": "S256",
		"rancherUrl": root + rancherCallback, "rancherApiHost": root,
		"issuer": its.URL, "authEndpoint": its.Authorize, "tokenEndpoint": its.Token, "userInfoEndpoint": its.Userinfo, "jwksUrl": its.Keys,
	}) {
		o.Object[key] = value
	}
	if its.GroupsClaim != "groups" {
		o.Object["groupsClaim"] = its.GroupsClaim
	}
	return o
}

// rancherTakes returns an error until Rancher has what this part adds to, and for a provider that a person has set up.
func rancherTakes(ctx context.Context, client *kube.Client) error {
	ns := namespaceObject(rancherGlobal, nil)
	if err := client.Get(ctx, ns); errors.Is(err, kube.ErrNotFound) {
		return converge.Transient(fmt.Errorf("Rancher has not finished its first start: %w", err))
	} else if err != nil {
		return err
	}
	have := object(rancherAPI, "AuthConfig", metav1.ObjectMeta{Name: rancherOIDC}, nil)
	if err := client.Get(ctx, have); errors.Is(err, kube.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	if on, _ := have.Object["enabled"].(bool); !on || have.GetLabels()[ownerLabel] == owner {
		return nil
	}
	issuer, _ := have.Object["issuer"].(string)
	return converge.Permanent(fmt.Errorf("people sign in to Rancher by %s, which homelab did not set up: disable that provider in Rancher (Users & Authentication, Auth Provider), or remove login or rancher from the file", issuer))
}
