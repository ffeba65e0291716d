package addon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
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

// seven are the nodes of a cluster with those taints.
func seven() []spec.Node {
	out := make([]spec.Node, 7)
	for i := range out {
		out[i].Name = fmt.Sprintf("n%d", i)
		for _, t := range taints {
			out[i].Taints = append(out[0].Taints, spec.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return out
}

// pools reads ranges of addresses.
func pools(t *testing.T, texts ...string) []spec.AddressPool {
	t.Helper()
	out := make([]spec.AddressPool, len(texts))
	for i, text := range texts {
		require.NoError(t, out[i].UnmarshalText([]byte(text)))
	}
	return out
}

// traefik is what a file has that says nothing of its ingress.
var traefik = spec.Ingress{Kind: spec.IngressTraefik, Class: "traefik"}

// must returns a part that is right, at a site.
func must(t *testing.T, p addon.Part, s addon.Site) addon.Recipe {
	t.Helper()
	require.True(t, p.Info().On)
	out, err := p.Make(&s)
	require.NoError(t, err)
	assert.Equal(t, p.Info().Name, out.Name)
	return out
}

// told is a reference to a secret, which is in a file.
func told(t *testing.T, text string) spec.SecretRef {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	ref, err := spec.ParseSecretRef("file:" + path)
	require.NoError(t, err)
	return ref
}

// written is the path of a file.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// sample is a part under a name for its golden file.
type sample struct {
	name string
	part addon.Recipe
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

func longhorn() *spec.Longhorn {
	return &spec.Longhorn{Class: "longhorn", Replicas: 1, DataPath: "/var/lib/longhorn", DrainPolicy: "block-if-contains-last-replica"}
}

func disks(secret spec.SecretRef) *spec.ProxmoxCSI {
	return &spec.ProxmoxCSI{Storage: "local-zfs", TokenID: "homelab@pve!csi", TokenSecret: secret, Class: "proxmox"}
}

func nfs() *spec.NFS {
	return &spec.NFS{Class: "nfs", Server: "10.0.0.30", Export: "/export/k3s", MountOptions: []string{"nfsvers=4", "hard", "noatime"}, Retain: spec.On}
}

func issuer(tls spec.TLS) addon.Issuer {
	return addon.Issuer{CertManager: addon.CertManager{TLS: &tls}}
}

// samples are all parts, as small and as rich as they come. A class of storage that none of
// writtenSamples has is as a file has it that says no more than true.
func samples(t *testing.T) []sample {
	t.Helper()
	out := writtenSamples(t)
	for _, part := range platform.Parts(&spec.Spec{}) {
		i := part.Info()
		key, ok := strings.CutPrefix(i.Section, "storage.")
		if !ok || slices.ContainsFunc(out, func(s sample) bool { return s.part.Name == i.Name }) {
			continue
		}
		file, err := clusterfile.Parse("cluster.yaml", fmt.Appendf(nil, `
name: t
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, wk: {count: 2, addresses: [10.0.0.21-22], gpus: 1, taints: [%s]}}
storage: {%s: true}
`, strings.Join(taintTexts(), ", "), key))
		require.NoError(t, err, "%s needs a sample of its own", i.Name)
		pieces, err := platform.Pieces(file, false)
		require.NoError(t, err)
		at := slices.IndexFunc(pieces, func(p addon.Recipe) bool { return p.Name == i.Name })
		require.GreaterOrEqual(t, at, 0, i.Name)
		out = append(out, sample{i.Name, pieces[at]})
	}
	return out
}

// taintTexts are the taints as a file has them.
func taintTexts() []string {
	var out []string
	for _, taint := range taints {
		text := taint.Key
		if taint.Value != "" {
			text += "=" + taint.Value
		}
		out = append(out, text+":"+string(taint.Effect))
	}
	return out
}

// chatting is a platform whose chat's names want quotes.
func chatting() *spec.Platform {
	return &spec.Platform{TLS: &spec.TLS{}, Login: &spec.Login{Hostname: "login.example.org", AllowedGroups: []string{"lab-example:students", `cn="a, b"`}, AdminGroups: []string{"lab-example:staff", `c\d`}}}
}

// paged is a platform whose Argo CD has pages, to which people sign in.
func paged(tls *spec.TLS) *spec.Platform {
	p := chatting()
	p.TLS = tls
	p.ArgoCD = &spec.ArgoCD{Hostname: "argocd.example.org", Fleet: spec.Fleet{Standalone: spec.On, Polling: time.Minute}}
	return p
}

func writtenSamples(t *testing.T) []sample {
	t.Helper()
	cert, key := theCA(t, true, time.Now().Add(time.Hour))
	key0, key1 := told(t, "AKIAEXAMPLE"), told(t, "wJalrXUtnFEMIEXAMPLE")
	reserved := map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120"), "lab/ssh": netip.MustParseAddr("10.0.0.130")}
	pool := pools(t, "10.0.0.120-10.0.0.139", "10.0.0.160/29")
	lb := &spec.LoadBalancer{Kind: spec.LBMetalLB, Addresses: pool, Reserved: reserved}
	bgp := *lb
	bgp.BGP = &spec.BGP{ASN: 4200000001, Peers: []spec.BGPPeer{{Address: netip.MustParseAddr("10.0.0.1"), ASN: 64500, Port: 179, Password: key0}, {Address: netip.MustParseAddr("10.9.0.1"), Port: 1790, Multihop: true}}}
	cilium := &spec.LoadBalancer{Kind: spec.LBCilium, Addresses: pool, Reserved: reserved}
	flat := spec.Kubernetes{CNI: "cilium", PodCIDR: spec.Ranges{netip.MustParsePrefix("10.42.0.0/16")}}
	gateway := spec.Ingress{Kind: spec.IngressGateway, Class: "traefik"}
	ofCilium := ofCilium()
	own := spec.TLS{Source: spec.TLSSelfSigned, Issuer: "homelab"}
	lent := spec.TLS{Source: spec.TLSSecret, Secret: "own/tls", CACert: written(t, "PEM")}
	signed := &spec.TLS{Source: spec.TLSACME, Issuer: "homelab", Email: "admin@example.org", Server: "https://acme-v02.api.letsencrypt.org/directory"}
	elsewhere := *signed
	elsewhere.Server = "https://ca.example.org/acme"
	proven := *signed
	proven.Challenge = spec.ChallengeDNS
	zones := []string{"home.example.org", "lab.example.org"}
	cloudflare := &spec.DNS{Zones: zones, Records: spec.On, Cloudflare: &spec.Cloudflare{Token: key1}, Resolvers: []string{"1.1.1.1:53", "9.9.9.9:53"}}
	route53 := &spec.DNS{Zones: zones, Records: spec.On, Route53: &spec.Route53{AccessKey: "AKID", SecretKey: key1, Region: "us-east-1", HostedZone: "Z0123"}}
	found := &spec.DNS{Zones: zones, Records: spec.On, Route53: &spec.Route53{AccessKey: "AKID", SecretKey: key1, Region: "eu-central-1"}}
	rfc2136 := &spec.DNS{Zones: zones, Records: spec.On, RFC2136: &spec.RFC2136{Server: "10.0.0.2:53", Key: "homelab", Secret: told(t, "c2VjcmV0LW9mLXRoZS1rZXk="), Algorithm: "hmac-sha256"}}
	webhook := &spec.DNS{Zones: zones, Webhook: &spec.ACMEWebhook{Group: "acme.example.org", Solver: "hetzner", Config: map[string]any{"zoneName": "home.example.org"}}}
	private := spec.TLS{Source: spec.TLSCA, Issuer: "homelab", CACert: written(t, string(cert)), CAKey: told(t, key.Reveal())}
	// Its CA is not that of any key here, so that the golden file stays the same.
	rancherCA := &spec.TLS{Source: spec.TLSCA, Issuer: "homelab", CACert: written(t, "PEM")}
	rich := func(s addon.Site) addon.Site { s.Nodes = seven(); return s }
	monitoring := spec.Monitoring{Retention: 15 * 24 * time.Hour, Size: 50 * spec.GiB}
	metrics, grafana := monitoring, monitoring
	metrics.Retention, metrics.StorageClass, metrics.Size, metrics.Alertmanager, metrics.Hostname = 36*time.Hour, "longhorn", 100*spec.GiB, spec.On, "grafana.example.org"
	grafana.Hostname = "grafana.example.org"
	alerting := monitoring
	alerting.Alertmanager, alerting.GPUs = spec.On, spec.On
	alerting.Alerts = &spec.Alerts{Ntfy: told(t, "https://ntfy.example.org/topic?priority=high"), Webhook: told(t, "https://hook.example.org"),
		Mail: &spec.Mail{Server: "smtp.example.org:587", To: []string{"a@example.org", "b@example.org"}, From: "lab@example.org", User: "lab", Password: key1}}
	pinnedDisks := disks(key1)
	pinnedDisks.CAFile = written(t, "PEM")
	backup := spec.Backup{Region: "us-east-1", Bucket: "backups", AccessKey: key0, SecretKey: key1, Schedule: "0 3 * * *", Retention: 30 * 24 * time.Hour}
	sharing := spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 4}
	operator := spec.NVIDIA{Stack: spec.StackOperator, Sharing: sharing}
	driver := spec.NVIDIA{Stack: spec.StackOperator, Driver: spec.Driver{DriverMode: spec.DriverOperator, Branch: "580-server", Flavour: "open"}, Sharing: spec.Sharing{Strategy: spec.SharingNone}}
	gpus := []spec.Node{{GPUs: spec.GPURequest{Count: 1, Sharing: spec.Sharing{Strategy: spec.SharingNone}}}}
	large := *longhorn()
	large.Replicas, large.DataPath, large.DrainPolicy = 3, "/data/longhorn", "allow-if-replica-is-stopped"
	return []sample{
		{"nfs", must(t, addon.NFS{NFS: nfs()}, addon.Site{})},
		{"nfs-rich", must(t, addon.NFS{NFS: &spec.NFS{Class: "homes", Server: "nas.example.org", Export: "/export/k3s",
			MountOptions: []string{"nfsvers=4.2"}, Classes: []spec.NFSClass{{Name: "bulk", Server: "10.0.0.31", Export: "/bulk", Retain: spec.On, MountOptions: []string{"nfsvers=3"}}, {Name: "more", Export: "/export/more"}}, Shares: []spec.Share{{Name: "homes", Export: "/export/homes"},
				{Name: "data", Export: "/export/data", ReadOnly: true, MountOptions: []string{"nfsvers=4"}, Namespaces: []string{"research", "course"}},
				{Name: "films", Server: "10.0.0.31", Export: "/films", Namespaces: []string{"research"}}}}}, rich(addon.Site{DefaultClass: "homes"}))},
		{"scratch", must(t, addon.Scratch{Scratch: &spec.Scratch{Class: "scratch", Path: "/scratch", Nodes: []string{"wk-gpu2", "wk-gpu1"}}}, rich(addon.Site{}))},
		{"longhorn", must(t, addon.Longhorn{Longhorn: longhorn()}, addon.Site{})},
		{"longhorn-rich", must(t, addon.Longhorn{Longhorn: &large}, rich(addon.Site{DefaultClass: "longhorn"}))},
		{"cephfs", must(t, addon.CephFS{CephFS: &spec.CephFS{Class: "cephfs", ClusterID: "b9127830-b0cc-4e34-aa47-9d1a2e9949a8",
			Monitors: []string{"10.0.0.41:6789", "10.0.0.42:6789"}, FSName: "cephfs", Pool: "cephfs_data", User: "k3s", Key: key1}}, rich(addon.Site{}))},
		{"proxmox-csi", must(t, addon.ProxmoxCSI{ProxmoxCSI: disks(key1)}, addon.Site{Proxmox: spec.Proxmox{Endpoint: "pve.example.org", Region: "home"}})},
		{"proxmox-csi-rich", must(t, addon.ProxmoxCSI{ProxmoxCSI: pinnedDisks}, rich(addon.Site{DefaultClass: "proxmox", Proxmox: spec.Proxmox{Endpoint: "https://10.0.0.5:443/", Region: "home", Fingerprint: "AA"}}))},
		{"cert-manager", must(t, addon.CertManager{TLS: &own}, addon.Site{})},
		{"cert-manager-rich", must(t, addon.CertManager{TLS: &own}, rich(addon.Site{Ingress: gateway, DNS: cloudflare}))},
		{"issuer-self-signed", must(t, issuer(own), addon.Site{})},
		{"issuer-acme", must(t, issuer(*signed), addon.Site{Ingress: traefik})},
		{"issuer-acme-gateway", must(t, issuer(elsewhere), addon.Site{Ingress: gateway})},
		{"issuer-dns-cloudflare", must(t, issuer(proven), addon.Site{Ingress: traefik, DNS: cloudflare})},
		{"issuer-dns-route53", must(t, issuer(proven), addon.Site{Ingress: traefik, DNS: route53})},
		{"issuer-dns-rfc2136", must(t, issuer(proven), addon.Site{Ingress: gateway, DNS: rfc2136})},
		{"issuer-dns-webhook", must(t, issuer(proven), addon.Site{Ingress: traefik, DNS: webhook})},
		{"external-dns", must(t, addon.ExternalDNS{DNS: cloudflare, Cluster: "t"}, addon.Site{Ingress: traefik})},
		{"external-dns-route53-found", must(t, addon.ExternalDNS{DNS: found, Cluster: "t"}, addon.Site{Ingress: traefik})},
		{"external-dns-route53", must(t, addon.ExternalDNS{DNS: route53, Cluster: "t"}, addon.Site{Ingress: traefik})},
		{"external-dns-rfc2136", must(t, addon.ExternalDNS{DNS: rfc2136, Cluster: "t"}, rich(addon.Site{Ingress: gateway}))},
		{"issuer-ca", must(t, issuer(private), addon.Site{})},
		{"ingress", must(t, addon.Ingress{Ingress: traefik, Pages: true}, addon.Site{Ingress: traefik})},
		{"ingress-gateway", must(t, addon.Ingress{Ingress: gateway, Pages: true}, rich(addon.Site{Ingress: gateway, Balancer: lb, TLS: signed,
			Hosts: []string{"hub.example.org", "*.apps.example.org"}}))},
		{"gateway-api", must(t, addon.GatewayAPI{Ingress: ofCilium}, addon.Site{Ingress: ofCilium})},
		{"ingress-cilium", must(t, addon.Ingress{Ingress: ofCilium, Pages: true}, rich(addon.Site{Ingress: ofCilium, Balancer: cilium, TLS: signed, Hosts: []string{"hub.example.org"}}))},
		{"ingress-cilium-alone", must(t, addon.Ingress{Ingress: ofCilium, Pages: true}, addon.Site{Ingress: ofCilium, NoTraefik: true, Balancer: &spec.LoadBalancer{Kind: spec.LBCilium}})},
		{"metallb-bgp", must(t, addon.MetalLB{LoadBalancer: &bgp}, addon.Site{})},
		{"metallb", must(t, addon.MetalLB{LoadBalancer: lb}, rich(addon.Site{}))},
		{"cilium", must(t, addon.Cilium{Kubernetes: flat}, addon.Site{})},
		{"cilium-rich", must(t, addon.Cilium{Kubernetes: flat}, rich(addon.Site{Balancer: cilium}))},
		{"cilium-gateway", must(t, addon.Cilium{Kubernetes: flat}, addon.Site{Ingress: ofCilium, Balancer: cilium, Made: []addon.Recipe{{Part: chart.Part{Name: "gateway-api"}}}})},
		{"cilium-pool-gateway", must(t, addon.CiliumPool{LoadBalancer: cilium}, addon.Site{Ingress: ofCilium})},
		{"cilium-pool", must(t, addon.CiliumPool{LoadBalancer: cilium}, addon.Site{})},
		{"rancher", must(t, addon.Rancher{Rancher: &spec.Rancher{Hostname: "rancher.example.org", Replicas: 1}}, addon.Site{Ingress: traefik})},
		{"rancher-rich", must(t, addon.Rancher{Rancher: &spec.Rancher{Hostname: "rancher.example.org", Replicas: 3, Bootstrap: told(t, "a-long-password")}},
			rich(addon.Site{Ingress: traefik, TLS: rancherCA}))},
		{"rancher-cilium", must(t, addon.Rancher{Rancher: &spec.Rancher{Hostname: "rancher.example.org", Replicas: 3}}, rich(addon.Site{Ingress: ofCilium, TLS: signed}))},
		{"rancher-gateway", must(t, addon.Rancher{Rancher: &spec.Rancher{Hostname: "rancher.example.org", Replicas: 3}}, rich(addon.Site{Ingress: gateway, TLS: signed}))},
		{"monitoring", must(t, addon.Monitoring{Monitoring: &monitoring}, addon.Site{Ingress: traefik})},
		{"monitoring-alerts", must(t, addon.Monitoring{Monitoring: &alerting}, rich(addon.Site{Ingress: traefik, Made: []addon.Recipe{{Part: chart.Part{Name: "cert-manager"}}}}))},
		{"logs", must(t, addon.Logs{Logs: &spec.Logs{Retention: 30 * 24 * time.Hour, Size: 20 * spec.GiB}}, addon.Site{})},
		{"logs-rich", must(t, addon.Logs{Logs: &spec.Logs{Retention: 36 * time.Hour, Size: 1500 * spec.GiB, StorageClass: "longhorn"}}, rich(addon.Site{}))},
		{"log-collector", must(t, addon.LogCollector{Logs: &spec.Logs{}}, rich(addon.Site{}))},
		{"monitoring-rich", must(t, addon.Monitoring{Monitoring: &metrics, Logs: true}, rich(addon.Site{Ingress: traefik, TLS: signed}))},
		{"monitoring-gateway", must(t, addon.Monitoring{Monitoring: &grafana}, addon.Site{Ingress: gateway})},
		{"dcgm-exporter", must(t, addon.GPUExporter{Monitoring: &spec.Monitoring{GPUs: spec.On}}, rich(addon.Site{}))},
		{"gpu-operator", must(t, addon.GPUOperator{NVIDIA: operator, Nodes: gpus}, rich(addon.Site{GPUMetrics: true}))},
		{"gpu-operator-driver", must(t, addon.GPUOperator{NVIDIA: driver, Nodes: gpus}, rich(addon.Site{}))},
		{"models", must(t, addon.Models{Models: models(key1)[:1]}, served(addon.Site{}))},
		{"models-rich", must(t, addon.Models{Models: models(key1), PoolLabel: "homelab.cps-gpu.github.com/pool"}, served(addon.Site{}))},
		{"models-gateway", must(t, addon.Models{Models: models(key1)[:2], Gateway: true}, served(addon.Site{}))},
		{"models-queue", must(t, addon.Models{Models: models(key1)[:1], Queue: "staff"}, served(addon.Site{Made: []addon.Recipe{{Part: chart.Part{Name: "kueue"}}}}))},
		{"model-gateway", must(t, addon.ModelGateway{ModelGateway: &spec.ModelGateway{Size: 10 * spec.GiB}, Models: models(key1)[:1]}, addon.Site{})},
		{"model-gateway-rich", must(t, addon.ModelGateway{ModelGateway: &spec.ModelGateway{Hostname: "models.example.org", Size: 20 * spec.GiB, StorageClass: "longhorn",
			Keys: []spec.ModelKey{{Name: "alice"}, {Name: "robotics", Models: []string{"short"}, Requests: 60}}}, Models: models(key1)},
			rich(addon.Site{TLS: signed, Ingress: spec.Ingress{Kind: spec.IngressTraefik, Class: "traefik"}, Made: []addon.Recipe{{Part: chart.Part{Name: "models"}}, {Part: chart.Part{Name: "postgres"}}}}))},
		{"model-gateway-route", must(t, addon.ModelGateway{ModelGateway: &spec.ModelGateway{Hostname: "models.example.org", Size: 10 * spec.GiB}, Models: models(key1)[:1]},
			addon.Site{TLS: signed, Ingress: gateway})},
		{"model-chat", must(t, addon.ModelChat{ModelChat: &spec.ModelChat{Hostname: "chat.example.org", Size: 10 * spec.GiB}, Platform: chatting()}, addon.Site{TLS: signed, Ingress: gateway})},
		{"model-chat-rich", must(t, addon.ModelChat{ModelChat: &spec.ModelChat{Hostname: "chat.example.org", Size: 20 * spec.GiB, StorageClass: "longhorn"}, Platform: chatting()},
			rich(addon.Site{Ingress: spec.Ingress{Kind: spec.IngressTraefik, Class: "traefik"}}))},
		{"kueue", must(t, addon.Kueue{Queues: []spec.Queue{{Name: "students", Namespaces: []string{"course-a"}, GPUs: 8, Borrow: spec.On}}},
			addon.Site{Offered: map[string]int{"nvidia.com/gpu": 8}})},
		{"kueue-rich", must(t, addon.Kueue{Queues: []spec.Queue{
			{Name: "students", Namespaces: []string{"course-a", "course-b", "jupyterhub"}, GPUs: 6, MIG: map[string]int{"1g.5gb": 7}, Borrow: spec.On},
			{Name: "staff", Namespaces: []string{"research", "models"}, GPUs: 2, Reclaim: true}}},
			rich(addon.Site{HubNamespace: "jupyterhub", Offered: map[string]int{"nvidia.com/gpu": 8, "nvidia.com/mig-1g.5gb": 7}}))},
		{"postgres", must(t, addon.Postgres{Postgres: &spec.Postgres{}}, addon.Site{})},
		{"postgres-rich", must(t, addon.Postgres{Postgres: &spec.Postgres{Databases: []spec.Database{
			{Name: "hub", Namespace: "databases", Instances: 1, Size: 10 * spec.GiB}, {Name: "keycloak", Namespace: "login", Instances: 3, Size: 1500 * spec.GiB, StorageClass: "longhorn"}}}},
			rich(addon.Site{Made: []addon.Recipe{{Part: chart.Part{Name: "monitoring"}}}}))},
		{"postgres-backup", must(t, addon.PostgresBackup{Postgres: &spec.Postgres{Backup: true}, Store: &backup}, rich(addon.Site{}))},
		{"postgres-to-amazon", must(t, addon.Postgres{Postgres: &spec.Postgres{Backup: true, Databases: []spec.Database{
			{Name: "hub", Namespace: "databases", Instances: 1, Size: 10 * spec.GiB}}}, Store: &backup}, addon.Site{})},
		{"postgres-restored", must(t, addon.Postgres{Postgres: &spec.Postgres{Backup: true, Databases: []spec.Database{
			{Name: "hub", Namespace: "databases", Instances: 2, Size: 10 * spec.GiB, Archive: "hub-2", Restore: &spec.Restore{Archive: "hub", At: "2026-11-29T12:00:00Z"}},
			{Name: "keycloak", Namespace: "login", Instances: 1, Size: 10 * spec.GiB, Restore: &spec.Restore{Archive: "old"}}}},
			Store: &spec.Backup{Endpoint: "https://s3.example.org:9000", Region: "home", Bucket: "backups", Prefix: "lab", AccessKey: key0, SecretKey: key1,
				CAFile: written(t, "PEM"), Schedule: "30 2 * * 6", Retention: 90*24*time.Hour + time.Hour}},
			addon.Site{Made: []addon.Recipe{{Part: chart.Part{Name: addon.PostgresBackupName}}, {Part: chart.Part{Name: "monitoring"}}}})},
		{"dex", must(t, signIn(t, nil), addon.Site{Ingress: traefik, TLS: signed})},
		{"dex-rich", must(t, signIn(t, &grafana), rich(addon.Site{Ingress: gateway, TLS: signed}))},
		{"monitoring-login", must(t, addon.Monitoring{Monitoring: &grafana, Platform: signIn(t, &grafana).Platform}, addon.Site{Ingress: traefik, TLS: signed})},
		{"rancher-login", must(t, addon.RancherLogin{Platform: &spec.Platform{Login: signIn(t, nil).Login, TLS: signed, Rancher: &spec.Rancher{Hostname: "rancher.example.org"}}}, addon.Site{})},
		{"argocd-pages", must(t, addon.ArgoCDPages{Platform: paged(&own)}, addon.Site{TLS: &own, Ingress: traefik})},
		{"argocd-pages-rich", must(t, addon.ArgoCDPages{Platform: paged(&lent)}, rich(addon.Site{TLS: &lent, Ingress: traefik}))},
		{"login-provider", must(t, addon.LoginProvider{Login: existing(t).Login, Platform: existing(t)}, addon.Site{TLS: signed})},
		{"monitoring-provider", must(t, addon.Monitoring{Monitoring: existing(t).Monitoring, Platform: existing(t)}, addon.Site{Ingress: traefik, TLS: signed})},
		{"rancher-provider", must(t, addon.Rancher{Rancher: existing(t).Rancher, Platform: existing(t)}, addon.Site{Ingress: traefik, TLS: signed})},
		{"rancher-login-provider", must(t, addon.RancherLogin{Platform: existing(t)}, addon.Site{})},
		{"argocd-pages-provider", must(t, addon.ArgoCDPages{Platform: existing(t)}, addon.Site{TLS: signed, Ingress: traefik})},
		{"argocd-pages-alone", must(t, addon.ArgoCDPages{Platform: &spec.Platform{ArgoCD: paged(nil).ArgoCD}}, addon.Site{TLS: signed, Ingress: traefik})},
		{"velero", must(t, addon.Velero{Backup: &backup}, addon.Site{})},
		{"velero-rich", must(t, addon.Velero{Backup: &spec.Backup{Endpoint: "https://s3.example.org:9000", Region: "home",
			Bucket: "backups", Prefix: "lab", AccessKey: key0, SecretKey: key1, CAFile: written(t, "PEM"), Schedule: "30 2 * * 6",
			Retention: 90 * 24 * time.Hour, Namespaces: []string{"jupyterhub"}, FileSystem: spec.On}}, rich(addon.Site{Made: []addon.Recipe{{Part: chart.Part{Name: "monitoring"}}}}))},
	}
}

// served is a site whose nodes have cards: whole ones, and shares of a smaller one.
func served(s addon.Site) addon.Site {
	s.Nodes = []spec.Node{
		{Name: "big1", Pool: "big", GPUs: spec.GPURequest{Count: 4, Model: "A100-SXM4-80GB"}},
		{Name: "big2", Pool: "big", GPUs: spec.GPURequest{Count: 4, Model: "A100-SXM4-80GB"}, Taints: seven()[0].Taints},
		{Name: "small", GPUs: spec.GPURequest{Count: 1, Model: "RTX 4090", Sharing: spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 2}}},
	}
	return s
}

// models have all that a model's server can differ in.
func models(token spec.SecretRef) []spec.Model {
	one := func(name, source string) spec.Model {
		return spec.Model{Name: name, Source: source, Engine: spec.EngineVLLM, Context: 32768, Parallel: 1, GPUs: 1, Replicas: 1, Class: spec.LocalPath, Size: 100 * spec.GiB}
	}
	plain, two, gated, file, small := one("qwen", "Qwen/Qwen3-8B"), one("coder", "Qwen/Qwen3-Coder-30B-A3B-Instruct"), one("gated", "meta-llama/Llama-3.1-8B-Instruct"),
		one("file", "unsloth/Qwen3-4B-GGUF"), one("shared", "unsloth/Qwen3-4B-GGUF")
	two.GPUs, two.Replicas, two.Pool, two.Class, two.Revision = 2, 2, "big", "nfs", "b2cff646eb4bb1d68355c01b18ae02e7cf42d120"
	gated.Token, gated.Mirror, gated.Quantization, gated.Cache, gated.Pool = token, "https://hf.lab.example/", "fp8", "fp8", "big"
	file.Engine, file.File, file.Context, file.Parallel, file.Cache = spec.EngineLlamaCPP, "Qwen3-4B-Q4_K_M.gguf", 8192, 2, "q8_0"
	small.Engine, small.Quantization, small.Pool, small.Context, small.Image = spec.EngineLlamaCPP, "Q8_0", "small", 4096, "registry.lab.example/llama:1"
	checked := file
	checked.Name, checked.SHA256, checked.Mirror, checked.Token = "checked", "f6f851777709861056efcdad3af01da38b31223a3ba26e61a4f8bf3a2195813a", "https://hf.lab.example/", token
	return []spec.Model{plain, two, gated, file, small, checked}
}
