package seed_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/talos/internal/seed"
)

// theirs is what Talos 1.13.7 reads of a network-config (NetworkConfig and Ethernet of
// internal/app/machined/pkg/runtime/v1alpha1/platform/nocloud/metadata.go); other keys are nothing to it.
type theirs struct {
	Version   int `yaml:"version"`
	Ethernets map[string]struct {
		Match struct {
			MAC string `yaml:"macaddress"`
		} `yaml:"match"`
		DHCPv4      bool     `yaml:"dhcp4"`
		Addresses   []string `yaml:"addresses"`
		MTU         uint32   `yaml:"mtu"`
		NameServers struct {
			Addresses []string `yaml:"addresses"`
		} `yaml:"nameservers"`
		Routes []struct {
			To     string `yaml:"to"`
			Via    string `yaml:"via"`
			OnLink bool   `yaml:"on-link"`
		} `yaml:"routes"`
	} `yaml:"ethernets"`
}

func machine(r *rand.Rand) cloudinit.Machine {
	m := cloudinit.Machine{Hostname: "cp1", User: "ubuntu", AuthorizedKeys: []string{"ssh-ed25519 AAAAhunter2"}, MAC: fmt.Sprintf("bc:24:11:00:00:%02x", r.IntN(256)),
		DNS: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, MTU: []int{0, 1500, 9000}[r.IntN(3)], PasswordHash: "$6$hunter2"}
	if r.IntN(4) > 0 {
		m.Address, m.Gateway = netip.MustParsePrefix("10.0.0.11/24"), []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.168.1.1"), {}}[r.IntN(3)]
		if r.IntN(2) == 0 {
			m.Address6, m.Gateway6 = netip.MustParsePrefix("fd00::11/64"), []netip.Addr{netip.MustParseAddr("fe80::1"), {}}[r.IntN(2)]
		}
	}
	if r.IntN(2) == 0 {
		m.Cards = []cloudinit.Card{{Name: "fast", MAC: "bc:24:11:00:01:00", Address: netip.MustParsePrefix("10.10.0.11/24"), MTU: 9000,
			Routes: []cloudinit.Route{{To: "10.20.0.0/16", Via: "10.10.0.1"}}}}
	}
	return m
}

// TestTalosReadsWhatWeMeant: every address, route and server of any machine is in the keys that Talos reads, and
// neither a key nor a password is on the disc.
func TestTalosReadsWhatWeMeant(t *testing.T) {
	for n := range uint64(200) {
		m := machine(rand.New(rand.NewPCG(n, 4)))
		doc, err := seed.Render(m)
		require.NoError(t, err)
		files, err := doc.Files()
		require.NoError(t, err)
		assert.Len(t, files, 3)
		for name, b := range files {
			assert.NotContains(t, string(b), "hunter2", name)
		}
		first, _, _ := bytes.Cut(files["user-data"], []byte("\n"))
		assert.Equal(t, "#cloud-config", string(first))
		var meta map[string]string
		require.NoError(t, yaml.Unmarshal(files["meta-data"], &meta))
		assert.Equal(t, map[string]string{"local-hostname": "cp1", "instance-id": "cp1"}, meta)

		var got theirs
		require.NoError(t, yaml.Unmarshal(files["network-config"], &got))
		assert.Equal(t, 2, got.Version)
		require.Len(t, got.Ethernets, 1+len(m.Cards))
		eth := got.Ethernets["eth0"]
		assert.Equal(t, m.MAC, eth.Match.MAC)
		assert.Equal(t, !m.Address.IsValid(), eth.DHCPv4)
		assert.Equal(t, valid(m.Address, m.Address6), eth.Addresses)
		assert.Equal(t, uint32(m.MTU), eth.MTU)
		assert.Equal(t, []string{"10.0.0.1"}, eth.NameServers.Addresses)
		var gateways []string
		for _, r := range eth.Routes {
			to, err := netip.ParsePrefix(r.To) // as Talos does
			require.NoError(t, err)
			assert.Zero(t, to.Bits())
			via := netip.MustParseAddr(r.Via)
			in := func(p netip.Prefix) bool { return p.IsValid() && p.Masked().Contains(via) }
			assert.Equal(t, !in(m.Address) && !in(m.Address6), r.OnLink)
			gateways = append(gateways, r.Via)
		}
		want := slices.DeleteFunc([]string{m.Gateway.String(), m.Gateway6.String()}, func(s string) bool { return strings.HasPrefix(s, "invalid") })
		assert.ElementsMatch(t, want, gateways)
		for _, c := range m.Cards {
			card := got.Ethernets[c.Name]
			assert.Equal(t, c.MAC, card.Match.MAC)
			assert.Equal(t, valid(c.Address), card.Addresses)
			assert.Equal(t, c.Routes[0].Via, card.Routes[0].Via)
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", n, files["network-config"])
		}
	}
}

func valid(all ...netip.Prefix) (out []string) {
	for _, p := range all {
		if p.IsValid() {
			out = append(out, p.String())
		}
	}
	return out
}

// TestOtherKeys: those who log in to other machines do not change a Talos machine's disc.
func TestOtherKeys(t *testing.T) {
	m := machine(rand.New(rand.NewPCG(1, 1)))
	one, err := seed.Render(m)
	require.NoError(t, err)
	m.AuthorizedKeys = []string{"ssh-ed25519 BBBB"}
	two, err := seed.Render(m)
	require.NoError(t, err)
	assert.Equal(t, one, two)
}

func TestRefused(t *testing.T) {
	m := machine(rand.New(rand.NewPCG(1, 1)))
	m.Cards = []cloudinit.Card{{Name: "lab", MAC: "bc:24:11:00:01:00", DHCP: true}}
	_, err := seed.Render(m)
	require.ErrorContains(t, err, "the card lab")
	m.Cards, m.MAC = nil, "no"
	_, err = seed.Render(m)
	require.ErrorContains(t, err, "MAC address")
}
