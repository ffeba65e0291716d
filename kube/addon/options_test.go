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

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/chart/pins"
	"github.com/cps-gpu/homelab/secret"
)

func Example() {
	nfs, err := addon.NFS(addon.NFSOptions{
		Common: addon.Common{Nodes: 3, Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}}},
		Server: "10.0.0.30", Export: "/export/k3s", Default: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nfs.Release.Chart, "provides", nfs.Classes)
	for _, probe := range addon.Probes(nfs, []string{"wk1", "wk2"}, nil) {
		fmt.Println("to be proven:", probe.Class, probe.Mode)
	}
	// Output:
	// csi-driver-nfs provides [nfs]
	// to be proven: nfs ReadWriteMany
}

// try hides what a part's options are, so that they fit one table.
func try[O any](make func(O) (chart.Part, error), o O) func() error {
	return func() error { _, err := make(o); return err }
}

func TestWrongOptions(t *testing.T) {
	cert, key := theCA(t, true, time.Now().Add(time.Hour))
	leaf, leafKey := theCA(t, false, time.Now().Add(time.Hour))
	old, oldKey := theCA(t, true, time.Now().Add(-time.Hour))
	ip := netip.MustParseAddr
	for says, f := range map[string]func() error{
		"nfs: server is not set":                                               try(addon.NFS, addon.NFSOptions{Export: "/x"}),
		`nfs: export "export/k3s": want an absolute path`:                      try(addon.NFS, addon.NFSOptions{Server: "a", Export: "export/k3s"}),
		`nfs: export "/a/../b": want an absolute path`:                         try(addon.NFS, addon.NFSOptions{Server: "a", Export: "/a/../b"}),
		"scratch: no node has a scratch disk":                                  try(addon.Scratch, addon.ScratchOptions{}),
		`scratch: folder "/" of node a: want an absolute path below /`:         try(addon.Scratch, addon.ScratchOptions{Paths: map[string]string{"a": "/"}}),
		`scratch: folder "/x/" of node a`:                                      try(addon.Scratch, addon.ScratchOptions{Paths: map[string]string{"a": "/x/"}}),
		`drain policy "block": want one of block-if-contains-last-replica, al`: try(addon.Longhorn, addon.LonghornOptions{DrainPolicy: "block"}),
		"3 copies of each volume on 2 nodes":                                   try(addon.Longhorn, addon.LonghornOptions{Replicas: 3, DataNodes: 2}),
		`longhorn: data path "data"`:                                           try(addon.Longhorn, addon.LonghornOptions{DataPath: "data"}),
		"cephfs: the user's key is not set":                                    try(addon.CephFS, addon.CephFSOptions{}),
		`user "client.k3s": leave "client." out`:                               try(addon.CephFS, addon.CephFSOptions{User: "client.k3s"}),
		"cephfs: no monitors":                                                  try(addon.CephFS, addon.CephFSOptions{}),
		`cephfs: monitor "a, b"`:                                               try(addon.CephFS, addon.CephFSOptions{Monitors: []string{"a, b"}}),
		`issuer: kind "": want self-signed, acme or ca`:                        try(addon.Issuer, addon.IssuerOptions{}),
		`issuer: email "me"`:                                                   try(addon.Issuer, addon.IssuerOptions{Kind: addon.ACME, Email: "me"}),
		"is not a CA certificate":                                              try(addon.Issuer, addon.IssuerOptions{Kind: addon.PrivateCA, Certificate: leaf, Key: leafKey}),
		"the certificate of CN=Example CA ended on":                            try(addon.Issuer, addon.IssuerOptions{Kind: addon.PrivateCA, Certificate: old, Key: oldKey}),
		"private key does not match public key":                                try(addon.Issuer, addon.IssuerOptions{Kind: addon.PrivateCA, Certificate: cert, Key: leafKey}),
		"failed to find any PEM data":                                          try(addon.Issuer, addon.IssuerOptions{Kind: addon.PrivateCA, Certificate: []byte("x"), Key: key}),
		`gateway: host "https://x"`:                                            try(addon.Ingress, addon.IngressOptions{GatewayAPI: true, Gateway: addon.GatewayOptions{Hosts: []string{"https://x"}}}),
		"metallb: there are no addresses to assign":                            try(addon.MetalLB, addon.MetalLBOptions{}),
		`addresses "10.0.0.9-10.0.0.1": the range ends before it begins`:       try(addon.MetalLB, addon.MetalLBOptions{Addresses: []string{"10.0.0.9-10.0.0.1"}}),
		`addresses "10.0.0.x": want a range such as`:                           try(addon.MetalLB, addon.MetalLBOptions{Addresses: []string{"10.0.0.x"}}),
		"addresses 10.0.0.1-10.0.0.9 and 10.0.0.8-10.0.0.15 overlap":           try(addon.CiliumPool, addon.CiliumPoolOptions{Addresses: []string{"10.0.0.1-10.0.0.9", "10.0.0.8/29"}}),
		"address 10.0.0.1 is reserved for a/b and for c/d": try(addon.MetalLB, addon.MetalLBOptions{Addresses: []string{"10.0.0.0/24"},
			Reserved: map[string]netip.Addr{"a/b": ip("10.0.0.1"), "c/d": ip("10.0.0.1")}}),
		`reserved address for "web": want namespace/name`: try(addon.CiliumPool, addon.CiliumPoolOptions{Addresses: []string{"10.0.0.0/24"},
			Reserved: map[string]netip.Addr{"web": ip("10.0.0.1")}}),
		"cilium: the pods' network is not set":            try(addon.Cilium, addon.CiliumOptions{}),
		"rancher: hostname is not set":                    try(addon.Rancher, addon.RancherOptions{}),
		"rancher: issuer is not set":                      try(addon.Rancher, addon.RancherOptions{Hostname: "r", TLS: addon.RancherIssuer}),
		`rancher: TLS "acme": want own-ca`:                try(addon.Rancher, addon.RancherOptions{Hostname: "r", TLS: "acme"}),
		"the CA is Rancher's own":                         try(addon.Rancher, addon.RancherOptions{Hostname: "r", CA: cert}),
		"the bootstrap password has 5 characters":         try(addon.Rancher, addon.RancherOptions{Hostname: "r", Bootstrap: secret.New("admin")}),
		"monitoring: retention 1h0m0s":                    try(addon.Monitoring, addon.MonitoringOptions{Retention: time.Hour}),
		"runtime class and labels of the nodes with GPUs": try(addon.GPUExporter, addon.GPUExporterOptions{}),
		"kueue: resources and queues must be set":         try(addon.Kueue, addon.KueueOptions{}),
		`kueue: queue "a" has no namespaces`:              try(addon.Kueue, addon.KueueOptions{Queues: []addon.Queue{{Name: "a"}}}),
		"kueue: namespace x is in the queues a and b":     try(addon.Kueue, addon.KueueOptions{Queues: []addon.Queue{{Name: "a", Namespaces: []string{"x"}}, {Name: "b", Labelled: []string{"x"}}}}),
		"kueue: namespace kube-system cannot wait":        try(addon.Kueue, addon.KueueOptions{Queues: []addon.Queue{{Name: "a", Namespaces: []string{"kube-system"}}}}),
		"kueue: queue a: 2 x: the nodes offer y":          try(addon.Kueue, addon.KueueOptions{Resources: []string{"y"}, Queues: []addon.Queue{{Name: "a", Namespaces: []string{"b"}, Quota: map[string]int{"x": 2}}}}),
		"velero: bucket is not set":                       try(addon.Velero, addon.VeleroOptions{}),
		"velero: access key and secret key":               try(addon.Velero, addon.VeleroOptions{Bucket: "b"}),
		`velero: endpoint "s3.example.org"`:               try(addon.Velero, addon.VeleroOptions{Endpoint: "s3.example.org"}),
		`velero: schedule "3am"`:                          try(addon.Velero, addon.VeleroOptions{Schedule: "3am"}),
		"a key of the store contains a line break":        try(addon.Velero, addon.VeleroOptions{AccessKey: secret.New("a\nb")}),
		"a CA is given, but certificates are not checked": try(addon.Velero, addon.VeleroOptions{CA: cert, Insecure: true}),
	} {
		err := f()
		require.Error(t, err, says)
		assert.Contains(t, err.Error(), says)
		assert.NotContains(t, err.Error(), "PRIVATE KEY")
	}
}

func TestVersionAndValuesOfTheUser(t *testing.T) {
	p := must(t, addon.CertManager, addon.CertManagerOptions{Common: addon.Common{Version: "v1.21.1",
		Values: map[string]any{"webhook": map[string]any{"timeoutSeconds": 5}, "crds": map[string]any{"keep": false}, "extraArgs": []string{"--v=2"}}}})
	pin, _ := pins.Of("cert-manager")
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
	for nodes, want := range map[int][3]int64{0: {1, 1, 1}, 1: {1, 1, 1}, 2: {2, 2, 1}, 3: {2, 2, 3}, 7: {2, 2, 3}} {
		c := addon.Common{Nodes: nodes}
		nfs := must(t, addon.NFS, addon.NFSOptions{Common: c, Server: "a", Export: "/x"}).Release.Values
		longhorn := must(t, addon.Longhorn, addon.LonghornOptions{Common: c})
		rancher := must(t, addon.Rancher, addon.RancherOptions{Common: c, Hostname: "r"}).Release.Values
		at := func(v map[string]any, path ...string) int64 {
			n, ok, err := unstructured.NestedInt64(v, path...)
			require.NoError(t, err)
			require.True(t, ok, path)
			return n
		}
		got := [3]int64{at(nfs, "controller", "replicas"), at(longhorn.Release.Values, "csi", "provisionerReplicaCount"), at(rancher, "replicas")}
		assert.Equal(t, want, got, "%d nodes", nodes)
		copies := at(longhorn.Release.Values, "defaultSettings", "defaultReplicaCount")
		assert.EqualValues(t, min(3, max(1, nodes)), copies)
		assert.Equal(t, fmt.Sprint(copies), longhorn.After[0].(*storagev1.StorageClass).Parameters["numberOfReplicas"])
	}
}

func TestReservedAddressesAreNotGivenAway(t *testing.T) {
	p := must(t, addon.MetalLB, addon.MetalLBOptions{Addresses: []string{"10.0.0.120-10.0.0.129", "10.0.0.140"},
		Reserved: map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120"), "a/b": netip.MustParseAddr("10.0.0.125"),
			"c/d": netip.MustParseAddr("10.0.0.129"), "e/f": netip.MustParseAddr("10.0.0.140"), "g/h": netip.MustParseAddr("10.0.0.200")}})
	spec := func(i int) map[string]any {
		return p.After[i].(*unstructured.Unstructured).Object["spec"].(map[string]any)
	}
	assert.Equal(t, []any{"10.0.0.121-10.0.0.124", "10.0.0.126-10.0.0.128"}, spec(0)["addresses"])
	assert.Equal(t, map[string]any{"autoAssign": false, "addresses": []any{
		"10.0.0.120/32", "10.0.0.125/32", "10.0.0.129/32", "10.0.0.140/32", "10.0.0.200/32"}}, spec(1))
	assert.Equal(t, map[string]any{"ipAddressPools": []any{"homelab", "homelab-reserved"}}, spec(2))

	only := must(t, addon.MetalLB, addon.MetalLBOptions{Addresses: []string{"10.0.0.120"}, Reserved: map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120")}})
	require.Len(t, only.After, 2, "nothing is left to give away freely")

	addr := netip.MustParseAddr("10.0.0.120")
	assert.Equal(t, map[string]string{"metallb.io/loadBalancerIPs": "10.0.0.120"}, addon.AddressAnnotations(addon.MetalLBKind, addr))
	assert.Equal(t, map[string]string{"lbipam.cilium.io/ips": "10.0.0.120"}, addon.AddressAnnotations(addon.CiliumKind, addr))
	assert.Nil(t, addon.AddressAnnotations("servicelb", addr))
	assert.Nil(t, addon.AddressAnnotations(addon.MetalLBKind, netip.Addr{}))
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
	assert.Contains(t, addon.LonghornHost().Files["/etc/multipath/conf.d/longhorn.conf"], "blacklist")
	assert.Contains(t, addon.LonghornHost().Packages, "open-iscsi")
	assert.Contains(t, addon.CephFSHost().Modules, "ceph")
}

func FuzzAddresses(f *testing.F) {
	f.Add("10.0.0.120-10.0.0.139", "10.0.0.125")
	f.Add("fd00::/120", "fd00::1")
	f.Add("0.0.0.0/0", "255.255.255.255")
	f.Fuzz(func(t *testing.T, ranges, reserved string) {
		addr, err := netip.ParseAddr(reserved)
		if err != nil {
			return
		}
		p, err := addon.MetalLB(addon.MetalLBOptions{Addresses: []string{ranges}, Reserved: map[string]netip.Addr{"a/b": addr}})
		if err == nil && len(p.After) < 2 {
			t.Errorf("%s without %s: %d objects", ranges, reserved, len(p.After))
		}
	})
}
