package cluster

// The settings that K3s knows, as in its pkg/cli/cmds (server.go, agent.go, root.go).
// A test holds them against managed.

// agentKeys are those of agents; servers are agents too.
var agentKeys = []string{
	"airgap-extra-registry", "alsologtostderr", "bind-address", "container-runtime-endpoint", "data-dir", "debug", "default-runtime", "disable-apiserver-lb",
	"disable-default-registry-endpoint", "docker", "enable-pprof", "flannel-cni-conf", "flannel-conf", "flannel-iface", "image-credential-provider-bin-dir",
	"image-credential-provider-config", "image-service-endpoint", "kube-proxy-arg", "kubelet-arg", "lb-server-port", "log", "node-external-dns", "node-external-ip",
	"node-internal-dns", "node-ip", "node-label", "node-name", "node-taint", "nonroot-devices", "pause-image", "prefer-bundled-bin", "private-registry",
	"protect-kernel-defaults", "resolv-conf", "rootless", "selinux", "server", "snapshotter", "token", "token-file", "v", "vmodule", "vpn-auth", "vpn-auth-file", "with-node-id",
}

// serverKeys are those of servers.
var serverKeys = append([]string{
	"advertise-address", "advertise-port", "agent-token", "agent-token-file", "cluster-cidr", "cluster-dns", "cluster-domain", "cluster-init", "cluster-reset",
	"cluster-reset-restore-path", "datastore-cafile", "datastore-certfile", "datastore-endpoint", "datastore-keyfile", "default-local-storage-path", "disable",
	"disable-agent", "disable-apiserver", "disable-cloud-controller", "disable-controller-manager", "disable-etcd", "disable-helm-controller", "disable-kube-proxy",
	"disable-network-policy", "disable-scheduler", "egress-selector-mode", "embedded-registry", "etcd-arg", "etcd-disable-snapshots", "etcd-expose-metrics", "etcd-s3",
	"etcd-s3-access-key", "etcd-s3-bucket", "etcd-s3-bucket-lookup-type", "etcd-s3-config-secret", "etcd-s3-endpoint", "etcd-s3-endpoint-ca", "etcd-s3-folder",
	"etcd-s3-insecure", "etcd-s3-proxy", "etcd-s3-region", "etcd-s3-retention", "etcd-s3-secret-key", "etcd-s3-session-token", "etcd-s3-skip-ssl-verify",
	"etcd-s3-timeout", "etcd-snapshot-compress", "etcd-snapshot-dir", "etcd-snapshot-name", "etcd-snapshot-reconcile-interval", "etcd-snapshot-retention",
	"etcd-snapshot-schedule-cron", "flannel-backend", "flannel-external-ip", "flannel-ipv6-masq", "helm-job-image", "https-listen-port", "kine-tls",
	"kube-apiserver-arg", "kube-cloud-controller-manager-arg", "kube-controller-manager-arg", "kube-scheduler-arg", "multi-cluster-cidr", "secrets-encryption",
	"secrets-encryption-provider", "service-cidr", "service-node-port-range", "servicelb-namespace", "supervisor-metrics", "system-default-registry", "tls-san",
	"tls-san-security", "write-kubeconfig", "write-kubeconfig-group", "write-kubeconfig-mode",
}, agentKeys...)
