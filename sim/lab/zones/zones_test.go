package zones_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/zones"
)

const zone = "home.example"

func server(names labtest.NameServer, key string) zones.Server {
	return zones.Server{Address: names.Address, Key: key, Algorithm: "hmac-sha256", Secret: names.Secret}
}

// services open each service of a name server's zone, with credentials that it takes and with others.
func services() map[string]func(t *testing.T, names labtest.NameServer) (ours, wrong zones.Service) {
	return map[string]func(*testing.T, labtest.NameServer) (ours, wrong zones.Service){
		"rfc2136": func(_ *testing.T, names labtest.NameServer) (ours, wrong zones.Service) {
			return server(names, labtest.Key), server(names, labtest.OtherKey)
		},
		"cloudflare": func(t *testing.T, names labtest.NameServer) (ours, wrong zones.Service) {
			c := labtest.NewCloudflare(t, names, zone)
			return zones.Cloudflare{Address: c.Address, Token: c.Token}, zones.Cloudflare{Address: c.Address, Token: "other"}
		},
		"route53": func(t *testing.T, names labtest.NameServer) (ours, wrong zones.Service) {
			a := labtest.NewRoute53(t, names, zone)
			return zones.Route53{Address: a.Address, AccessKey: a.AccessKey, Secret: a.Secret}, zones.Route53{Address: a.Address, AccessKey: a.AccessKey, Secret: "other"}
		},
	}
}

// TestRecords: records come, follow and go, and those of other owners stay.
func TestRecords(t *testing.T) {
	for name, open := range services() {
		t.Run(name, func(t *testing.T) { records(t, open) })
	}
	require.ErrorContains(t, zones.Keeper{Service: zones.Server{Address: "192.0.2.1:53"}, Zones: []string{zone}}.Sync(t.Context(), nil), "on the loopback interface")
	require.ErrorContains(t, zones.Keeper{Service: zones.Cloudflare{Address: "https://192.0.2.1/client/v4"}, Zones: []string{zone}}.Sync(t.Context(), nil), "on the loopback interface")
}

func records(t *testing.T, open func(*testing.T, labtest.NameServer) (ours, wrong zones.Service)) {
	t.Helper()
	names := labtest.Names(t, zone)
	service, other := open(t, names)
	keeper := func(owner string) zones.Keeper {
		return zones.Keeper{Service: service, Zones: []string{zone}, Owner: owner, Prefix: "homelab-"}
	}
	hub := func(targets ...string) zones.Name {
		return zones.Name{Host: "hub.home.example", Targets: targets, Resource: "ingress/jupyterhub/hub"}
	}
	ours, others := keeper("ours"), keeper("others")
	outside := zones.Name{Host: "hub.work.example", Targets: []string{"10.0.0.200"}}
	require.NoError(t, ours.Sync(t.Context(), []zones.Name{hub("10.0.0.200", "fd00::1"), hub("10.0.0.200"), outside}))
	mark := func(kind string) string {
		return "homelab-" + kind + `-hub.home.example TXT "heritage=external-dns,external-dns/owner=ours,external-dns/resource=ingress/jupyterhub/hub"`
	}
	all := []string{mark("a"), mark("aaaa"), "hub.home.example A 10.0.0.200", "hub.home.example AAAA fd00::1"}
	assert.ElementsMatch(t, all, names.Records(t, zone))

	require.NoError(t, others.Sync(t.Context(), []zones.Name{hub("10.0.0.9"), {Host: "wiki.home.example", Targets: []string{"10.0.0.8"}, Resource: "service/wiki/wiki"}}))
	require.NoError(t, others.Sync(t.Context(), nil))
	assert.ElementsMatch(t, all, names.Records(t, zone), "another owner changed a record that is ours, or left its own")

	require.NoError(t, ours.Sync(t.Context(), []zones.Name{hub("10.0.0.201")}))
	assert.ElementsMatch(t, []string{mark("a"), "hub.home.example A 10.0.0.201"}, names.Records(t, zone))
	require.NoError(t, ours.Sync(t.Context(), nil))
	assert.Empty(t, names.Records(t, zone))

	wrong := ours
	wrong.Service = other
	require.Error(t, wrong.Sync(t.Context(), []zones.Name{hub("10.0.0.200")}))
}

// TestCertificate: Pebble signs for names, also a wildcard, that records of the zone prove; the records go.
func TestCertificate(t *testing.T) {
	names := labtest.Names(t, zone)
	pebble := labtest.Certificates(t, names)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	account := zones.Authority{Directory: pebble.Directory, CA: pebble.CA, Key: own, Email: "teacher@home.example"}
	uri, err := account.Register(t.Context())
	require.NoError(t, err)
	again, err := account.Register(t.Context())
	require.NoError(t, err)
	assert.Equal(t, uri, again)

	said := map[string][]string{}
	solver := zones.Solver{Service: server(names, labtest.Key), Zones: []string{zone}, Resolvers: []string{names.Address}, Say: func(name, reason string) error {
		said[name] = append(said[name], reason)
		return nil
	}}
	hosts := []string{"*.home.example", "home.example"}
	for by, open := range services() {
		ours, other := open(t, names)
		proves := solver
		proves.Service = ours
		account.Key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // an authority remembers what an account has proven
		require.NoError(t, err)
		_, err = account.Register(t.Context())
		require.NoError(t, err)
		chain, err := account.Certificate(t.Context(), hosts, key, proves)
		require.NoError(t, err, by)
		assert.Empty(t, names.Records(t, zone), by)
		block, rest := pem.Decode(chain)
		leaf, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		assert.ElementsMatch(t, hosts, leaf.DNSNames)
		roots, between := x509.NewCertPool(), x509.NewCertPool()
		roots.AppendCertsFromPEM(pebble.CA)
		between.AppendCertsFromPEM(rest)
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: "hub.home.example", Roots: roots, Intermediates: between})
		require.NoError(t, err)
		proves.Service = other
		_, err = account.Certificate(t.Context(), []string{"wrong.home.example"}, key, proves)
		require.Error(t, err, by)
	}

	empty := labtest.Names(t, zone)
	for name, c := range map[string]struct {
		change func(*zones.Solver)
		names  []string
		want   string
	}{
		"a key that may not change the zone": {func(s *zones.Solver) { s.Service = server(names, labtest.OtherKey) }, []string{"a.home.example"}, "DNS update failed. Server replied: REFUSED"},
		"a zone of another server":           {func(s *zones.Solver) { s.Zones = []string{"work.example"} }, []string{"hub.work.example"}, "DNS update failed. Server replied: NOTAUTH"},
		"a resolver with another view":       {func(s *zones.Solver) { s.Resolvers = []string{empty.Address} }, []string{"b.home.example"}, `Waiting for DNS-01 challenge propagation: DNS record for "b.home.example" not yet propagated`},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := solver
			c.change(&wrong)
			_, err := account.Certificate(t.Context(), c.names, key, wrong)
			require.ErrorContains(t, err, c.want)
			assert.True(t, slices.Contains(said[c.names[0]], c.want), said)
			assert.Empty(t, names.Records(t, zone))
		})
	}
	pebble.Limit(true)
	_, err = account.Certificate(t.Context(), []string{"c.home.example"}, key, solver)
	var refused *zones.Refused
	require.ErrorAs(t, err, &refused)
	assert.Contains(t, refused.Reason, `order is in "errored" state: Failed to create Order: 429 urn:ietf:params:acme:error:rateLimited: too many certificates`)
}
