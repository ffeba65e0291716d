package addon

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestNamesLead compares what a zone has with where a cluster has its names.
func TestNamesLead(t *testing.T) {
	e := ExternalDNS{DNS: &spec.DNS{Zones: []string{"home.example"}}}
	zone := map[string]string{"hub.home.example": "10.0.0.200", "wiki.home.example": "::ffff:10.0.0.9"}
	lookup := func(in, host string) ([]netip.Addr, error) {
		assert.Equal(t, "home.example", in)
		if zone[host] == "" {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr(zone[host])}, nil
	}
	names := map[string]string{"hub.home.example": "10.0.0.200", "hub.work.example": "10.0.0.200", "*.home.example": "10.0.0.200"}
	seen, err := e.compare(names, lookup)
	require.NoError(t, err)
	assert.Equal(t, "1 name", seen)

	names["wiki.home.example"], names["new.home.example"] = "10.0.0.200", "10.0.0.200"
	_, err = e.compare(names, lookup)
	require.ErrorContains(t, err, "zone home.example has no record of new.home.example: kubectl logs")
	require.ErrorContains(t, err, "wiki.home.example leads to 10.0.0.9, and the cluster has it at 10.0.0.200")
}
