package addon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// taints of a cluster in which every kind of taint is declared.
var taints = []corev1.Taint{
	{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule},
	{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
	{Key: "example.org/dedicated", Value: "research", Effect: corev1.TaintEffectNoExecute},
}

var seven = addon.Common{Taints: taints, Nodes: 7}

// must returns the part of an options struct that is right.
func must[O any](t *testing.T, make func(O) (chart.Part, error), o O) chart.Part {
	t.Helper()
	p, err := make(o)
	require.NoError(t, err)
	return p
}

// sample is a part under a name for its golden file.
type sample struct {
	name string
	part chart.Part
}

// theCA is a certificate that signs, the same in every run of a test.
func theCA(t *testing.T, isCA bool, until time.Time) (cert []byte, key secret.Value) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Example CA"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	require.NoError(t, err)
	kb, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		secret.New(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kb})))
}

// samples are all parts, as small and as rich as they come.
func samples(t *testing.T) []sample {
	t.Helper()
	cert, key := theCA(t, true, time.Now().Add(time.Hour))
	key0, key1 := secret.New("AKIAEXAMPLE"), secret.New("wJalrXUtnFEMIEXAMPLE")
	gateway := addon.GatewayOptions{Hosts: []string{"hub.example.org", "*.apps.example.org"}, Issuer: "homelab"}
	reserved := map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120"), "lab/ssh": netip.MustParseAddr("10.0.0.130")}
	pool := []string{"10.0.0.120-10.0.0.139", "10.0.0.160/29"}
	return []sample{
		{"nfs", must(t, addon.NFS, addon.NFSOptions{Server: "10.0.0.30", Export: "/export/k3s"})},
		{"nfs-rich", must(t, addon.NFS, addon.NFSOptions{Common: seven, Class: "homes", Server: "nas.example.org", Export: "/export/k3s",
			MountOptions: []string{"nfsvers=4.2"}, Delete: true, Default: true})},
		{"scratch", must(t, addon.Scratch, addon.ScratchOptions{Common: seven, Paths: map[string]string{"wk-gpu2": "/scratch", "wk-gpu1": "/mnt/nvme"}})},
		{"scratch-label", must(t, addon.Scratch, addon.ScratchOptions{Class: "fast", ByLabel: true, Paths: map[string]string{"wk1": "/scratch"}})},
		{"longhorn", must(t, addon.Longhorn, addon.LonghornOptions{})},
		{"longhorn-rich", must(t, addon.Longhorn, addon.LonghornOptions{Common: seven, DataNodes: 4, OnlyLabelled: true, Default: true,
			DataPath: "/data/longhorn", DrainPolicy: "allow-if-replica-is-stopped"})},
		{"cephfs", must(t, addon.CephFS, addon.CephFSOptions{Common: seven, ClusterID: "b9127830-b0cc-4e34-aa47-9d1a2e9949a8",
			Monitors: []string{"10.0.0.41:6789", "10.0.0.42:6789"}, FSName: "cephfs", Pool: "cephfs_data", User: "k3s", Key: key1})},
		{"cert-manager", must(t, addon.CertManager, addon.CertManagerOptions{})},
		{"cert-manager-rich", must(t, addon.CertManager, addon.CertManagerOptions{Common: seven, GatewayAPI: true})},
		{"issuer-self-signed", must(t, addon.Issuer, addon.IssuerOptions{Kind: addon.SelfSigned})},
		{"issuer-acme", must(t, addon.Issuer, addon.IssuerOptions{Kind: addon.ACME, Email: "admin@example.org"})},
		{"issuer-acme-gateway", must(t, addon.Issuer, addon.IssuerOptions{Kind: addon.ACME, Email: "admin@example.org",
			Server: "https://ca.example.org/acme", GatewayNamespace: "kube-system", GatewayName: "homelab"})},
		{"issuer-ca", must(t, addon.Issuer, addon.IssuerOptions{Kind: addon.PrivateCA, Certificate: cert, Key: key})},
		{"ingress", must(t, addon.Ingress, addon.IngressOptions{})},
		{"ingress-gateway", must(t, addon.Ingress, addon.IngressOptions{Common: seven, LoadBalancer: addon.MetalLBKind,
			Address: reserved["ingress"], HTTPS: true, GatewayAPI: true, Gateway: gateway})},
		{"metallb", must(t, addon.MetalLB, addon.MetalLBOptions{Common: seven, Addresses: pool, Reserved: reserved})},
		{"cilium", must(t, addon.Cilium, addon.CiliumOptions{PodCIDR: netip.MustParsePrefix("10.42.0.0/16")})},
		{"cilium-rich", must(t, addon.Cilium, addon.CiliumOptions{Common: seven, PodCIDR: netip.MustParsePrefix("10.42.0.0/16"),
			APIServer: "10.0.0.100", APIPort: 6443, Encrypt: true, Addresses: true, HubbleUI: true})},
		{"cilium-pool", must(t, addon.CiliumPool, addon.CiliumPoolOptions{Addresses: pool, Reserved: reserved})},
		{"rancher", must(t, addon.Rancher, addon.RancherOptions{Hostname: "rancher.example.org"})},
		{"rancher-rich", must(t, addon.Rancher, addon.RancherOptions{Common: seven, Hostname: "rancher.example.org",
			Bootstrap: secret.New("a-long-password"), TLS: addon.RancherIssuer, Issuer: "homelab", CA: []byte("PEM")})},
		{"rancher-gateway", must(t, addon.Rancher, addon.RancherOptions{Common: seven, Hostname: "rancher.example.org", Gateway: true,
			TLS: addon.RancherIssuer, Issuer: "homelab"})},
		{"monitoring", must(t, addon.Monitoring, addon.MonitoringOptions{})},
		{"monitoring-rich", must(t, addon.Monitoring, addon.MonitoringOptions{Common: seven, Retention: 36 * time.Hour, StorageClass: "longhorn",
			Size: resource.MustParse("100Gi"), Alertmanager: true, Hostname: "grafana.example.org", Issuer: "homelab"})},
		{"monitoring-gateway", must(t, addon.Monitoring, addon.MonitoringOptions{Hostname: "grafana.example.org",
			GatewayNamespace: "kube-system", GatewayName: "homelab"})},
		{"dcgm-exporter", must(t, addon.GPUExporter, addon.GPUExporterOptions{Common: seven, RuntimeClass: "nvidia",
			Nodes: map[string]string{"nvidia.com/gpu.present": "true"}})},
		{"gpu-operator", must(t, addon.GPUOperator, addon.GPUOperatorOptions{Common: seven, RuntimeClass: "nvidia", Default: "time-slicing-4",
			Configs: map[string]string{"none": "version: v1\n", "time-slicing-4": "version: v1\nsharing: {}\n"}, Metrics: true})},
		{"gpu-operator-driver", must(t, addon.GPUOperator, addon.GPUOperatorOptions{Common: seven, RuntimeClass: "nvidia", Default: "none",
			Configs: map[string]string{"none": "version: v1\n"}, Driver: &addon.GPUDriver{Version: "580.126.20", Modules: "open"}})},
		{"kueue", must(t, addon.Kueue, addon.KueueOptions{Resources: []string{"nvidia.com/gpu"}, Queues: []addon.Queue{
			{Name: "students", Namespaces: []string{"course-a"}, Quota: map[string]int{"nvidia.com/gpu": 8}, Borrow: true}}})},
		{"kueue-rich", must(t, addon.Kueue, addon.KueueOptions{Common: seven, Resources: []string{"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"}, Queues: []addon.Queue{
			{Name: "students", Namespaces: []string{"course-a", "course-b"}, Labelled: []string{"jupyterhub"},
				Quota: map[string]int{"nvidia.com/gpu": 6, "nvidia.com/mig-1g.5gb": 7}, Borrow: true},
			{Name: "staff", Namespaces: []string{"research"}, Quota: map[string]int{"nvidia.com/gpu": 2}, Reclaim: true}}})},
		{"velero", must(t, addon.Velero, addon.VeleroOptions{Bucket: "backups", AccessKey: key0, SecretKey: key1})},
		{"velero-rich", must(t, addon.Velero, addon.VeleroOptions{Common: seven, Endpoint: "https://s3.example.org:9000", Region: "home",
			Bucket: "backups", Prefix: "lab", AccessKey: key0, SecretKey: key1, CA: []byte("PEM"), Schedule: "30 2 * * 6",
			Retention: 90 * 24 * time.Hour, Namespaces: []string{"jupyterhub"}, FileSystem: true})},
	}
}
