package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// namesFile is a small cluster with a hub, whose address is known.
const namesFile = `name: names
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes: {cp1: {role: server, address: 10.0.0.11, memory: 16GiB}}
loadBalancer: {addresses: [10.0.0.200-10.0.0.219], reserved: {ingress: 10.0.0.200}}
`

// Sections of the file that come and go. %s is what stands for the server of names, and that of certificates.
const (
	hubText   = "hub: {hostname: hub.home.example, auth: {kind: native, admins: [teacher]}}\n"
	zoneText  = "dns: {zones: [home.example], %s, records: true, resolvers: [\"%s\"]}\n"
	acmeText  = "tls: {source: acme, email: teacher@home.example, server: \"%s\", ca: authority.pem}\n"
	ownerText = `homelab-a-%[1]s TXT "heritage=external-dns,external-dns/owner=names,external-dns/resource=`
)

// wildcard and page are a user's own, beside those of the file.
const (
	wildcard = `apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: wildcard, namespace: default}
spec: {secretName: wildcard-tls, dnsNames: ["*.home.example"], issuerRef: {kind: ClusterIssuer, name: homelab}}
`
	page = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: page, namespace: default}
spec:
  ingressClassName: traefik
  rules: [{host: page.home.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: kubernetes, port: {number: 443}}}}]}}]
`
)

// zoneService is a service of zones, as a user of it writes it into the file.
type zoneService struct {
	section string   // of dns
	secret  string   // its key
	env     []string // where its API is
	refused map[string]string
	limit   func(on bool) // refuses requests for their number; nil: it has no limit
	limited func() int    // how many it refused
}

// rfc2136 is the name server itself.
func rfc2136(_ *testing.T, names labtest.NameServer) zoneService {
	section := fmt.Sprintf("rfc2136: {server: %q, key: homelab, secret: file:key}", names.Address)
	return zoneService{section: section, secret: names.Secret, refused: map[string]string{
		section: "has another secret for the key homelab: correct dns.rfc2136.secret",
		strings.Replace(section, "key: homelab", "key: other", 1):          "does not let the key other change this zone",
		strings.Replace(section, "key: homelab", "key: nobody", 1):         "does not know the key nobody with hmac-sha256",
		strings.Replace(section, "secret: file:key", "secret: file:no", 1): "no such file",
		"zone": "does not serve this zone as its primary: correct dns.zones or dns.rfc2136.server",
	}}
}

// cloudflare has the zone of the name server.
func cloudflare(t *testing.T, names labtest.NameServer) zoneService {
	t.Helper()
	c := labtest.NewCloudflare(t, names, "home.example")
	return zoneService{section: "cloudflare: file:key", secret: c.Token, env: []string{"CLOUDFLARE_BASE_URL=" + c.Address}, limit: c.Limit, limited: c.Refused, refused: map[string]string{
		"cloudflare: file:key": "Cloudflare refuses the token of dns.cloudflare: 403 Forbidden: Invalid access token (9109)",
		"zone":                 "sees no such zone at Cloudflare",
		"limit":                "Cloudflare answers 429 Too Many Requests: try again later",
	}}
}

// route53 likewise.
func route53(t *testing.T, names labtest.NameServer) zoneService {
	t.Helper()
	a := labtest.NewRoute53(t, names, "home.example")
	section := fmt.Sprintf("route53: {accessKey: %s, secretKey: file:key}", a.AccessKey)
	return zoneService{section: section, secret: a.Secret, env: []string{"AWS_ENDPOINT_URL_ROUTE_53=" + a.Address}, limit: a.Limit, limited: a.Refused, refused: map[string]string{
		section: "AWS has another secret for the access key",
		strings.Replace(section, a.AccessKey, "AKIAOTHER", 1): "AWS knows no such access key",
		"zone":  "the account of dns.route53 has no such zone",
		"limit": "Route 53 answers 400 Bad Request: try again later",
	}}
}

// namesCase is how a cluster of TestLifeOfNames is.
type namesCase struct {
	name    string
	kind    labctl.Guests
	service func(*testing.T, labtest.NameServer) zoneService
	tool    string // that deploys what it can; empty: none
	cilium  bool   // is the network, and serves the Gateway
}

// file is the cluster without what comes and goes, and gateway the section of the Gateway API.
func (c namesCase) file(t *testing.T) (file, gateway string) {
	t.Helper()
	file, gateway = namesFile, "ingress: gateway\n"
	if c.cilium {
		file, gateway = file+"k3s: {cni: cilium}\n", "ingress: {kind: gateway, by: cilium}\n"
	}
	if c.tool != "" {
		file += newGitHost(t).section(c.tool) + "charts: {via: {metallb: direct}}\n"
	}
	return file, gateway
}

// TestLifeOfNames gives a cluster a zone: records of BIND and certificates of Pebble come, follow what the file and the
// user ask for, and go. The zone's own server takes updates, or Cloudflare or Route 53 are asked; the parts are applied
// directly, or come through Git; Traefik serves the Gateway, or Cilium.
func TestLifeOfNames(t *testing.T) {
	t.Parallel()
	mine := share.Start(t, "services of zones")
	for _, c := range []namesCase{
		{name: "simulated", service: rfc2136, cilium: true}, {name: "real", kind: labtest.Real(), service: rfc2136},
		{name: "fleet", service: rfc2136, tool: "fleet"}, {name: "cloudflare by flux", service: cloudflare, tool: "flux"},
		{name: "route53 by argocd", service: route53, tool: "argocd"},
	} {
		if mine.Next() {
			t.Run(c.name, func(t *testing.T) { lifeOfNames(t, c) })
		}
	}
}

func lifeOfNames(t *testing.T, c namesCase) {
	t.Parallel()
	file, gateway := c.file(t)
	withHub := strings.Replace(file, "{metallb: ", "{jupyterhub: direct, metallb: ", 1) // it would outlive its removal from Git, with its name
	certificates := schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	ingresses := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	names := labtest.Names(t, "home.example")
	service := c.service(t, names)
	pebble := labtest.Certificates(t, names)
	u := newUserOf(t, c.kind)
	u.env = service.env
	u.write(t, "authority.pem", string(pebble.CA))
	u.write(t, "git-token", gitToken)
	u.write(t, "cluster.yaml", file)
	u.must(t, "cluster:up")
	before := u.inCluster(t)

	zone, acme := fmt.Sprintf(zoneText, service.section, names.Address), fmt.Sprintf(acmeText, pebble.Directory)
	u.refusedZones(t, service, file, zone, acme)
	u.write(t, "key", service.secret)
	u.write(t, "cluster.yaml", withHub+zone+acme+hubText)
	plan, _, code := u.run(t, "cluster:plan")
	assert.Equal(t, 2, code, plan)
	u.must(t, "cluster:up")
	u.againNothing(t)
	u.found(t, names, "hub.home.example", pagesAddress)
	pages.Compare(t, "docs/platform.md", "records", strings.Join(slices.Sorted(slices.Values(names.Records(t, "home.example"))), "\n"), *update)
	u.trusted(t, pebble, "jupyterhub", "hub.home.example")
	u.limited(t, pebble, certificates)
	u.create(t, certificates, wildcard)
	if service.limit != nil {
		service.limit(true)
	}
	u.create(t, ingresses, page)
	if before := 0; service.limit != nil { // it goes on later
		before = service.limited()
		u.eventually(t, "the service is asked too often", func() bool { return service.limited() > before })
		service.limit(false)
	}
	u.trusted(t, pebble, "default", "*.home.example")
	u.found(t, names, "page.home.example", pagesAddress)
	u.must(t, "platform:verify", "-part=issuer")
	if service.env == nil { // the lab's internet has no name servers that the zone could be delegated to
		u.must(t, "platform:verify", "-part=external-dns")
	}

	// The Gateway API instead, and another name of the hub; the user's Ingress goes on working.
	byGateway := strings.Replace(hubText, "hub.home", "notebooks.home", 1) + gateway
	u.write(t, "cluster.yaml", withHub+zone+acme+byGateway)
	u.must(t, "cluster:up", "-yes")
	u.againNothing(t)
	u.found(t, names, "notebooks.home.example", pagesAddress)
	traefik := pagesAddress
	if c.cilium { // whose Gateway now has the reserved address
		traefik = "10.0.0.201"
	}
	u.found(t, names, "page.home.example", traefik)
	u.trusted(t, pebble, "kube-system", "notebooks.home.example")
	if c.cilium {
		u.eventually(t, "pages open by Cilium's Gateway", func() bool {
			_, _, code := u.run(t, "platform:verify", "-part=ingress,jupyterhub")
			return code == 0
		})
	}
	u.eventually(t, "the hub's old name is gone", func() bool {
		return !slices.ContainsFunc(names.Records(t, "home.example"), func(r string) bool { return strings.Contains(r, "hub.home.example") })
	})

	// First what has names goes, so that external-dns still removes them.
	u.remove(t, certificates, "wildcard")
	u.remove(t, ingresses, "page")
	u.write(t, "cluster.yaml", file+zone+acme+gateway)
	u.must(t, "cluster:up", "-yes")
	u.eventually(t, "the zone is as it was", func() bool { return len(names.Records(t, "home.example")) == 0 })
	u.write(t, "cluster.yaml", file)
	u.must(t, "cluster:up", "-yes")
	u.againNothing(t)
	if c.tool != "" { // what it leaves, Argo CD all of it, is taken over by the direct way, and removed by it
		u.letGo(t, c.tool)
		file = strings.Replace(file, "default: "+c.tool, "default: direct", 1)
		for _, parts := range []string{zone + acme + byGateway, zone + acme + gateway, ""} {
			u.write(t, "cluster.yaml", file+parts)
			u.must(t, "cluster:up", "-yes")
			u.againNothing(t)
		}
	}
	left := append(slices.Clone(stays), regexp.MustCompile(`^secrets cert-manager/homelab-acme$`)) // cert-manager's account
	if c.cilium {
		left = append(left, ciliumRevisions)
	}
	for _, o := range u.inCluster(t) {
		assert.True(t, slices.Contains(before, o) || slices.ContainsFunc(left, func(s *regexp.Regexp) bool { return s.MatchString(o) }), "left behind: %s", o)
	}
	assert.NotContains(t, u.said.String(), service.secret)
}

// refusedZones tries keys that cannot work: nothing changes, and the message says what to correct.
func (u *user) refusedZones(t *testing.T, of zoneService, file, zone, acme string) {
	t.Helper()
	for section, want := range of.refused {
		text, key := strings.Replace(zone, of.section, section, 1), of.secret
		switch section {
		case of.section:
			key = "b3RoZXItc2VjcmV0LW9mLXRoZS1rZXktb2YtMzItYnl0"
		case "zone":
			text = strings.Replace(zone, "home.example", "work.example", 1)
		case "limit":
			text = zone
			of.limit(true)
		}
		u.write(t, "key", key)
		u.write(t, "cluster.yaml", file+text+acme)
		_, talk, code := u.run(t, "cluster:up", "-yes")
		assert.NotZero(t, code)
		assert.Contains(t, talk, want)
		if section == "limit" {
			of.limit(false)
		}
	}
}

// pagesAddress is the address that is reserved for pages.
const pagesAddress = "10.0.0.200"

// found waits until the zone has a name with an address of the ingress, and says that it is this cluster's.
func (u *user) found(t *testing.T, names labtest.NameServer, host, address string) {
	t.Helper()
	u.eventually(t, "the zone has "+host, func() bool {
		all := names.Records(t, "home.example")
		return slices.Contains(all, host+" A "+address) && slices.ContainsFunc(all, func(r string) bool { return strings.HasPrefix(r, fmt.Sprintf(ownerText, host)) })
	})
}

// trusted waits until a namespace has a certificate for a name that Pebble has signed.
func (u *user) trusted(t *testing.T, pebble *labtest.ACME, namespace, host string) {
	t.Helper()
	client, roots := kubernetes.NewForConfigOrDie(u.server(t)), x509.NewCertPool()
	roots.AppendCertsFromPEM(pebble.CA)
	u.eventually(t, namespace+" has a certificate for "+host, func() bool {
		all, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "type=kubernetes.io/tls"})
		require.NoError(t, err)
		return slices.ContainsFunc(all.Items, func(s corev1.Secret) bool {
			block, rest := pem.Decode(s.Data["tls.crt"])
			leaf, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			between := x509.NewCertPool()
			between.AppendCertsFromPEM(rest)
			_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
			return err == nil && slices.Equal(leaf.DNSNames, []string{host})
		})
	})
}

// limited asks for a certificate that the authority refuses for their number.
func (u *user) limited(t *testing.T, pebble *labtest.ACME, certificates schema.GroupVersionResource) {
	t.Helper()
	pebble.Limit(true)
	defer pebble.Limit(false)
	u.create(t, certificates, wildcard)
	u.eventually(t, "a limit of the authority is said", func() bool {
		c, err := u.client(t).Resource(certificates).Namespace("default").Get(t.Context(), "wildcard", metav1.GetOptions{})
		require.NoError(t, err)
		return strings.Contains(fmt.Sprint(c.Object["status"]), "429 urn:ietf:params:acme:error:rateLimited: too many certificates")
	})
	out, _, code := u.run(t, "platform:verify", "-part=issuer")
	assert.Equal(t, 1, code)
	pages.Compare(t, "docs/platform.md", "refused", out, *update)
	u.remove(t, certificates, "wildcard")
}

// create and remove are what a user does with objects of his own.
func (u *user) create(t *testing.T, of schema.GroupVersionResource, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	_, err := u.client(t).Resource(of).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (u *user) remove(t *testing.T, of schema.GroupVersionResource, name string) {
	t.Helper()
	require.NoError(t, u.client(t).Resource(of).Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
}
