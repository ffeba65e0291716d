package addon_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/secret"
)

func Example() {
	section := &spec.NFS{Class: "nfs", Server: "10.0.0.30", Export: "/export/k3s"}
	nodes := []spec.Node{{Name: "wk1"}, {Name: "wk2", Taints: []spec.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}}}}
	nfs, err := addon.NFS{NFS: section}.Make(&addon.Site{Nodes: nodes, DefaultClass: "nfs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nfs.Release.Chart, "provides", nfs.Classes)
	fmt.Println("to be proven:", nfs.Probes[0].Class, nfs.Probes[0].Mode)
	// Output:
	// csi-driver-nfs provides [nfs]
	// to be proven: nfs ReadWriteMany
}

func TestWrongSections(t *testing.T) {
	cert, key := theCA(t, true, time.Now().Add(time.Hour))
	leaf, leafKey := theCA(t, false, time.Now().Add(time.Hour))
	old, oldKey := theCA(t, true, time.Now().Add(-time.Hour))
	ip := netip.MustParseAddr
	gateway := spec.Ingress{Kind: spec.IngressGateway}
	ca := func(cert []byte, key secret.Value) addon.Part {
		return issuer(spec.TLS{Source: spec.TLSCA, CACert: written(t, string(cert)), CAKey: told(t, key.Reveal())})
	}
	ceph := func(c spec.CephFS) addon.Part { return addon.CephFS{CephFS: &c} }
	proxmox := func(change func(*spec.ProxmoxCSI)) addon.Part {
		d := disks(told(t, "a"))
		change(d)
		return addon.ProxmoxCSI{ProxmoxCSI: d}
	}
	pve := spec.Proxmox{Endpoint: "pve", Region: "r", TokenID: "homelab@pve!cluster"}
	same := func(*spec.ProxmoxCSI) {}
	path, copies := *longhorn(), *longhorn()
	path.DataPath, copies.Replicas = "data", 3
	backup := spec.Backup{Bucket: "b", AccessKey: told(t, "a"), SecretKey: told(t, "b"), Schedule: "0 3 * * *"}
	velero := func(change func(*spec.Backup)) addon.Part { b := backup; change(&b); return addon.Velero{Backup: &b} }
	lb := func(kind string, reserved map[string]netip.Addr, addresses ...string) *spec.LoadBalancer {
		return &spec.LoadBalancer{Kind: kind, Addresses: pools(t, addresses...), Reserved: reserved}
	}
	metallb := func(reserved map[string]netip.Addr, addresses ...string) addon.Part {
		return addon.MetalLB{LoadBalancer: lb(spec.LBMetalLB, reserved, addresses...)}
	}
	kueue := func(queues ...spec.Queue) addon.Part { return addon.Kueue{Queues: queues} }
	y := addon.Site{Offered: map[string]int{"y": 1}}
	for says, x := range map[string]struct {
		part addon.Part
		at   addon.Site
	}{
		"nfs: server is not set":                                     {part: addon.NFS{NFS: &spec.NFS{Export: "/x"}}},
		`nfs: export "export/k3s": want an absolute path`:            {part: addon.NFS{NFS: &spec.NFS{Server: "a", Export: "export/k3s"}}},
		`nfs: export "/a/../b": want an absolute path`:               {part: addon.NFS{NFS: &spec.NFS{Server: "a", Export: "/a/../b"}}},
		"scratch: no node has a scratch disk":                        {part: addon.Scratch{Scratch: &spec.Scratch{}}},
		`scratch: folder "/": want an absolute path below /`:         {part: addon.Scratch{Scratch: &spec.Scratch{Path: "/", Nodes: []string{"a"}}}},
		`scratch: folder "/x/"`:                                      {part: addon.Scratch{Scratch: &spec.Scratch{Path: "/x/", Nodes: []string{"a"}}}},
		"3 copies of each volume on 2 nodes":                         {part: addon.Longhorn{Longhorn: &copies}, at: addon.Site{Nodes: seven()[:2]}},
		`longhorn: data path "data"`:                                 {part: addon.Longhorn{Longhorn: &path}},
		"proxmox-csi: storage is not set":                            {part: proxmox(func(d *spec.ProxmoxCSI) { d.Storage = "" }), at: addon.Site{Proxmox: pve}},
		"proxmox-csi: token is not set":                              {part: proxmox(func(d *spec.ProxmoxCSI) { d.TokenID = "" }), at: addon.Site{Proxmox: pve}},
		"proxmox-csi: token is not the ID":                           {part: proxmox(func(d *spec.ProxmoxCSI) { d.TokenID = "homelab@pve!csi=5eed" }), at: addon.Site{Proxmox: pve}},
		"proxmox-csi: token is that of":                              {part: proxmox(func(d *spec.ProxmoxCSI) { d.TokenID = "homelab@pve!cluster" }), at: addon.Site{Proxmox: pve}},
		"proxmox-csi: the token's secret is not":                     {part: proxmox(func(d *spec.ProxmoxCSI) { d.TokenSecret = spec.SecretRef{} }), at: addon.Site{Proxmox: pve}},
		"proxmox-csi: the file has no proxmox":                       {part: proxmox(same)},
		"the driver cannot compare a fingerprint":                    {part: proxmox(same), at: addon.Site{Proxmox: spec.Proxmox{Endpoint: "pve", Region: "r", Fingerprint: "AA"}}},
		"node edge is not a VM of this Proxmox":                      {part: proxmox(same), at: addon.Site{Proxmox: pve, Nodes: []spec.Node{{Name: "edge", External: true}}}},
		"node a has vmid 9999":                                       {part: proxmox(same), at: addon.Site{Proxmox: pve, Nodes: []spec.Node{{Name: "a", VMID: 9999}}}},
		"cephfs: the user's key is not set":                          {part: ceph(spec.CephFS{})},
		`user "client.k3s": leave "client." out`:                     {part: ceph(spec.CephFS{User: "client.k3s"})},
		"cephfs: no monitors":                                        {part: ceph(spec.CephFS{})},
		`cephfs: monitor "a, b"`:                                     {part: ceph(spec.CephFS{Monitors: []string{"a, b"}})},
		`issuer: source "": want self-signed, acme or ca`:            {part: issuer(spec.TLS{})},
		`issuer: email "me"`:                                         {part: issuer(spec.TLS{Source: spec.TLSACME, Email: "me"})},
		"is not a CA certificate":                                    {part: ca(leaf, leafKey)},
		"the certificate of CN=Example CA ended on":                  {part: ca(old, oldKey)},
		"private key does not match public key":                      {part: ca(cert, leafKey)},
		"failed to find any PEM data":                                {part: ca([]byte("x"), key)},
		`gateway: host "https://x"`:                                  {part: addon.Ingress{Ingress: gateway}, at: addon.Site{Ingress: gateway, Hosts: []string{"https://x"}}},
		"metallb: there are no addresses to assign":                  {part: metallb(nil)},
		"addresses 10.0.0.1-10.0.0.9 and 10.0.0.8-10.0.0.15 overlap": {part: addon.CiliumPool{LoadBalancer: lb(spec.LBCilium, nil, "10.0.0.1-10.0.0.9", "10.0.0.8/29")}},
		"address 10.0.0.1 is reserved for a/b and for c/d":           {part: metallb(map[string]netip.Addr{"a/b": ip("10.0.0.1"), "c/d": ip("10.0.0.1")}, "10.0.0.0/24")},
		`reserved address for "web": want namespace/name`:            {part: addon.CiliumPool{LoadBalancer: lb(spec.LBCilium, map[string]netip.Addr{"web": ip("10.0.0.1")}, "10.0.0.0/24")}},
		"cilium: the pods' network is not set":                       {part: addon.Cilium{}},
		"rancher: hostname is not set":                               {part: addon.Rancher{Rancher: &spec.Rancher{}}},
		"the bootstrap password has 5 characters":                    {part: addon.Rancher{Rancher: &spec.Rancher{Hostname: "r", Bootstrap: told(t, "admin")}}},
		"monitoring: retention 1h0m0s":                               {part: addon.Monitoring{Monitoring: &spec.Monitoring{Retention: time.Hour}}},
		"kueue: resources and queues must be set":                    {part: kueue()},
		`kueue: queue "a" has no namespaces`:                         {part: kueue(spec.Queue{Name: "a"})},
		"kueue: namespace x is in the queues a and b":                {part: kueue(spec.Queue{Name: "a", Namespaces: []string{"x"}}, spec.Queue{Name: "b", Namespaces: []string{"x"}}), at: addon.Site{HubNamespace: "x"}},
		"kueue: namespace kube-system cannot wait":                   {part: kueue(spec.Queue{Name: "a", Namespaces: []string{"kube-system"}})},
		"kueue: queue a: 2 nvidia.com/gpu: the nodes offer y":        {part: kueue(spec.Queue{Name: "a", Namespaces: []string{"b"}, GPUs: 2}), at: y},
		"velero: bucket is not set":                                  {part: addon.Velero{Backup: &spec.Backup{}}},
		"velero: access key and secret key":                          {part: addon.Velero{Backup: &spec.Backup{Bucket: "b"}}},
		`velero: endpoint "s3.example.org"`:                          {part: velero(func(b *spec.Backup) { b.Endpoint = "s3.example.org" })},
		`velero: schedule "3am"`:                                     {part: velero(func(b *spec.Backup) { b.Schedule = "3am" })},
		"a key of the store contains a line break":                   {part: velero(func(b *spec.Backup) { b.AccessKey = told(t, "a\nb") })},
		"a CA is given, but certificates are not checked":            {part: velero(func(b *spec.Backup) { b.CAFile, b.Insecure = written(t, string(cert)), true })},
		"backup.accessKey: ":                                         {part: velero(func(b *spec.Backup) { b.AccessKey = missing(t) })},
		"tls.ca: ":                                                   {part: issuer(spec.TLS{Source: spec.TLSCA, CACert: "/nowhere"})},
	} {
		_, err := x.part.Make(&x.at)
		require.Error(t, err, says)
		assert.Contains(t, err.Error(), says)
		assert.NotContains(t, err.Error(), "PRIVATE KEY")
	}
}

// missing refers to a secret that is not there.
func missing(t *testing.T) spec.SecretRef {
	t.Helper()
	ref, err := spec.ParseSecretRef("file:" + t.TempDir() + "/none")
	require.NoError(t, err)
	return ref
}

// Secrets that are not read have stand-ins, which no check refuses.
func TestSecretsThatAreNotRead(t *testing.T) {
	s := addon.Site{Unread: true, Ingress: traefik}
	must(t, addon.Velero{Backup: &spec.Backup{Bucket: "b", AccessKey: missing(t), SecretKey: missing(t), Schedule: "0 3 * * *"}}, s)
	must(t, addon.Rancher{Rancher: &spec.Rancher{Hostname: "r", Bootstrap: missing(t)}}, s)
	must(t, issuer(spec.TLS{Source: spec.TLSCA, Issuer: "homelab", CACert: "/nowhere", CAKey: missing(t)}), s)
	none, err := s.Secret("x", spec.SecretRef{})
	require.NoError(t, err)
	assert.True(t, none.IsZero())
}

func TestVersionAndValuesOfTheUser(t *testing.T) {
	p := must(t, addon.CertManager{TLS: &spec.TLS{}}, addon.Site{Charts: spec.Charts{Versions: map[string]string{"cert-manager": "v1.21.1"},
		Values: map[string]map[string]any{"cert-manager": {"webhook": map[string]any{"timeoutSeconds": 5}, "crds": map[string]any{"keep": false}, "extraArgs": []string{"--v=2"}}}}})
	pin := addon.CertManager{}.Info().Chart
	assert.Equal(t, pin.Repo, p.Release.Repo)
	assert.Equal(t, "v1.21.1", p.Release.Version)
	assert.Equal(t, map[string]any{
		"crds":      map[string]any{"enabled": true, "keep": false},
		"webhook":   map[string]any{"replicaCount": int64(1), "timeoutSeconds": int64(5)},
		"extraArgs": []any{"--v=2"},
	}, p.Release.Values)
}

func TestTolerations(t *testing.T) {
	gpu := corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}
	assert.Equal(t, []corev1.Toleration{
		{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpEqual, Value: "present", Effect: corev1.TaintEffectNoSchedule},
		{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}, addon.Tolerations([]corev1.Taint{gpu, {Key: "x", Effect: corev1.TaintEffectNoExecute}, gpu}))
	assert.Empty(t, addon.Tolerations(nil))
}

// Each part has as many replicas as it has nodes for, and no more than it gains from.
func TestReplicas(t *testing.T) {
	for nodes, want := range map[int][2]int64{0: {1, 1}, 1: {1, 1}, 2: {2, 2}, 3: {2, 2}, 7: {2, 2}} {
		c := addon.Site{Nodes: seven()[:nodes]}
		nfs := must(t, addon.NFS{NFS: nfs()}, c).Release.Values
		longhorn := must(t, addon.Longhorn{Longhorn: longhorn()}, c)
		at := func(v map[string]any, path ...string) int64 {
			n, ok, err := unstructured.NestedInt64(v, path...)
			require.NoError(t, err)
			require.True(t, ok, path)
			return n
		}
		got := [2]int64{at(nfs, "controller", "replicas"), at(longhorn.Release.Values, "csi", "provisionerReplicaCount")}
		assert.Equal(t, want, got, "%d nodes", nodes)
		assert.Equal(t, fmt.Sprint(at(longhorn.Release.Values, "defaultSettings", "defaultReplicaCount")), longhorn.After[0].(*storagev1.StorageClass).Parameters["numberOfReplicas"])
	}
}

func TestReservedAddressesAreNotGivenAway(t *testing.T) {
	p := must(t, addon.MetalLB{LoadBalancer: &spec.LoadBalancer{Kind: spec.LBMetalLB, Addresses: pools(t, "10.0.0.120-10.0.0.129", "10.0.0.140"),
		Reserved: map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120"), "a/b": netip.MustParseAddr("10.0.0.125"),
			"c/d": netip.MustParseAddr("10.0.0.129"), "e/f": netip.MustParseAddr("10.0.0.140"), "g/h": netip.MustParseAddr("10.0.0.200")}}}, addon.Site{})
	specOf := func(i int) map[string]any {
		return p.After[i].(*unstructured.Unstructured).Object["spec"].(map[string]any)
	}
	assert.Equal(t, []any{"10.0.0.121-10.0.0.124", "10.0.0.126-10.0.0.128"}, specOf(0)["addresses"])
	assert.Equal(t, map[string]any{"autoAssign": false, "addresses": []any{
		"10.0.0.120/32", "10.0.0.125/32", "10.0.0.129/32", "10.0.0.140/32", "10.0.0.200/32"}}, specOf(1))
	assert.Equal(t, map[string]any{"ipAddressPools": []any{"homelab", "homelab-reserved"}}, specOf(2))

	only := must(t, addon.MetalLB{LoadBalancer: &spec.LoadBalancer{Kind: spec.LBMetalLB, Addresses: pools(t, "10.0.0.120"),
		Reserved: map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120")}}}, addon.Site{})
	require.Len(t, only.After, 2, "nothing is left to give away freely")

	addr := netip.MustParseAddr("10.0.0.120")
	assert.Equal(t, map[string]string{"metallb.io/loadBalancerIPs": "10.0.0.120"}, addon.AddressAnnotations(spec.LBMetalLB, addr))
	assert.Equal(t, map[string]string{"lbipam.cilium.io/ips": "10.0.0.120"}, addon.AddressAnnotations(spec.LBCilium, addr))
	assert.Nil(t, addon.AddressAnnotations("servicelb", addr))
	assert.Nil(t, addon.AddressAnnotations(spec.LBMetalLB, netip.Addr{}))
}

func TestIssuerCA(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		_, err := addon.IssuerCA(t.Context(), s.Client, "homelab")
		require.ErrorIs(t, err, kube.ErrNotFound)
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "homelab-ca", Namespace: "cert-manager"}}
		_, err = s.Apply(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cert-manager"}}, made)
		require.NoError(t, err)
		_, err = addon.IssuerCA(t.Context(), s.Client, "homelab")
		require.ErrorIs(t, err, kube.ErrNotFound, "cert-manager makes the Secret before it fills it")
		made.Data = map[string][]byte{"tls.crt": []byte("PEM")}
		_, err = s.Apply(t.Context(), made)
		require.NoError(t, err)
		cert, err := addon.IssuerCA(t.Context(), s.Client, "homelab")
		require.NoError(t, err)
		assert.Equal(t, "PEM", string(cert))
	})
}

// What nodes need for Longhorn includes what keeps the multipath daemon away.
func TestHosts(t *testing.T) {
	assert.Contains(t, addon.Longhorn{}.Info().Host.Files["/etc/multipath/conf.d/longhorn.conf"], "blacklist")
	assert.Contains(t, addon.Longhorn{}.Info().Host.Packages, "open-iscsi")
	assert.Contains(t, addon.CephFS{}.Info().Host.Modules, "ceph")
}

func FuzzAddresses(f *testing.F) {
	f.Add("10.0.0.120-10.0.0.139", "10.0.0.125")
	f.Add("fd00::/120", "fd00::1")
	f.Add("0.0.0.0/0", "255.255.255.255")
	f.Fuzz(func(t *testing.T, ranges, reserved string) {
		addr, err := netip.ParseAddr(reserved)
		var pool spec.AddressPool
		if err != nil || pool.UnmarshalText([]byte(ranges)) != nil {
			return
		}
		p, err := addon.MetalLB{LoadBalancer: &spec.LoadBalancer{Addresses: []spec.AddressPool{pool}, Reserved: map[string]netip.Addr{"a/b": addr}}}.Make(&addon.Site{})
		if err == nil && len(p.After) < 2 {
			t.Errorf("%s without %s: %d objects", ranges, reserved, len(p.After))
		}
	})
}
