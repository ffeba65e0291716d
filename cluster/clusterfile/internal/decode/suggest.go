package decode

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// habits maps names from other tools to ours.
var habits = map[string]string{
	"cpus": "cores", "vcpus": "cores", "ram": "memory", "mem": "memory", "ip": "address", "ipaddress": "address",
	"nameservers": "dns", "dnsservers": "dns", "searchdomain": "search", "cidr": "prefix", "subnet": "prefix", "gw": "gateway",
	"replicas": "count", "size": "count", "url": "endpoint", "apiurl": "endpoint", "tokenid": "token", "tokensecret": "secret",
	"cafile": "ca", "id": "vmid", "macaddress": "mac", "datastore": "storage", "proxmoxnode": "host", "bios": "image",
	"clustercidr": "podCIDR", "podsubnet": "podCIDR", "servicesubnet": "serviceCIDR", "apivip": "vip", "flavor": "flavour",
	"keys": "publicKeys", "authorizedkeys": "publicKeys", "sshkeys": "publicKeys", "gpu": "gpus", "mtusize": "mtu", "bastion": "jump",
	"checksum": "sha256", "release": "distribution", "os": "distribution", "mountpoint": "mount", "path": "mount", "filesystem": "fs", "cputype": "cpu", "count": "names",
	"authentication": "auth", "authenticator": "auth", "culling": "cull", "storageclass": "class", "storageclassname": "class", "ingressclass": "class",
	"domain": "hostname", "host": "hostname", "fqdn": "hostname", "existingclaim": "claim", "capacity": "size", "db": "database", "quotas": "quota",
	"bootstrap": "bootstrapPassword", "networkpolicy": "isolate", "repository": "repo", "username": "users", "metallb": "loadBalancer", "jupyterhub": "hub",
	"velero": "backup", "kueue": "queues", "prometheus": "monitoring", "loki": "logs", "victorialogs": "logs", "grafana": "monitoring", "certmanager": "tls",
	"postgresql": "postgres", "cloudnativepg": "postgres", "cnpg": "postgres", "dex": "login", "sso": "login", "identity": "login", "litellm": "modelGateway", "openwebui": "modelChat", "chat": "modelChat",
}

// Likely returns the known name that was most likely meant, or "".
func Likely(name string, known []string) string {
	plain := suggest.Normalize(name)
	for _, k := range known {
		if suggest.Normalize(k) == plain {
			return k
		}
	}
	if h := habits[plain]; slices.Contains(known, h) {
		return h
	}
	return suggest.Nearest(name, known)
}

// OrSuggest is the cure for an unknown word: the likely one, or all of them.
func OrSuggest(name string, known []string) string {
	if s := Likely(name, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return "write " + suggest.JoinOr(known)
}

// PartHabits maps common names of parts of the platform, beside those of their charts, to their own.
var PartHabits = map[string]string{
	"hub": "jupyterhub", "backup": "velero", "queues": "kueue", "tls": "cert-manager", "loadbalancer": "metallb", "prometheus": "monitoring", "loki": "logs", "grafana": "monitoring",
	"localpath": "scratch", "dcgm": "dcgm-exporter",
}

// IsProtectedLabel reports whether Kubernetes or K3s manage a label.
func IsProtectedLabel(key string) bool {
	domain, _, ok := CutLast(key, "/")
	return ok && domain != "node-restriction.kubernetes.io" && domain != "topology.kubernetes.io" && protectedDomain.MatchString(domain)
}

var protectedDomain = regexp.MustCompile(`(^|\.)(kubernetes\.io|k8s\.io|k3s\.io|k3s\.cattle\.io)$`)
