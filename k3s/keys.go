package k3s

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// The keys of config.yaml are the long flags of `k3s agent` and `k3s server`
// (pkg/cli/cmds/agent.go and server.go). A server is also an agent and knows both lists; an
// agent exits with 1 if it finds a server key.
var (
	sharedKeys = []string{
		"airgap-extra-registry", "alsologtostderr", "bind-address", "container-runtime-endpoint", "data-dir", "debug",
		"default-runtime", "disable-apiserver-lb", "disable-default-registry-endpoint", "docker", "enable-pprof",
		"flannel-cni-conf", "flannel-conf", "flannel-iface", "image-credential-provider-bin-dir",
		"image-credential-provider-config", "image-service-endpoint", "kube-proxy-arg", "kubelet-arg",
		"lb-server-port", "log", "node-external-dns", "node-external-ip", "node-internal-dns", "node-ip", "node-label",
		"node-name", "node-taint", "nonroot-devices", "pause-image", "prefer-bundled-bin", "private-registry",
		"protect-kernel-defaults", "resolv-conf", "rootless", "selinux", "server", "snapshotter", "token", "token-file",
		"v", "vmodule", "vpn-auth", "vpn-auth-file", "with-node-id",
	}
	serverKeys = []string{
		"advertise-address", "advertise-port", "agent-token", "agent-token-file", "cluster-cidr", "cluster-dns",
		"cluster-domain", "cluster-init", "cluster-reset", "cluster-reset-restore-path", "datastore-cafile",
		"datastore-certfile", "datastore-endpoint", "datastore-keyfile", "default-local-storage-path", "disable",
		"disable-agent", "disable-apiserver", "disable-cloud-controller", "disable-controller-manager", "disable-etcd",
		"disable-helm-controller", "disable-kube-proxy", "disable-network-policy", "disable-scheduler",
		"egress-selector-mode", "embedded-registry", "etcd-arg", "etcd-disable-snapshots", "etcd-expose-metrics",
		"etcd-s3", "etcd-s3-access-key", "etcd-s3-bucket", "etcd-s3-bucket-lookup-type", "etcd-s3-config-secret",
		"etcd-s3-endpoint", "etcd-s3-endpoint-ca", "etcd-s3-folder", "etcd-s3-insecure", "etcd-s3-proxy",
		"etcd-s3-region", "etcd-s3-retention", "etcd-s3-secret-key", "etcd-s3-session-token", "etcd-s3-skip-ssl-verify",
		"etcd-s3-timeout", "etcd-snapshot-compress", "etcd-snapshot-dir", "etcd-snapshot-name",
		"etcd-snapshot-reconcile-interval", "etcd-snapshot-retention", "etcd-snapshot-schedule-cron",
		"flannel-backend", "flannel-external-ip", "flannel-ipv6-masq", "helm-job-image", "https-listen-port",
		"kine-tls", "kube-apiserver-arg", "kube-cloud-controller-manager-arg", "kube-controller-manager-arg",
		"kube-scheduler-arg", "multi-cluster-cidr", "secrets-encryption", "secrets-encryption-provider",
		"service-cidr", "service-node-port-range", "servicelb-namespace", "supervisor-metrics",
		"system-default-registry", "tls-san", "tls-san-security", "write-kubeconfig", "write-kubeconfig-group",
		"write-kubeconfig-mode",
	}

	// refusedKeys cannot be passed through; the value says what to do instead.
	refusedKeys = map[string]string{
		"agent-token":           "it is a secret: put it in a file of mode 0600 and name that with agent-token-file",
		"cluster-init":          "leave URL empty for the first server",
		"cluster-reset":         "it is a command, not a setting: run k3s server --cluster-reset by hand",
		"data-dir":              "this package reads /var/lib/rancher/k3s",
		"datastore-endpoint":    "it holds a password, and only the embedded etcd is supported",
		"etcd-s3-access-key":    "use the field S3, whose keys are written to a file of mode 0600",
		"etcd-s3-secret-key":    "it is a secret: use the field S3, whose keys are written to a file of mode 0600",
		"etcd-s3-session-token": "it is a secret: name a Secret in kube-system with etcd-s3-config-secret",
		"server":                "use the field URL",
		"token":                 "it is a secret: use the field Token, which is written to " + tokenFile,
		"token-file":            "use the field Token, which is written to " + tokenFile,
		"vpn-auth":              "it is a secret: put it in a file of mode 0600 and name that with vpn-auth-file",
		"write-kubeconfig":      "this package reads " + kubeconfigFile,
		"write-kubeconfig-mode": "the kubeconfig is the cluster's master key and stays 0600",
	}
)

// checkKeys returns the mistakes in extra keys for K3s on role. typed are the keys that fields
// of the spec set.
func checkKeys(role Role, extra, typed map[string]any) []error {
	known := sharedKeys
	if role == RoleServer {
		known = slices.Concat(sharedKeys, serverKeys)
	}
	var errs []error
	for _, key := range sortedKeys(extra) {
		name := strings.TrimSuffix(key, "+") // "key+" appends to an earlier file's list
		instead, refused := refusedKeys[name]
		_, taken := typed[name]
		switch {
		case refused:
			errs = append(errs, fmt.Errorf("k3s key %q cannot be passed through: %s", key, instead))
		case slices.Contains(known, name) && taken:
			errs = append(errs, fmt.Errorf("k3s key %q is set twice: by a field of the spec and as an extra key; drop one", key))
		case slices.Contains(known, name):
		case role == RoleAgent && slices.Contains(serverKeys, name):
			errs = append(errs, fmt.Errorf("k3s key %q is for servers only, and an agent does not start with it: set it on the servers", key))
		default:
			errs = append(errs, fmt.Errorf("k3s %s has no key %q%s", role, key, didYouMean(name, known)))
		}
	}
	return errs
}

// didYouMean returns ": did you mean X?" when one of known is close to name.
func didYouMean(name string, known []string) string {
	best := suggest.Nearest(name, known)
	if best == "" {
		return ": docs.k3s.io/cli lists the keys"
	}
	return fmt.Sprintf(": did you mean %q?", best)
}
