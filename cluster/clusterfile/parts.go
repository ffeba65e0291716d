package clusterfile

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/certs"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/databases"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/gitops"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/login"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/models"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/queues"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/schedule"
)

// partsSection completes and checks the platform.
type partsSection struct{ *resolver }

// validatePlatform checks the platform against the nodes, and its parts against each other.
func (r partsSection) validatePlatform() {
	loadbalancerSection(r).pools()
	loadbalancerSection(r).checkReserved()
	loadbalancerSection(r).bgp()
	nfsSection(r).fileServer()
	ingressSection(r).hostnames()
	ingressSection(r).checkHostnames()
	storageSection(r).classNames()
	chartsSection(r).ownVersions()
	profilesSection(r).profilesFit()
	queues.CheckOffers(r.Checker, r.spec)
}

func (r partsSection) rancher() {
	raw := r.spec.Platform.Rancher
	if raw == nil {
		return
	}
	if !r.IsSet(&raw.Replicas) {
		raw.Replicas = max(1, min(3, len(r.spec.Servers())))
	}
	r.hostname(&raw.Hostname, "rancher")
	r.chartVersion(&raw.Version, "rancher", raw.Version)
	r.CheckRange(&raw.Replicas, "replicas", 1, 9)
}

func (r partsSection) monitoring() {
	m := r.spec.Platform.Monitoring
	if m == nil {
		return
	}
	m.GPUs = m.GPUs.Or(len(r.spec.GPUNodes()) > 0)
	r.checkRetention("metrics", &m.Retention, 2*time.Hour, &m.Size) // one block of Prometheus
	if m.Hostname != "" {
		r.hostname(&m.Hostname, "grafana")
	}
	r.alerts(m)
	if m.GPUs.IsOn() && len(r.spec.GPUNodes()) == 0 {
		r.Warn(&m.GPUs, "no node has GPUs, so there are no metrics of them", "remove gpus")
	}
}

func (r partsSection) login() {
	if l := r.spec.Platform.Login; l != nil {
		if l.Provider == nil {
			r.hostname(&l.Hostname, "login")
		}
		login.Check(r.Checker, r.spec)
	}
}

func (r partsSection) logs() {
	if l := r.spec.Platform.Logs; l != nil {
		r.checkRetention("logs", &l.Retention, 24*time.Hour, &l.Size) // a day is VictoriaLogs' unit
	}
}

// checkRetention checks for how long, and on how much, a part keeps what it gathers.
func (r partsSection) checkRetention(what string, retention *time.Duration, least time.Duration, size *spec.Size) {
	if *retention < least {
		r.Wrong(retention, fmt.Sprintf("%s would be kept for %s", what, decode.Period(*retention)), "write 1d or more")
	}
	if *size < spec.GiB {
		r.Wrong(size, fmt.Sprintf("%s is too little for %s", *size, what), "write 10GiB or more")
	}
}

func (r partsSection) backup() {
	b := r.spec.Platform.Backup
	if b == nil {
		return
	}
	b.Prefix, b.CAFile = cmp.Or(b.Prefix, r.spec.Name), r.Existing(&b.CAFile, b.CAFile, false)
	r.IsURL(&b.Endpoint, "https", "http")
	if b.Bucket == "" {
		r.Wrong(&b.Bucket, "backup has no bucket", "write bucket: and its name")
	} else if !decode.Matches(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`, b.Bucket) {
		r.Wrong(&b.Bucket, fmt.Sprintf("%q cannot be a bucket", b.Bucket), "write 3 to 63 lower-case letters, digits, hyphens and dots")
	}
	if !r.IsSet(&b.AccessKey) {
		r.Wrong(&b.AccessKey, "backup has no accessKey", "write accessKey: env:NAME or file:PATH")
	}
	if !r.IsSet(&b.SecretKey) {
		r.Wrong(&b.SecretKey, "backup has no secretKey", "write secretKey: env:NAME or file:PATH")
	}
	if err := schedule.Check(b.Schedule); err != nil {
		r.Wrong(&b.Schedule, fmt.Sprintf("%q is not a schedule: %v", b.Schedule, err), "write five fields as for cron, e.g. 0 3 * * *")
	}
	if b.Retention < 24*time.Hour {
		r.Wrong(&b.Retention, fmt.Sprintf("a backup would be deleted after %s", decode.Period(b.Retention)), "write 7d or more")
	}
	for i, n := range b.Namespaces {
		if !decode.DNSLabel.MatchString(n) {
			r.Wrong(&b.Namespaces[i], fmt.Sprintf("%q cannot be a namespace", n), "write its name as kubectl get namespaces shows it")
		}
	}
	if b.Insecure && b.CAFile != "" {
		r.Wrong(&b.Insecure, "ca and insecure contradict each other", "keep one of ca and insecure")
	} else if b.Insecure {
		r.Warn(&b.Insecure, "nothing verifies the backup's service", "write ca: and the PEM file of the authority that signed its certificate")
	}
}

// platform resolves what runs on Kubernetes. It comes after the nodes, because most defaults
// depend on them.
func (r partsSection) platform() {
	chartsSection(r).charts()
	k3sSection(r).cni()
	storageSection(r).storage()
	loadbalancerSection(r).loadBalancer()
	ingressSection(r).ingress()
	certs.Complete(r.Checker, &r.spec.Platform)
	r.rancher()
	gitops.Check(r.Checker, r.spec)
	r.argoPages()
	r.monitoring()
	r.logs()
	r.backup()
	databases.Check(r.Checker, r.spec)
	models.Complete(r.Checker, r.spec)
	if g := r.spec.Platform.ModelGateway; g != nil && g.Hostname != "" {
		r.hostname(&g.Hostname, "models")
	}
	if c := r.spec.Platform.ModelChat; c != nil {
		r.hostname(&c.Hostname, "chat")
	}
	hubSection(r).hub()
	r.login()
	queues.Check(r.Checker, r.spec)
	ingressSection(r).withoutBuiltIn()
}

// argoPages checks the name of Argo CD's pages.
func (r partsSection) argoPages() {
	a := r.spec.Platform.ArgoCD
	switch {
	case a == nil || a.Hostname == "":
	case !a.Standalone.IsOn():
		r.Wrong(&a.Hostname, "an Argo CD that homelab does not install keeps its own address and login", "remove hostname, or standalone: false")
	default:
		r.hostname(&a.Hostname, "argocd")
	}
}
