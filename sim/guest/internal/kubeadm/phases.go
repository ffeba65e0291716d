package kubeadm

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

func components() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
}

// preflight are kubeadm's checks (preflight/checks.go), with their names.
func (d *documents) preflight(p *machine.Proc, ignored string) int {
	var problems []string
	ignore := strings.Split(strings.ToLower(ignored), ",")
	check := func(wrong bool, name, format string, args ...any) {
		if wrong && !slices.Contains(ignore, strings.ToLower(name)) {
			problems = append(problems, fmt.Sprintf("\t[ERROR %s]: %s", name, fmt.Sprintf(format, args...)))
		}
	}
	available := func(file string) {
		_, err := p.FS.Stat(file)
		check(err == nil, "FileAvailable-"+strings.ReplaceAll(file, "/", "-"), "%s already exists", file)
	}
	running := stateOf(p.Sys).running.Load()
	serves := network.StateOf[servers](p.Sys.Config.Network).get(p.Sys.Answers()) != nil
	socket := d.registration().CRISocket
	check(!listens(p.Sys, socket), "CRI", "could not connect to the container runtime: failed to create new CRI runtime service: validate service connection: validate CRI v1 runtime API for endpoint %q", socket)
	for _, program := range []string{"conntrack", "mount", "ip"} {
		_, err := p.Find(program)
		check(err != nil, "FileExisting-"+program, "%s not found in system path", program)
	}
	forward, _ := p.FS.ReadFile("/proc/sys/net/ipv4/ip_forward")
	check(strings.TrimSpace(string(forward)) != "1", "FileContent--proc-sys-net-ipv4-ip_forward", "/proc/sys/net/ipv4/ip_forward contents are not set to 1")
	check(running != nil, "Port-10250", "Port 10250 is in use")
	if d.isServer() {
		check(p.Sys.Config.CPUs < 2, "NumCPU", "the number of available CPUs %d is less than the required 2", p.Sys.Config.CPUs)
		check(p.Sys.Config.Memory < 1700<<20, "Mem", "the system RAM (%d MB) is less than the minimum 1700 MB", p.Sys.Config.Memory>>20)
		for _, c := range components() {
			available(manifests + "/" + c + ".yaml")
		}
		for _, port := range []string{"6443", "10259", "10257", "2379", "2380"} {
			check(serves, "Port-"+port, "Port %s is in use", port)
		}
		entries, err := p.FS.ReadDir("/var/lib/etcd")
		check(err == nil && len(entries) > 0, "DirAvailable--var-lib-etcd", "/var/lib/etcd is not empty")
	}
	if d.verb == "join" {
		for _, file := range []string{"kubelet.conf", "bootstrap-kubelet.conf"} {
			available(etc + "/" + file)
		}
		if !d.isServer() {
			available(etc + "/pki/ca.crt")
		}
	}
	if len(problems) == 0 {
		return 0
	}
	fmt.Fprintf(p.Stderr, "error: error execution phase preflight: [preflight] Some fatal errors occurred:\n%s\n[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`\n", strings.Join(problems, "\n"))
	return exitPreflight
}

// initialize is kubeadm init after its checks. What is there already is used again.
func (d *documents) initialize(ctx context.Context, p *machine.Proc) int {
	s, v := p.Sys, p.Sys.Root()
	if d.cluster.Kind == "" {
		return fails(p, 1, "kubeadm init without a ClusterConfiguration is not simulated")
	}
	own, err := netip.ParseAddr(d.init.Local.Address)
	if err != nil {
		own = s.Address()
	}
	cfg, err := d.cluster.plane(d.init.Registration.Name, own)
	if err != nil {
		return fails(p, 1, "%v", err)
	}
	if minor(d.cluster.Version) != minor(ownVersion(p)) {
		return fails(p, 1, "this version of kubeadm only supports deploying clusters with the control plane version >= 1.%d.0. Current version: %s", minor(ownVersion(p))-1, d.cluster.Version)
	}
	c := clusterOn(s)
	if c == nil {
		if s.Config.Kubernetes == nil {
			return fails(p, 1, "this simulation has no control plane")
		}
		if c, err = d.revive(ctx, s, cfg, own); err == nil && c == nil {
			c, err = d.form(ctx, s, cfg, own)
		}
		if err != nil {
			return fails(p, 1, "%v", err)
		}
	}
	saveAuthorities(v, c)
	s.RecordChange("kubeadm init")
	for _, name := range []string{"admin", "super-admin", "kubelet", "controller-manager", "scheduler"} {
		v.Save(etc+"/"+name+".conf", string(c.plane.Kubeconfig("https://"+d.cluster.Endpoint)), 0o600)
	}
	if p.Wait(ctx, time.Second) != nil {
		return 1
	}
	saveManifests(p, d.cluster.Version)
	saveCertificates(p)
	if code := d.startKubelet(ctx, p); code != 0 {
		return code
	}
	if err := c.bind(ctx, s, d.cluster.Endpoint); err != nil {
		return fails(p, 1, "error execution phase upload-config/kubeadm: could not bootstrap the admin user in file admin.conf: unable to create ClusterRoleBinding: Post \"https://%s/apis/rbac.authorization.k8s.io/v1/clusterrolebindings\": %v", d.cluster.Endpoint, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ttl := 24 * time.Hour
	if len(d.init.Tokens) > 0 {
		if t, err := time.ParseDuration(d.init.Tokens[0].TTL); err == nil {
			ttl = t
		}
	}
	p.Printf("Your Kubernetes control-plane has initialized successfully!\n\nkubeadm join %s --token %s \\\n\t--discovery-token-ca-cert-hash %s\n",
		d.cluster.Endpoint, c.addToken(ttl, "The default bootstrap token generated by 'kubeadm init'."), keyDigest(c.ca))
	return 0
}

// saveAuthorities saves those of a cluster, for which one stands, and what signs service accounts.
func saveAuthorities(v *disk.View, c *cluster) {
	for _, of := range []string{"ca", "etcd/ca", "front-proxy-ca"} {
		v.Save(etc+"/pki/"+of+".crt", string(c.ca), 0o644)
		v.Save(etc+"/pki/"+of+".key", string(c.key), 0o600)
	}
	v.Save(etc+"/pki/sa.key", string(c.key), 0o600)
	v.Save(etc+"/pki/sa.pub", "a public key\n", 0o600)
}

// startKubelet writes what kubelet reads, starts it, and waits until it has registered.
func (d *documents) startKubelet(ctx context.Context, p *machine.Proc) int {
	d.configureKubelet(p)
	if err := systemd.Start(ctx, p.Sys, "kubelet.service", true); err != nil {
		return fails(p, 1, "error execution phase wait-control-plane: failed while waiting for the kubelet to start: The HTTP call equal to 'curl -sSL http://127.0.0.1:10248/healthz' returned error: %v", err)
	}
	return 0
}

// configureKubelet stops kubelet and writes what it reads.
func (d *documents) configureKubelet(p *machine.Proc) {
	v := p.Sys.Root()
	v.Save(kubelet+"/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n", 0o644)
	v.Save(kubelet+"/kubeadm-flags.env", d.registration().flags(), 0o644)
	v.Save(instanceFile, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: "+d.registration().CRISocket+"\n", 0o644)
	_ = systemd.Stop(p.Sys, "kubelet.service")
}

// keyDigest is that of an authority's public key (util/pubkeypin).
func keyDigest(ca []byte) string {
	block, _ := pem.Decode(ca)
	if block == nil {
		return ""
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(c.RawSubjectPublicKeyInfo))
}

func minor(version string) int {
	var m int
	_, _ = fmt.Sscanf(path.Base(version), "v1.%d.", &m)
	return m
}
