package k3s

import (
	"regexp"
	"slices"
	"strings"
)

// symptom is a piece of a journal line and what it means. The texts are K3s' own, as recorded in
// testdata/real, or read in its source.
type symptom struct {
	text  string
	cause string
	cure  string // empty if one can only wait
}

// permanentSymptoms are the symptoms of problems that do not pass by themselves. They are ordered with the
// most specific first: a refused agent logs the refusal and "not ready" at the same time.
var permanentSymptoms = []symptom{
	{"Node password rejected, duplicate hostname",
		"the cluster knows another machine of this name",
		"delete its Node (kubectl delete node NAME frees the password too), or give this machine a name of its own"},
	{staleCertificate,
		"this agent has the certificate of a Node that was deleted or never registered, and K3s cannot join with it",
		"give it a new token, remove " + nodeCertificate + " and its .key, and restart k3s-agent; homelab cluster:up does so"},
	{"etcd cluster join failed: duplicate node name found",
		"etcd still has a member of this name",
		"delete the Node of the old server, which removes its member, then start this one again"},
	{"bootstrap data already found and encrypted with different token",
		"this machine holds the data of a cluster with another token",
		"join with the token that is in " + serverTokenFile + " of a running server"},
	{"no bootstrap data found in datastore",
		"its first start was interrupted, and its etcd has nothing of a cluster",
		"stop k3s, delete /var/lib/rancher/k3s/server/db, and start it again"},
	{"This node has been removed from the cluster",
		"this server was removed from etcd", "restart k3s to let it join again"},
	{"the member has been permanently removed from the cluster",
		"this server was removed from etcd",
		"recreate the machine; or stop k3s, delete /var/lib/rancher/k3s/server/db, and let it join again, with server: in its config.yaml; " +
			"without it, K3s starts a cluster of its own"},
	{"token CA hash does not match the Cluster CA certificate hash",
		"the token is of another cluster", "read the token again from a server of this one"},
	{"failed to bootstrap cluster data: not authorized",
		"the token is wrong, or is one for agents", "join servers with " + serverTokenFile + " of a running server"},
	{"failed to bootstrap cluster data: forbidden",
		"a bootstrap token cannot make a server", "join servers with " + serverTokenFile + " of a running server"},
	{"critical configuration value mismatch between servers",
		"a setting differs from that of the other servers",
		"give all servers the same addresses, domain, disabled components and encryption"},
	{"newer than datastore and could cause a cluster outage",
		"certificates on this machine are newer than those of its cluster, as after a restore",
		"remove the files that the line names, and start k3s again"},
	{"--token is required",
		"there is no token to join with", "write one to " + tokenFile},
	{"token is required to join a cluster",
		"there is no token to join with", "write one to " + tokenFile},
	{"invalid token format",
		"the token is not in the form of one", "read it again from " + serverTokenFile + " of a running server"},
	{"invalid token CA hash length",
		"the token is not whole", "read it again from " + serverTokenFile + " of a running server"},
	{"--server is required",
		"the agent does not know its server", "write server: https://ADDRESS:6443 to " + configFile},
	{"only https:// URLs are supported",
		"server: in config.yaml is not a URL with https", "write server: https://ADDRESS:6443 to " + configFile},
	{"Invalid server url",
		"server: in config.yaml is not a URL with https", "write server: https://ADDRESS:6443 to " + configFile},
	{"please pass --token to complete the restoration",
		"the snapshot needs the token of its cluster",
		"restore with --token or K3S_TOKEN, which must be the token of then; K3s does not read token-file for this"},
	{"etcd: snapshot path does not exist",
		"there is no such snapshot on this machine", "k3s etcd-snapshot ls shows those that there are"},
	{"cluster membership was previously reset, please remove the cluster-reset flag",
		"the cluster was reset already", "start k3s without --cluster-reset"},
	{"flag provided but not defined",
		"config.yaml has a key that agents do not have", "remove it from " + configFile},
	{"unknown flag: --",
		"an argument of the kubelet or of the control plane is not one of this version",
		"remove it from kubelet-arg, kube-apiserver-arg and the like in " + configFile},
	{"kubelet is configured to not run on a host using cgroup v1",
		"this machine has cgroup v1, and from Kubernetes 1.35 on the kubelet does not start there",
		"boot it with cgroup v2: remove systemd.unified_cgroup_hierarchy=0 from the kernel's command line, or install a newer system; " +
			"until then, kubelet-arg: [fail-cgroupv1=false] in " + configFile},
	{"ailed to find memory cgroup", // of both versions: k3s, pkg/cgroups/cgroups_linux.go
		"the kernel of this machine counts no memory",
		"on a Raspberry Pi, add cgroup_enable=memory cgroup_memory=1 to the one line of /boot/firmware/cmdline.txt (older systems: /boot/cmdline.txt), and restart the machine"},
	{"default runtime nvidia was not found",
		"default-runtime is nvidia, and the container toolkit is not installed",
		"install nvidia-container-toolkit first, or drop default-runtime"},
	{"unknown 'kubernetes.io' or 'k8s.io' labels specified",
		"a node-label is one that a kubelet may not give itself", "set it through the API instead"},
	{"bind: address already in use",
		"another process has one of K3s' ports", "stop it: ss -ltnp shows which one has the port"},
	{".service/start failed with result 'dependency'",
		"a unit that it needs failed, such as the mount of a data disk",
		"journalctl -b -g 'Dependency failed' shows which; attach the disk again, then repeat the command"},
	{"no space left on device",
		"the disk is full", "make room or grow the disk"},
	{"not authorized",
		"the server refuses the token: it is wrong, has expired or was deleted",
		"give the agent a new one, from k3s token create on a running server, and restart k3s-agent; homelab cluster:up does so"},
}

// transientSymptoms are the symptoms of problems that time or other machines may solve.
var transientSymptoms = []symptom{
	// Of the kubelet, pkg/kubelet/cm/cgroup_v1_manager_linux.go and cgroup_v2_manager_linux.go. Transient, as
	// before Kubernetes 1.31 it might miss cpuset at its first start (kubernetes/kubernetes#122955).
	{"has some missing paths",
		"a controller of cgroup v1 is not mounted on this machine, so the kubelet has no cgroup for pods",
		"boot it with cgroup v2 (stat -fc %T /sys/fs/cgroup prints cgroup2fs), or mount what the line names; in a container, its host decides that"},
	{"has some missing controllers",
		"a controller of cgroup v2 is not delegated on this machine, so the kubelet has no cgroup for pods",
		"/sys/fs/cgroup/cgroup.subtree_control must have those that the line names: switch them on where the kernel's command line has cgroup_disable=; in a container, its host decides that"},
	{"eaderelection lost", // of K3s itself, the scheduler or the controller manager, each of which ends K3s
		"K3s exited because it could not renew its leases in time",
		"most servers of the cluster are down, or this machine or its disk is too slow; systemd restarts K3s"},
	{"certificate has expired or is not yet valid",
		"a certificate is not valid at the time of this machine",
		"compare the clocks with timedatectl; K3s renews its certificates when it restarts"},
	{"context deadline exceeded (Client.Timeout",
		"the server does not answer", ""},
	{"failed to get CA certs",
		"the server cannot be reached", ""},
	{"dial tcp 127.0.0.1:2379: connect: connection refused",
		"etcd is starting", ""},
	{"connection refused",
		"the server does not accept connections yet", ""},
	{"no route to host",
		"there is no route to the server", ""},
	{"network is unreachable",
		"there is no route to the server", ""},
	{"server is not ready",
		"the server is not ready yet", ""},
	{"Waiting for etcd",
		"etcd is starting", ""},
	{"Waiting for API server",
		"the API server is starting", ""},
}

// detail is what the journal says beyond the cause.
func (s symptom) detail(journal []string) string {
	if keys := mismatches(journal); len(keys) > 0 && strings.Contains(s.text, "mismatch between servers") {
		return ": " + strings.Join(keys, ", ")
	}
	return ""
}

// mismatch names a setting that differs between servers: a key of config.yaml, or a field of
// K3s' own (pkg/cluster/bootstrap.go, clusterConfigurationValidation's warnings).
var mismatch = regexp.MustCompile(`critical configuration mismatched: ([A-Za-z-]+)`)

// fields are the names of keys of config.yaml in K3s, where its warning has no better.
var fields = map[string]string{
	"ClusterIPRange": "cluster-cidr", "ClusterIPRanges": "cluster-cidr", "ServiceIPRange": "service-cidr", "ServiceIPRanges": "service-cidr",
	"ClusterDNS": "cluster-dns", "ClusterDNSs": "cluster-dns",
}

// mismatches are the keys of config.yaml that differ between the servers, as K3s names them.
func mismatches(journal []string) []string {
	var keys []string
	for _, line := range journal {
		m := mismatch.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		key := m[1]
		if name, ok := fields[key]; ok {
			key = name
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
