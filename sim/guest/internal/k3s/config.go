package k3s

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/yamlvalue"
)

const (
	dir       = "/var/lib/rancher/k3s"
	serverDir = dir + "/server"
	etc       = "/etc/rancher/k3s"
	// agentCA is what every agent fetches from its server, that of a server too
	// (get, pkg/agent/config/config.go).
	agentCA      = dir + "/agent/server-ca.crt"
	manifestsDir = serverDir + "/manifests"
)

// config is K3s' configuration as flags: those of its files, then those of
// its command line, then its environment.
type config map[string][]string

func (c config) get(key string) string {
	v := c[key]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// commas splits values that may also be written with commas.
func (c config) commas(key string) []string {
	var out []string
	for _, v := range c[key] {
		for part := range strings.SplitSeq(v, ",") {
			if part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// readConfig reads config.yaml and then config.yaml.d by name. A later file's
// key replaces an earlier one's; "key+" adds to it.
func readConfig(v *disk.View, args, env []string) (config, error) {
	c := config{}
	files := []string{etc + "/config.yaml"}
	entries, _ := v.ReadDir(etc + "/config.yaml.d")
	for _, e := range entries {
		if ext := path.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
			files = append(files, etc+"/config.yaml.d/"+e.Name())
		}
	}
	for _, file := range files {
		data, err := v.ReadFile(file)
		if err != nil {
			continue
		}
		var doc map[string]any
		if err := yaml.Unmarshal(data, &doc); err != nil {
			return nil, fmt.Errorf("failed to parse %s: %s", file, strings.SplitN(err.Error(), "\n", 2)[0])
		}
		for key, value := range doc {
			if name, add := strings.CutSuffix(key, "+"); add {
				c[name] = append(c[name], yamlvalue.Texts(value)...)
				continue
			}
			c[key] = yamlvalue.Texts(value)
		}
	}
	for i := 0; i < len(args); i++ {
		key, value, has := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !has && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value = args[i]
		} else if !has {
			value = "true"
		}
		c[key] = append(c[key], value)
	}
	for name, key := range map[string]string{"K3S_TOKEN": "token", "K3S_TOKEN_FILE": "token-file", "K3S_URL": "server", "K3S_NODE_NAME": "node-name"} {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, name+"="); ok && c.get(key) == "" {
				c[key] = []string{value}
			}
		}
	}
	return c, nil
}

// agentFlags are those that "k3s agent" knows (pkg/cli/cmds/agent.go); servers
// know them too.
func agentFlags() []string {
	return []string{
		"airgap-extra-registry", "alsologtostderr", "bind-address", "config", "container-runtime-endpoint", "data-dir", "debug", "default-runtime",
		"disable-apiserver-lb", "disable-default-registry-endpoint", "docker", "enable-pprof", "flannel-cni-conf", "flannel-conf", "flannel-iface",
		"image-credential-provider-bin-dir", "image-credential-provider-config", "image-service-endpoint", "kube-proxy-arg", "kubelet-arg",
		"lb-server-port", "log", "node-external-dns", "node-external-ip", "node-internal-dns", "node-ip", "node-label", "node-name", "node-taint",
		"nonroot-devices", "pause-image", "prefer-bundled-bin", "private-registry", "protect-kernel-defaults", "resolv-conf", "rootless", "selinux",
		"server", "snapshotter", "token", "token-file", "v", "vmodule", "vpn-auth", "vpn-auth-file", "with-node-id",
	}
}

// serverFlag reports whether "k3s server" knows a flag beyond the agent's
// (pkg/cli/cmds/server.go).
func serverFlag(key string) bool {
	known := []string{
		"advertise-address", "advertise-port", "agent-token", "agent-token-file", "cluster-cidr", "cluster-dns", "cluster-domain", "cluster-init",
		"cluster-reset", "cluster-reset-restore-path", "default-local-storage-path", "disable", "disable-apiserver", "disable-cloud-controller",
		"disable-controller-manager", "disable-etcd", "disable-helm-controller", "disable-kube-proxy", "disable-network-policy", "disable-scheduler",
		"egress-selector-mode", "embedded-registry", "enable-servicelb", "flannel-backend", "flannel-external-ip", "flannel-ipv6-masq", "helm-job-image",
		"https-listen-port", "kube-apiserver-arg", "kube-cloud-controller-manager-arg", "kube-controller-manager-arg", "kube-scheduler-arg",
		"multi-cluster-cidr", "secrets-encryption", "secrets-encryption-provider", "service-cidr", "service-node-port-range", "servicelb-namespace",
		"supervisor-metrics", "system-default-registry", "tls-san", "tls-san-security", "write-kubeconfig", "write-kubeconfig-group", "write-kubeconfig-mode",
	}
	return slices.Contains(known, key) || strings.HasPrefix(key, "etcd-") || strings.HasPrefix(key, "datastore-") || strings.HasPrefix(key, "kine-")
}

// check obeys K3s' rule for keys that it does not know: servers warn, agents end.
func (c config) check(role string, warn func(key string)) error {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		switch {
		case slices.Contains(agentFlags(), key), role == "server" && serverFlag(key):
		case role == "server":
			warn(key)
			delete(c, key)
		default:
			return fmt.Errorf("flag provided but not defined: -%s", key)
		}
	}
	return nil
}

// critical are the values that all servers of a cluster must share
// (pkg/daemons/config/types.go).
func (c config) critical() map[string]string {
	out := map[string]string{}
	for key, name := range map[string]string{
		"cluster-cidr": "ClusterIPRanges", "service-cidr": "ServiceIPRanges", "cluster-dns": "ClusterDNSs", "cluster-domain": "ClusterDomain",
		"disable-helm-controller": "DisableHelmController", "disable-network-policy": "DisableNPC", "egress-selector-mode": "EgressSelectorMode",
		"flannel-backend": "FlannelBackend", "flannel-ipv6-masq": "FlannelIPv6Masq", "flannel-external-ip": "FlannelExternalIP",
		"secrets-encryption": "EncryptSecrets", "embedded-registry": "EmbeddedRegistry",
	} {
		value := strings.Join(c.commas(key), ",")
		if value == "" {
			value = map[string]string{"cluster-cidr": "10.42.0.0/16", "service-cidr": "10.43.0.0/16", "cluster-domain": "cluster.local", "flannel-backend": "vxlan"}[key]
		}
		out[name] = value
	}
	return out
}

// criticalWords are what K3s calls a critical value that differs: the key of config.yaml if it is a
// plain one, else where in its own structure the difference is.
func criticalWords(name string) []string {
	switch name {
	case "ClusterIPRanges":
		return []string{"ClusterIPRanges.slice[0].IP.slice[13]", "ClusterIPRange.IP.slice[13]"}
	case "ServiceIPRanges":
		return []string{"ClusterDNSs.slice[0].slice[13]", "ClusterDNS.slice[13]", "ServiceIPRange.IP.slice[13]", "ServiceIPRanges.slice[0].IP.slice[13]"}
	}
	words := map[string]string{
		"ClusterDNSs": "cluster-dns", "ClusterDomain": "cluster-domain", "DisableHelmController": "disable-helm-controller",
		"DisableNPC": "disable-network-policy", "EgressSelectorMode": "egress-selector-mode", "FlannelBackend": "flannel-backend",
		"FlannelIPv6Masq": "flannel-ipv6-masq", "FlannelExternalIP": "flannel-external-ip", "EncryptSecrets": "secrets-encryption",
		"EmbeddedRegistry": "embedded-registry",
	}
	return []string{words[name]}
}

// token is the configured token: the value itself, or a file's content.
func (c config) token(v *disk.View, key string) string {
	if t := c.get(key); t != "" {
		return strings.TrimSpace(t)
	}
	data, err := v.ReadFile(c.get(key + "-file"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// joinToken is a token taken apart: K10HASH::USER:SECRET, K10HASH::ID.SECRET, or
// the secret alone.
type joinToken struct {
	hash, user, secret string
	bootstrap          bool
}

func parseToken(s string) joinToken {
	rest, ok := strings.CutPrefix(s, "K10")
	if !ok {
		return joinToken{secret: s}
	}
	hash, creds, ok := strings.Cut(rest, "::")
	if !ok {
		return joinToken{secret: s}
	}
	if user, secret, ok := strings.Cut(creds, ":"); ok {
		return joinToken{hash: hash, user: user, secret: secret}
	}
	return joinToken{hash: hash, secret: creds, bootstrap: true}
}
