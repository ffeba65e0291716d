package config_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	talos "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/talos/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

// bundle takes seconds, for a key of RSA.
var bundle = sync.OnceValues(func() (*secrets.Bundle, error) {
	return secrets.NewBundle(secrets.NewClock(), talos.TalosVersion1_13)
})

func wish(t *testing.T, s *spec.Spec, n spec.Node) config.Wish {
	t.Helper()
	b, err := bundle()
	require.NoError(t, err)
	return config.Wish{Spec: s, Node: n, Kubernetes: "1.36.2", Installer: "factory.talos.dev/nocloud-installer/3765:v1.13.7",
		ProviderID: "proxmox://home/201", Labels: n.Labels, Secrets: b}
}

// read is what Talos' strict decoder makes of a configuration.
func read(t *testing.T, w config.Wish) (talos.Provider, string) {
	t.Helper()
	text, err := config.Machine(w)
	require.NoError(t, err)
	got, err := configloader.NewFromBytes([]byte(text.Reveal()))
	require.NoError(t, err)
	return got, text.Reveal()
}

// TestEveryConfigIsAccepted: whatever the file says within what package clusterfile lets pass, Talos' own decoder and
// validation take it, and find in it what the file said.
func TestEveryConfigIsAccepted(t *testing.T) {
	for seed := range uint64(100) {
		s := randomSpec(rand.New(rand.NewPCG(seed, 30)))
		for _, n := range s.Nodes {
			w := wish(t, s, n)
			got, text := read(t, w)
			again, err := config.Machine(w)
			require.NoError(t, err)
			require.Equal(t, text, again.Reveal(), "seed %d: equal wishes give equal bytes", seed)
			same(t, w, got)
			secretsAreForServers(t, n, text)
			if t.Failed() {
				t.Fatalf("seed %d, node %s", seed, n.Name)
			}
		}
	}
}

func same(t *testing.T, w config.Wish, got talos.Provider) {
	t.Helper()
	s, n := w.Spec, w.Node
	assert.Equal(t, map[spec.Role]machine.Type{spec.Server: machine.TypeControlPlane, spec.Agent: machine.TypeWorker}[n.Role], got.Machine().Type())
	assert.Equal(t, n.Name, got.NetworkHostnameConfig().Hostname())
	assert.Equal(t, "https://"+netip.AddrPortFrom(s.APIAddress(), 6443).String(), got.Cluster().Endpoint().String())
	assert.Equal(t, s.K3s.PodCIDR.String(), strings.Join(got.Cluster().Network().PodCIDRs(), ","))
	assert.Equal(t, s.K3s.ServiceCIDR.String(), strings.Join(got.Cluster().Network().ServiceCIDRs(), ","))
	assert.Equal(t, s.K3s.ClusterDomain, got.Cluster().Network().DNSDomain())
	assert.Equal(t, s.K3s.Cilium() || s.K3s.FlannelBackend == "none", got.Cluster().Network().CNI().Name() == "none")
	assert.Equal(t, []string{"proxmox://home/201"}, got.Machine().Kubelet().ExtraArgs()["provider-id"])
	assert.True(t, got.Machine().Features().KubePrism().Enabled())
	assert.False(t, got.Cluster().Discovery().Enabled())
	if n.Role == spec.Server {
		assert.Equal(t, !s.K3s.Cilium(), got.Cluster().Proxy().Enabled())
		assert.True(t, got.Cluster().ScheduleOnControlPlanes())
		assert.Empty(t, got.Cluster().APIServer().AdmissionControl())
	}
	vips := got.NetworkVirtualIPConfigs()
	require.Len(t, vips, map[bool]int{true: 1}[n.Role == spec.Server && s.K3s.VIP.IsValid()])
	for _, v := range vips {
		assert.Equal(t, s.K3s.VIP, v.VIP())
		assert.Equal(t, got.NetworkLinkAliasConfigs()[0].Name(), v.Link())
		assert.Contains(t, got.NetworkLinkAliasConfigs()[0].LinkSelector().String(), n.MAC.String())
	}
	nodeIP(t, s, n, got)
	var modules []string
	for _, m := range got.Machine().Kernel().Modules() {
		modules = append(modules, m.Name())
	}
	assert.Subset(t, modules, s.Guest.KernelModules)
	assert.Equal(t, n.HasGPUs(), slices.Contains(modules, "nvidia_uvm"))
	taints, _ := got.Machine().Kubelet().ExtraConfig()["registerWithTaints"].([]any)
	assert.Len(t, taints, len(n.Taints))
	for key, value := range s.Guest.Sysctls {
		assert.Equal(t, value, got.Machine().Sysctls()[key])
	}
	for _, r := range s.K3s.Registries {
		if len(r.Endpoints) > 0 {
			assert.Len(t, got.RegistryMirrorConfigs()[r.Name].Endpoints(), len(r.Endpoints))
		}
	}
}

// nodeIP: of all addresses of a machine only its own passes; the VIP, which wanders, does not.
func nodeIP(t *testing.T, s *spec.Spec, n spec.Node, got talos.Provider) {
	t.Helper()
	subnets := got.Machine().Kubelet().NodeIP().ValidSubnets()
	if n.DHCP() {
		assert.Empty(t, subnets)
		return
	}
	own := n.Address
	if s.K3s.Network != "" {
		own = n.Networks[0].Address
	}
	for _, text := range subnets {
		p, err := netip.ParsePrefix(text)
		require.NoError(t, err)
		assert.True(t, p.IsSingleIP() && !p.Contains(s.K3s.VIP), text)
	}
	assert.Contains(t, subnets, netip.PrefixFrom(own.Addr(), own.Addr().BitLen()).String())
	if n.Role == spec.Server {
		assert.Equal(t, subnets, got.Cluster().Etcd().AdvertisedSubnets())
	}
}

// secretsAreForServers: an agent has no key that makes certificates, and nothing of etcd.
func secretsAreForServers(t *testing.T, n spec.Node, text string) {
	t.Helper()
	b, err := bundle()
	require.NoError(t, err)
	keys := map[string][]byte{"os": b.Certs.OS.Key, "kubernetes": b.Certs.K8s.Key, "aggregator": b.Certs.K8sAggregator.Key,
		"accounts": b.Certs.K8sServiceAccount.Key, "etcd": b.Certs.Etcd.Key, "etcd's authority": b.Certs.Etcd.Crt, "encryption": []byte(b.Secrets.SecretboxEncryptionSecret)}
	for name, key := range keys {
		in := strings.Contains(text, base64.StdEncoding.EncodeToString(key)) || strings.Contains(text, string(key))
		assert.Equal(t, n.Role == spec.Server, in, "%s on %s", name, n.Name)
	}
}

// TestConfig: what the two kinds of machines get, without the secrets.
func TestConfig(t *testing.T) {
	s := example()
	for _, n := range s.Nodes {
		got, _ := read(t, wish(t, s, n))
		text, err := got.RedactSecrets("[secret]").EncodeBytes(encoder.WithComments(encoder.CommentsDisabled))
		require.NoError(t, err)
		b, err := bundle()
		require.NoError(t, err)
		for what, crt := range map[string][]byte{"etcd": b.Certs.Etcd.Crt, "k8s": b.Certs.K8s.Crt, "aggregator": b.Certs.K8sAggregator.Crt, "os": b.Certs.OS.Crt} {
			text = []byte(strings.ReplaceAll(string(text), base64.StdEncoding.EncodeToString(crt), "[certificate of "+what+"]"))
		}
		text = []byte(strings.ReplaceAll(string(text), b.Cluster.ID, "[id]"))
		file := filepath.Join("testdata", n.Name+".yaml")
		if *update {
			require.NoError(t, os.WriteFile(file, text, 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(text), file)
	}
}

// TestLogin: the API server takes Dex's tokens, with the arguments that K3s' gets.
func TestLogin(t *testing.T) {
	s := example()
	s.Platform.Login = &spec.Login{Hostname: "login.home.example", ClusterRoles: map[string]string{"admins": "cluster-admin"}}
	got, _ := read(t, wish(t, s, s.Nodes[0]))
	assert.Equal(t, []string{"http://login.home.example"}, got.Cluster().APIServer().ExtraArgs()["oidc-issuer-url"])
	assert.Len(t, got.Cluster().APIServer().ExtraArgs(), len(s.Platform.LoginArgs()))
}

// TestRegistries: a login goes to the mirror's host alone, and one host cannot have two.
func TestRegistries(t *testing.T) {
	t.Setenv("PROXMOX_SECRET", "hunter2")
	s := example()
	password, err := spec.ParseSecretRef("env:PROXMOX_SECRET")
	require.NoError(t, err)
	b, err := bundle()
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, b.Certs.K8s.Crt, 0o600))
	mirror := spec.Registry{Name: "docker.io", Endpoints: []string{"https://mirror.home.example:5000/hub"}, Username: "puller", Password: password, CAFile: ca}
	s.K3s.Registries = []spec.Registry{mirror}
	got, _ := read(t, wish(t, s, s.Nodes[1]))
	auth := got.RegistryAuthConfigs()
	require.Len(t, auth, 1)
	assert.Equal(t, "hunter2", auth["mirror.home.example:5000"].Password())
	assert.Equal(t, b.Certs.K8s.Crt, got.RegistryTLSConfigs()["mirror.home.example:5000"].CA())

	second := mirror
	second.Name = "quay.io"
	s.K3s.Registries = append(s.K3s.Registries, second)
	_, err = config.Machine(wish(t, s, s.Nodes[1]))
	require.ErrorContains(t, err, "mirror.home.example:5000 has a login or an authority in two registries")
	assert.NotContains(t, err.Error(), "hunter2")
}

// TestNoSecretIsPrinted: a configuration is a secret, and its errors have none.
func TestNoSecretIsPrinted(t *testing.T) {
	s := example()
	w := wish(t, s, s.Nodes[0])
	text, err := config.Machine(w)
	require.NoError(t, err)
	assert.Equal(t, "[secret]", fmt.Sprint(text))
	s.K3s.TLSSANs, s.K3s.ClusterDomain = nil, ""
	s.K3s.PodCIDR = nil
	b := *w.Secrets
	certs := *b.Certs
	certs.OS = certs.OS.DeepCopy()
	certs.OS.Key = nil
	b.Certs, w.Secrets = &certs, &b
	_, err = config.Machine(w)
	require.ErrorContains(t, err, "issuing CA key is required")
	for _, hidden := range []string{b.Secrets.BootstrapToken, b.TrustdInfo.Token, b.Cluster.Secret} {
		assert.NotContains(t, err.Error(), hidden)
	}
}
