package platform

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// A part waits for Fleet if it needs, directly or by way of others, one that Fleet installs; Fleet's own, the network and
// what offers GPUs are none of the two halves.
func TestSplitParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var all []addon.Recipe
		late := map[string]bool{}
		var before, after []string
		for i := range 8 {
			p := addon.Recipe{Part: chart.Part{Name: string(rune('a' + i))}, Via: spec.ViaDirect}
			if random.IntN(4) == 0 {
				p.Via = spec.ViaFleet
			}
			p.Network, p.Offers = random.IntN(6) == 0, random.IntN(6) == 0
			if random.IntN(8) == 0 {
				p.Name = GitOps
			}
			waits := false
			for _, o := range all {
				if random.IntN(4) == 0 {
					p.Needs = append(p.Needs, o.Name)
					waits = waits || late[o.Name]
				}
			}
			switch {
			case p.Via == spec.ViaFleet:
				late[p.Name] = true
			case p.Name == GitOps:
			case waits:
				late[p.Name], after = true, append(after, p.Name)
			case !p.Network && !p.Offers:
				before = append(before, p.Name)
			}
			all = append(all, p)
		}
		names := func(parts []addon.Recipe) (out []string) {
			for _, p := range parts {
				out = append(out, p.Name)
			}
			return out
		}
		first, second := Split(all)
		assert.Equal(t, before, names(first))
		assert.Equal(t, after, names(second))
	}
}

// A part goes by Fleet if the file says so, for it or for all, and Fleet can.
func TestViaOfAPart(t *testing.T) {
	fleet := func(by string) *spec.Fleet { return &spec.Fleet{Repo: "https://git.example.org/r", Default: by} }
	of := map[string]string{"x": spec.ViaFleet, "y": spec.ViaDirect}
	infos := map[string]addon.Info{"fleet": {NeverInFleet: "it is Fleet itself"}, "hub": {NeverInArgo: "it needs Helm"}}
	for _, c := range []struct {
		p    spec.Platform
		x    addon.Recipe
		want string
	}{
		{spec.Platform{}, addon.Recipe{}, spec.ViaDirect},
		{spec.Platform{Fleet: &spec.Fleet{Default: spec.ViaFleet}}, addon.Recipe{}, spec.ViaDirect}, // no repository
		{spec.Platform{Fleet: fleet("")}, addon.Recipe{}, spec.ViaDirect},
		{spec.Platform{Fleet: fleet(spec.ViaFleet)}, addon.Recipe{}, spec.ViaFleet},
		{spec.Platform{Fleet: fleet(spec.ViaFleet)}, addon.Recipe{Part: chart.Part{Name: "fleet"}}, spec.ViaDirect},
		{spec.Platform{ArgoCD: &spec.ArgoCD{Fleet: *fleet(spec.ViaArgo)}}, addon.Recipe{}, spec.ViaArgo},
		{spec.Platform{ArgoCD: &spec.ArgoCD{Fleet: *fleet(spec.ViaArgo)}}, addon.Recipe{Part: chart.Part{Name: "hub"}}, spec.ViaDirect},
		{spec.Platform{Flux: fleet(spec.ViaFlux)}, addon.Recipe{Part: chart.Part{Name: "hub"}}, spec.ViaFlux},
		{spec.Platform{Fleet: fleet(""), Charts: spec.Charts{Via: of}}, addon.Recipe{Part: chart.Part{Name: "x"}}, spec.ViaFleet},
		{spec.Platform{Fleet: fleet(spec.ViaFleet), Charts: spec.Charts{Via: of}}, addon.Recipe{Part: chart.Part{Name: "y"}}, spec.ViaDirect},
		{spec.Platform{Charts: spec.Charts{Via: of}}, addon.Recipe{Part: chart.Part{Name: "x"}}, spec.ViaDirect},
	} {
		assert.Equal(t, c.want, viaOf(&c.p, c.x, infos[c.x.Name]), "%+v", c)
	}
}

// A profile finds a node by its pool, or by its name if it has none.
func TestLabelsOfANode(t *testing.T) {
	assert.Equal(t, map[string]string{"kubernetes.io/hostname": "a"}, hubLabels(spec.Node{Name: "a"}))
	pooled := hubLabels(spec.Node{Name: "a", Pool: "gpu"})
	assert.Len(t, pooled, 1)
	for _, value := range pooled {
		assert.Equal(t, "gpu", value)
	}
}

// Without an ingress the hub has a load balancer's address of its own, which may be reserved.
func TestIngressOfTheHub(t *testing.T) {
	address := netip.MustParseAddr("10.0.0.200")
	p := &spec.Platform{Hub: &spec.Hub{Namespace: "hub"}, Ingress: spec.Ingress{Kind: spec.IngressNone}}
	assert.Equal(t, jupyterhub.Ingress{Kind: jupyterhub.ByLoadBalancer}, hubIngress(p))
	p.LB = &spec.LoadBalancer{Kind: spec.LBMetalLB, Reserved: map[string]netip.Addr{"hub/proxy-public": address, "ingress": netip.MustParseAddr("10.0.0.201")}}
	assert.Equal(t, jupyterhub.Ingress{Kind: jupyterhub.ByLoadBalancer, Address: address, Annotations: addon.AddressAnnotations(spec.LBMetalLB, address)}, hubIngress(p))
	for _, tls := range []*spec.TLS{nil, {Issuer: "home"}} {
		p.TLS, p.Ingress.Kind = tls, spec.IngressGateway
		assert.Equal(t, jupyterhub.Ingress{Kind: jupyterhub.ByGateway, GatewayNamespace: addon.GatewayNamespace, Gateway: addon.GatewayName(p.Ingress), TLS: tls != nil}, hubIngress(p))
	}
	p.Ingress = spec.Ingress{Class: "traefik"}
	assert.Equal(t, jupyterhub.Ingress{Kind: jupyterhub.ByIngress, Class: "traefik", TLSSecret: hubTLS,
		Annotations: map[string]string{"cert-manager.io/cluster-issuer": "home"}}, hubIngress(p))
	p.TLS.Source = spec.TLSSecret
	assert.Empty(t, hubIngress(p).Annotations, "the file brings the certificate")
	p.TLS = nil
	assert.Empty(t, hubIngress(p).TLSSecret)
}

// The hub needs the parts that provide its storage, its certificate and its way in, of those that there are, each once.
func TestPartsThatTheHubNeeds(t *testing.T) {
	provider := func(name string, classes ...string) addon.Recipe {
		return addon.Recipe{Part: chart.Part{Name: name, Classes: classes}}
	}
	site := &addon.Site{DefaultClass: "blocks", Made: []addon.Recipe{provider("longhorn", "blocks"), provider("scratch", "fast"), provider("nfs", "shared"), provider("other")}}
	p := &spec.Platform{Hub: &spec.Hub{Namespace: "hub"}}
	needs := func() []string { return hubNeeds(p, site) }
	assert.Equal(t, []string{"longhorn"}, needs())
	p.Hub.Home.Class = "shared"
	assert.Equal(t, []string{"nfs", "longhorn"}, needs())
	p.Hub.Home.Class, p.Hub.Scratch = "local-path", &spec.HubScratch{Class: "fast"}
	assert.Equal(t, []string{"longhorn", "scratch"}, needs())
	p.Hub.Scratch, p.Hub.Shared = nil, []spec.HubShare{{}}
	assert.Equal(t, []string{"longhorn", "nfs"}, needs())
	site.Made = append(site.Made, provider("issuer"), provider("ingress"), provider(addon.KueueName))
	assert.Equal(t, []string{"longhorn", "nfs", "issuer", "ingress"}, needs())
	p.Queues = []spec.Queue{{Name: "a", Namespaces: []string{"train"}}, {Name: "b", Namespaces: []string{"x", "hub"}}}
	assert.Equal(t, []string{"longhorn", "nfs", "issuer", "ingress", addon.KueueName}, needs())
	assert.Equal(t, "b", p.QueueOf("hub").Name)
	p.Hub.Database.Name, site.Made = "hub-db", append(site.Made, provider(addon.PostgresName))
	assert.Equal(t, []string{"longhorn", "nfs", "issuer", "ingress", addon.KueueName, addon.PostgresName}, needs())
}

// Databases wait for kinds of monitoring. If both the hub and monitoring come by Git, the hub cannot wait for its database:
// nothing would be pushed.
func TestTheHubInGitIsReadyAfterItsDatabase(t *testing.T) {
	hub := addon.Recipe{Part: chart.Part{Name: "jupyterhub", Needs: []string{"nfs", addon.PostgresName}}, Via: spec.ViaFlux}
	postgres := addon.Recipe{Part: chart.Part{Name: addon.PostgresName}, Direct: "it would delete data"}
	all := []addon.Recipe{{Part: chart.Part{Name: "nfs"}, Via: spec.ViaFlux}, {Part: chart.Part{Name: "kueue"}}, postgres, hub}
	assert.True(t, readyLater(all, hub, addon.PostgresName))
	assert.False(t, readyLater(all, hub, "nfs"))
	hub.Via = spec.ViaDirect
	assert.False(t, readyLater(all, hub, addon.PostgresName))
	assert.True(t, readyLater(all, postgres, "nfs"), "what comes by Git")
	assert.False(t, readyLater(all, postgres, "kueue"))
}
