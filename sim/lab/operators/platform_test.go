package operators_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
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
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/charts"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/plane"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const (
	vip     = "10.0.0.100"
	version = "v1.36.5+k3s1"
)

// site is a cluster of a server and two workers, and its user.
type site struct {
	factory *plane.Factory
	plane   guest.Plane
	config  *rest.Config
	core    *kubernetes.Clientset
	dynamic dynamic.Interface
	kube    *kube.Client
	charts  *helm.Client
}

// kind is a real control plane in each second share of the campaigns, and a simulated one in the others.
func kind(t *testing.T) labctl.Guests {
	t.Helper()
	return labctl.Guests{Kubernetes: share.OneOf(t, 2, "control planes").Next()}
}

// newSite makes a cluster. Charts are the lab's own, or those of the folder that
// HOMELAB_CHARTS names.
func newSite(t *testing.T, disable ...string) *site { return newSiteOn(t, nil, nil, disable...) }

// newSiteOn is newSite whose nodes are the VMs 200 to 202 of a host, and whose pods reach what outside does.
func newSiteOn(t *testing.T, host *pvesim.Sim, outside func(context.Context, string) (net.Conn, error), disable ...string) *site {
	t.Helper()
	options := labtest.Planes(t, kind(t))
	options.Outside = outside
	if host != nil {
		options.Proxmox = host.Client
	}
	s := &site{factory: plane.New(context.WithoutCancel(t.Context()), options)}
	t.Cleanup(func() { assert.NoError(t, s.factory.Close()) })
	p, err := s.factory.Form(t.Context(), guest.PlaneConfig{Version: version, TLSSANs: []string{vip}, Disable: disable})
	require.NoError(t, err)
	s.plane = p
	for i, name := range []string{"cp1", "wk1", "wk2"} {
		n := guest.Node{Name: name, Role: "agent", InternalIP: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", 11+i)), Version: version, CPUs: 16, Memory: 64 << 30, Run: run}
		if i == 0 {
			n.Role = "server"
		}
		if host != nil {
			n.ProviderID, n.Labels = spec.ProviderID("home", 200+i), map[string]string{spec.RegionLabel: "home", spec.ZoneLabel: "pve1"}
		}
		require.NoError(t, p.Join(t.Context(), n))
	}
	kubeconfig := p.Kubeconfig("https://" + vip + ":6443")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }
	s.config, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	s.config.Dial, s.config.QPS, s.config.Burst = dial, 100, 100
	s.core = kubernetes.NewForConfigOrDie(s.config)
	s.dynamic = dynamic.NewForConfigOrDie(s.config)
	s.kube, err = kube.New(kube.Config{Kubeconfig: kubeconfig, Dial: dial})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.kube.Close() })
	folder := os.Getenv("HOMELAB_CHARTS")
	if folder == "" {
		folder = t.TempDir()
		require.NoError(t, charts.Write(folder))
		for name, text := range charts.Driver("other", "other", "1.0.0") {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, "other", name)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "other", name), text, 0o600))
		}
	}
	s.charts = helm.NewClient(s.kube, helm.Source{Folder: folder, Offline: true})
	return s
}

// run runs the commands of pods, as far as these tests have any.
func run(_ context.Context, c guest.Container) (int, string, string) {
	switch {
	case len(c.Args) == 3 && c.Args[0] == "sh" && c.Volumes["/probe"] != nil:
		return probeCommand(c)
	case len(c.Args) == 3 && strings.Contains(c.Args[2], "/home/jovyan") && c.Volumes["/home/jovyan"] != nil:
		return 0, "", ""
	}
	return 128, "exec: not found", ""
}

// probeCommand does what addon's probe of storage asks for.
func probeCommand(c guest.Container) (int, string, string) {
	disk := c.Volumes["/probe"]
	if strings.HasPrefix(c.Args[2], "cat") {
		got, err := disk.ReadFile("/text")
		if err != nil {
			return 1, err.Error(), ""
		}
		return 0, "", string(got)
	}
	if err := disk.WriteFile("/text", []byte(c.Env["TEXT"]), 0o644); err != nil {
		return 1, err.Error(), ""
	}
	return 0, "", c.Env["TEXT"]
}

func eventually(t *testing.T, limit time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	began := time.Now()
	err := check(t.Context())
	for ; err != nil && time.Since(began) < limit; err = check(t.Context()) {
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil {
		t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
	}
	require.NoError(t, err, "%s within %s", what, limit)
}

// install brings a part up as package cluster does: namespace, secrets, objects,
// release, objects.
func (s *site) install(t *testing.T, p chart.Part, err error) {
	t.Helper()
	require.NoError(t, err)
	began := time.Now()
	if p.Release != nil {
		_, err := s.kube.Apply(t.Context(), &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: p.Release.Namespace, Labels: p.NamespaceLabels}})
		require.NoError(t, err)
	}
	s.apply(t, slices.DeleteFunc(slices.Clone(p.Before), func(o runtime.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind != "Namespace" }))
	for _, secret := range p.Secrets {
		data := map[string][]byte{}
		for key, value := range secret.Data {
			data[key] = []byte(value.Reveal())
		}
		for key := range secret.Generate {
			data[key] = []byte(secret.Prefix + "0123456789abcdef0123456789abcdef")
		}
		_, err := s.kube.Apply(t.Context(), &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Namespace: secret.Namespace, Labels: secret.Labels}, Type: corev1.SecretType(secret.Type), Data: data})
		require.NoError(t, err, secret.Name)
	}
	s.apply(t, p.Before)
	if p.Release != nil {
		r := *p.Release
		r.Timeout = 90 * time.Second
		require.NoError(t, s.charts.Apply(t.Context(), r), p.Name)
		eventually(t, 20*time.Second, p.Name+": looking again finds nothing to do", func(ctx context.Context) error {
			have, err := s.charts.Observe(ctx, *p.Release)
			if d := have.Diff(); err != nil || !d.Empty() {
				return errors.Join(err, errors.New(d.String()))
			}
			return nil
		})
	}
	s.apply(t, p.After)
	t.Logf("%s is there after %s", p.Name, time.Since(began).Round(time.Millisecond))
}

// apply is patient: kinds and webhooks of a release take a moment.
func (s *site) apply(t *testing.T, objs []runtime.Object) {
	t.Helper()
	if len(objs) == 0 {
		return
	}
	eventually(t, 20*time.Second, "objects are applied", func(ctx context.Context) error {
		_, err := s.kube.Apply(ctx, objs...)
		return err
	})
}

// get returns an object by the name of its kind in paths.
func (s *site) get(ctx context.Context, group, version, resource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

// holds checks a condition of an object.
func holds(obj *unstructured.Unstructured, kind, status string) error {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range list {
		if m := c.(map[string]any); m["type"] == kind && m["status"] == status {
			return nil
		}
	}
	return fmt.Errorf("%s %s: no condition %s is %s: %v", obj.GetKind(), obj.GetName(), kind, status, list)
}

func certificates() addon.CertManager {
	return addon.CertManager{TLS: &spec.TLS{Source: spec.TLSSelfSigned, Issuer: "homelab"}}
}

func metallb() addon.MetalLB {
	pool := spec.AddressPool{From: netip.MustParseAddr("10.0.0.120"), To: netip.MustParseAddr("10.0.0.139")}
	return addon.MetalLB{LoadBalancer: &spec.LoadBalancer{Kind: spec.LBMetalLB, Addresses: []spec.AddressPool{pool}}}
}

func nfs() addon.NFS {
	return addon.NFS{NFS: &spec.NFS{Class: "nfs", Server: "10.0.0.30", Export: "/export/k3s", MountOptions: []string{"nfsvers=4", "hard", "noatime"}, Retain: spec.On}}
}

// made is a part on a site whose certificates its own authority signs.
func made(t *testing.T, p addon.Part) chart.Part {
	t.Helper()
	out, err := p.Make(&addon.Site{Ingress: spec.Ingress{Kind: spec.IngressTraefik, Class: "traefik"}, TLS: certificates().TLS})
	require.NoError(t, err)
	return out.Part
}

func (s *site) part(t *testing.T, p addon.Part) {
	t.Helper()
	s.install(t, made(t, p), nil)
}

func TestPlatformOfParts(t *testing.T) {
	s := newSite(t, "servicelb")
	s.part(t, metallb())
	s.part(t, certificates())
	s.part(t, addon.Issuer{CertManager: certificates()})
	s.part(t, nfs())
	s.part(t, addon.Scratch{Scratch: &spec.Scratch{Class: "scratch", Path: "/scratch", Nodes: []string{"wk1"}}})
	binding := storagev1.VolumeBindingWaitForFirstConsumer
	s.install(t, chart.Part{Name: "other", Release: &chart.Release{Name: "other", Namespace: "other", Chart: "other", Version: "1.0.0"}, After: []runtime.Object{
		&storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
			ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"app.kubernetes.io/name": "other"}}, Provisioner: "other.example.org", VolumeBindingMode: &binding},
	}}, nil)
	eventually(t, 20*time.Second, "the issuer is Ready", func(ctx context.Context) error {
		issuer, err := s.get(ctx, "cert-manager.io", "v1", "clusterissuers", "", "homelab")
		if err != nil {
			return err
		}
		return holds(issuer, "Ready", "True")
	})
	eventually(t, 20*time.Second, "Traefik has an address of the pool", func(ctx context.Context) error {
		service, err := s.core.CoreV1().Services("kube-system").Get(ctx, "traefik", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if in := service.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != "10.0.0.120" {
			return fmt.Errorf("it has %v", in)
		}
		return nil
	})
	s.part(t, addon.Rancher{Rancher: &spec.Rancher{Hostname: "rancher.lab.example", Replicas: 1}})
	eventually(t, 30*time.Second, "Fleet's local cluster is Ready", func(ctx context.Context) error {
		cluster, err := s.get(ctx, "fleet.cattle.io", "v1alpha1", "clusters", "fleet-local", "local")
		if err != nil {
			return err
		}
		return holds(cluster, "Ready", "True")
	})
	s.part(t, addon.Monitoring{Monitoring: &spec.Monitoring{Retention: 24 * time.Hour, Size: 50 * spec.GiB, Hostname: "grafana.lab.example"}})
	eventually(t, 30*time.Second, "Prometheus runs, on a volume of the default class", func(ctx context.Context) error {
		pods, err := s.core.CoreV1().Pods("monitoring").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=prometheus"})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("its pods: %v", len(pods.Items))
		}
		return nil
	})
	for _, host := range []struct{ namespace, ingress string }{{"cattle-system", "rancher"}} {
		eventually(t, 20*time.Second, "an Ingress has an address and its certificate", func(ctx context.Context) error {
			ing, err := s.core.NetworkingV1().Ingresses(host.namespace).Get(ctx, host.ingress, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if len(ing.Status.LoadBalancer.Ingress) == 0 {
				return fmt.Errorf("ingress %s has no address", host.ingress)
			}
			_, err = s.core.CoreV1().Secrets(host.namespace).Get(ctx, ing.Spec.TLS[0].SecretName, metav1.GetOptions{})
			return err
		})
	}
	s.storage(t)
}

// storage tries each class as the platform does.
func (s *site) storage(t *testing.T) {
	t.Helper()
	for _, p := range []addon.Probe{
		{Class: "nfs", Mode: corev1.ReadWriteMany, Nodes: []string{"wk1", "wk2"}},
		{Class: "scratch", Local: true, Nodes: []string{"wk1"}},
		{Class: "other", Local: true, Nodes: []string{"wk1"}},
		{Class: "local-path", Local: true, Nodes: []string{"wk2"}},
	} {
		began := time.Now()
		p.Timeout = time.Minute
		require.NoError(t, p.Run(t.Context(), s.kube), p.Class)
		t.Logf("class %s works after %s", p.Class, time.Since(began).Round(time.Millisecond))
	}
	left, err := s.core.CoreV1().PersistentVolumeClaims(addon.ProbeNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)

	// A class whose table does not name the node never provisions, and says so.
	p := addon.Probe{Class: "scratch", Local: true, Nodes: []string{"wk2"}, Timeout: 8 * time.Second}
	assert.ErrorContains(t, p.Run(t.Context(), s.kube), "scratch")
}

func TestHub(t *testing.T) {
	s := newSite(t)
	s.part(t, certificates())
	s.part(t, addon.Issuer{CertManager: certificates()})
	s.part(t, nfs())
	hub := jupyterhub.Hub{
		Hub: spec.Hub{
			Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, SSH: true,
			Home: spec.HubHome{Class: "nfs"}, Database: spec.HubDatabase{Class: "local-path"},
			Profiles: []spec.HubProfile{
				{Name: "small", Image: "quay.io/jupyter/base-notebook:2026-10-05", CPU: spec.CPU{Guarantee: 1, Limit: 2}, Memory: spec.Memory{Guarantee: spec.GiB, Limit: 2 * spec.GiB}},
				{Name: "huge", Image: "quay.io/jupyter/base-notebook:2026-10-05", CPU: spec.CPU{Guarantee: 64, Limit: 64}, Memory: spec.Memory{Guarantee: spec.GiB, Limit: 2 * spec.GiB}},
			},
		},
		Ingress: jupyterhub.Ingress{Class: "traefik", TLSSecret: "hub-tls", Annotations: map[string]string{"cert-manager.io/cluster-issuer": "homelab"}},
	}
	p, err := hub.Part()
	require.NoError(t, err)
	p.Release.Values["singleuser"].(map[string]any)["startTimeout"] = 5 // seconds
	s.install(t, p, nil)

	token, err := s.core.CoreV1().Secrets("jupyterhub").Get(t.Context(), hub.TokenSecret().Name, metav1.GetOptions{})
	require.NoError(t, err)
	var roots *x509.CertPool
	eventually(t, 10*time.Second, "the issuer's CA is there", func(ctx context.Context) error {
		ca, err := addon.IssuerCA(ctx, s.kube, "homelab")
		if err != nil {
			return err
		}
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		_, err = s.core.CoreV1().Secrets("jupyterhub").Get(ctx, "hub-tls", metav1.GetOptions{})
		return err
	})
	client := jupyterhub.Client{
		URL: "https://hub.lab.example", Token: secret.New(string(token.Data[hub.TokenSecret().Key])), TLS: &tls.Config{RootCAs: roots},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			conn, ok := s.factory.Reach("10.0.0.11:" + port) // K3s' own load balancer: a node's address
			if !ok {
				return nil, errors.New("no load balancer gave 10.0.0.11 to anybody")
			}
			return conn, nil
		},
	}
	results, err := jupyterhub.Verify(t.Context(), client, hub.Checks(), jupyterhub.Options{Start: 15 * time.Second})
	require.Len(t, results, 2)
	require.NoError(t, results[0].Err)
	assert.True(t, results[0].Saw.Writable)
	assert.Contains(t, results[0].Saw.SSH, "SSH-2.0-")
	assert.EqualValues(t, 2, results[0].Saw.CPUs)
	assert.EqualValues(t, 2*jupyterhub.GiB, results[0].Saw.Memory)
	t.Log("small: ", results[0].Saw, results[0].Ready)
	require.ErrorContains(t, results[1].Err, "Insufficient cpu", "the scheduler says why no node takes it")
	require.Error(t, err)
	left, err := s.core.CoreV1().Pods("jupyterhub").List(t.Context(), metav1.ListOptions{LabelSelector: "component=singleuser-server"})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
}
