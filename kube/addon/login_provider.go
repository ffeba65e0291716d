package addon

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// ProviderName is the part of a login by a provider, and ProviderRecord what it records that by.
const ProviderName, ProviderRecord = "login-provider", "homelab-login"

// LoginProvider is a provider that exists. In the cluster are the rights of its groups, and what it has to know.
type LoginProvider struct {
	*spec.Login
	Platform *spec.Platform // which parts people sign in to by it
}

func (l LoginProvider) Info() Info {
	return Info{Name: ProviderName, Section: "login.provider", On: l.Login != nil && l.Provider != nil,
		NeverInFleet: "who signs in, and with which rights, has to be the same everywhere at once"}
}

// Make records where people are sent back to: so the plan of a file that changes it shows that, and a file without the
// provider removes it, which is asked for.
func (l LoginProvider) Make(s *Site) (Recipe, error) {
	data := map[string]string{"issuer": l.Provider.Issuer, "name-claim": l.Provider.NameClaim}
	p := Recipe{Replaces: []string{LoginName}, Verify: []verify.Check{{Name: "programs find it and its keys", Try: l.answers}}}
	for _, c := range loginClients(l.Platform, s) {
		id := l.Client(c.id).ClientID
		data[c.id] = c.redirect
		p.Callbacks = append(p.Callbacks, Web{Title: "of " + c.title + ", client " + id, URL: c.redirect})
	}
	if len(l.ClusterRoles) > 0 {
		for _, at := range kubeloginCallbacks() {
			p.Callbacks = append(p.Callbacks, Web{Title: "of kubectl, client " + l.Client(spec.LoginKubectl).ClientID, URL: at})
		}
	}
	known := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(ProviderName, metav1.NamespaceSystem, ProviderRecord), Data: data}
	p.Part = chart.Part{Name: ProviderName, Before: append([]runtime.Object{known}, loginRoles(l.Login, ProviderName, "homelab-provider")...)}
	return p, nil
}

// answers asks the provider, with the authority that the programs trust.
func (l LoginProvider) answers(ctx context.Context, c verify.Cluster) (string, error) {
	ca, err := issuerAuthority(l.Platform)
	if err != nil {
		return "", err
	}
	if c.Roots != nil && len(ca) > 0 {
		c.Roots = c.Roots.Clone()
		c.Roots.AppendCertsFromPEM(ca)
	}
	return findPublished(ctx, c, l.Provider.Issuer)
}
