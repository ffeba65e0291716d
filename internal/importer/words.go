package importer

import (
	"regexp"
	"strings"
)

// word is a setting of the whole cluster: a key of cluster.yaml, and how other tools call it.
type word struct {
	key   string
	as    convert
	names string // in lower case, parts of objects joined by _
}

// words are in the order in which cluster.yaml has the keys.
func words() []word {
	return []word{
		{"name", asName, "cluster_name name_prefix k3s_cluster_name talos_cluster_name cluster_data_name"},
		{"proxmox.endpoint", asEndpoint, "proxmox_endpoint pm_api_url proxmox_api_url proxmox_url proxmox_api_host pve_endpoint pve_url virtual_environment_endpoint"},
		{"proxmox.token", asToken, "proxmox_api_token_id pm_api_token_id proxmox_token_id pve_token_id"},
		{"proxmox.insecure", asBool, "proxmox_insecure pm_tls_insecure proxmox_tls_insecure pve_insecure tls_insecure"},
		{"proxmox.host", asText, "proxmox_node proxmox_name proxmox_cluster target_node pve_node proxmox_node_name default_node"},
		{"image.template", asText, "ubuntu_template_id vm_template template_id template_name template_vm_name vm_template_id vm_template_name vm_template_vmid"},
		{"image.seedStorage", asText, "proxmox_local_storage iso_storage snippets_storage cloud_init_datastore"},
		{"network.bridge", asText, "vm_network_bridge network_bridge proxmox_bridge vm_net_bridge bridge vm_bridge"},
		{"network.vlan", asNumber, "vlan_id network_vlan_id node_vlan_tag vlan_tag network_vlan"},
		{"network.mtu", asNumber, "mtu network_mtu"},
		{"network.prefix", asPrefix, "node_cidr network_cidr network_prefix subnet cluster_subnet"},
		{"network.gateway", asAddress, "gateway network_gateway vm_gateway default_gateway vm_ipv4_gateway node_default_gateway gateway_ip vm_data_network_gateway"},
		{"network.dns", asAddresses, "nameserver nameservers dns_servers network_dns_servers network_dns node_dns_servers vm_nameserver vm_dns"},
		{"network.search", asTexts, "search_domain searchdomain network_search_domain network_domain"},
		{"ssh.user", asText, "vm_user ssh_user ssh_username ci_user ciuser vm_ssh_user k8s_ssh_user ansible_user ansible_ssh_user vm_username"},
		{"ssh.publicKeys", asKeys, "ssh_public_keys ssh_public_key ssh_keys ssh_key sshkeys vm_ssh_keys vm_ssh_public_key ssh_authorized_keys k8s_ssh_pub_key ssh_pub_key"},
		{"ssh.privateKey", asPath, "ssh_private_key_file ansible_ssh_private_key_file k8s_ssh_key ssh_private_key_path private_key_file"},
		{"guest.packages", asTexts, "common_packages packages apt_packages extra_packages"},
		{"guest.timezone", asText, "timezone system_timezone tz"},
		{"k3s.version", asK3s, "k3s_version"},
		{"k3s.vip", asAddress, "api_vip vip network_vip cluster_vip k3s_vip apiserver_endpoint cluster_api_addr kube_vip_address control_plane_vip"},
		{"k3s.tlsSANs", asTexts, "cluster_api_tls_sans tls_sans tls_san"},
		{"k3s.podCIDR", asPrefixes, "cluster_cidr pod_cidr pod_network_cidr cluster_pod_cidr k3s_cluster_cidr kube_pods_subnet pod_subnet pod_network"},
		{"k3s.serviceCIDR", asPrefixes, "service_cidr cluster_svc_cidr k3s_service_cidr kube_service_addresses service_subnet service_network"},
		{"k3s.clusterDomain", asText, "cluster_domain k3s_cluster_domain"},
		{"k3s.disable", asTexts, "k3s_disable"},
		{"k3s.flannelBackend", asText, "flannel_backend k3s_flannel_backend"},
		{"nvidia.driver.branch", asBranch, "nvidia_driver_branch nvidia_driver_version driver_branch"},
		{"storage.nfs.class", asText, "nfs_storage_class_name nfs_storage_class"},
		{"storage.scratch.class", asText, "scratch_storage_class_name scratch_storage_class"},
		{"storage.scratch.path", asText, "scratch_path"},
		{"loadBalancer.addresses", asPools, "cilium_loadbalancer_ippool metallb_ip_range metal_lb_ip_range metallb_addresses lb_ip_pool load_balancer_ip_range"},
		{"rancher.hostname", asText, "rancher_hostname"},
		{"rancher.version", asText, "rancher_version"},
		{"rancher.replicas", asNumber, "rancher_replicas"},
		{"defaults.storage", asText, "storage_pool proxmox_storage proxmox_storage_pool vm_storage datastore datastore_id disk_storage vm_datastore storage_datastore_id"},
		{"defaults.cpu", asText, "cpu_type vm_cpu_type"},
		{"defaults.tags", asTexts, "vm_tags tags"},
	}
}

// secrets are settings that become references: a key, how others call it, and the variable that the file refers to.
func secretWords() []word {
	return []word{
		{"proxmox.secret", nil, "pm_api_token_secret proxmox_api_token_secret proxmox_token_secret pve_token_secret"},
		{"rancher.bootstrapPassword", nil, "rancher_bootstrap_password"},
	}
}

// variableOf is the environment variable of a reference.
func variableOf(key string) string {
	return map[string]string{"proxmox.secret": "PROXMOX_TOKEN_SECRET", "rancher.bootstrapPassword": "RANCHER_BOOTSTRAP_PASSWORD", "storage.cephfs.key": "CEPH_KEY"}[key]
}

// explanation says of names why they have no place.
type explanation struct {
	names  *regexp.Regexp
	reason string
}

// reasons say of settings why they have no place. The first that matches counts; needless ones begin with "+".
func reasons() []explanation {
	r := func(names, reason string) explanation {
		return explanation{regexp.MustCompile(`^(?:` + names + `)$`), reason}
	}
	const pinned = "homelab pins the versions of what it installs; to take another, write charts.versions"
	return []explanation{
		r(`versions_talos|talos_.*|.*schematic.*|schematic_id|image_(version|schematic|platform|arch|factory).*|machine_config.*`, "Talos: the file has nodes with K3s; for Talos write distribution: talos, see docs/talos.md"),
		r(`versions_kubernetes|kubernetes_version|k8s_version|kube_version`, "a version of Kubernetes does not name a release of K3s: homelab's default is taken, or write k3s.version"),
		r(`crio_version|containerd_version|k3s_containerd_socket|container_runtime`, "+K3s brings its own containerd"),
		r(`cilium_version`, "the file takes Cilium; "+pinned),
		r(`gpu_operator_version`, "the file takes NVIDIA's GPU operator; "+pinned),
		r(`(nvidia_)?device_plugin_version`, "the file takes NVIDIA's device plugin; "+pinned),
		r(`(argocd|ceph_csi|metallb|kube_vip|cert_manager|longhorn|nfs_provisioner|helm)_(version|tag_version|chart_version)`, pinned),
		r(`.*_namespace`, "+homelab chooses the namespaces of what it installs"),
		r(`helm_repos.*`, "+homelab knows the charts' repositories; charts: has mirrors"),
		r(`disable_swap|enable_ipv4_forward|control_plane_taint_removed|systemd_dir`, "+homelab's machines are so"),
		r(`ansible_.*`, "+homelab does not run Ansible"),
		r(`cluster_dns`, "+K3s takes the tenth address of the range of services"),
		r(`k3s_token|cluster_token|join_token`, "+K3s makes the token, and homelab reads it from a server"),
		r(`proxmox_(api_)?(user|username)|pm_user|virtual_environment_username`, "homelab logs in with an API token: host:prep makes one"),
		r(`proxmox_(api_)?password|pm_password|virtual_environment_password`, "homelab logs in with an API token, never with a password: host:prep makes one"),
		r(`vm_password|ci_?password|ssh_password|vm_ssh_password`, "write the hash of a password for the console, as mkpasswd prints it, into a variable, and ssh: {passwordHash: env:NAME}"),
		r(`ubuntu_release_version|os_version|ubuntu_version`, "homelab takes dated images of Ubuntu 24.04 or Debian 13: image.distribution"),
		r(`vm_net_model|network_model`, "+the card is always virtio"),
		r(`repository_(ssh_url|name|branch|url|visibility)|argocd_repo.*`, "GitOps needs a key and the server's host keys: write argocd: or flux: {repo, sshKey, knownHosts}"),
		r(`rancher_oidc_.*|oidc_.*`, "one login for all parts is the section login: {oidc: {issuer, clientID, clientSecret}}"),
		r(`install_ingress_nginx|ingress_class`, "homelab's ingress is Traefik or the Gateway API: ingress"),
		r(`cloudflare_.*`, "names and certificates are the sections dns and tls: {source: acme}"),
		r(`cilium_bgp_.*`, "loadBalancer.bgp is MetalLB's: write loadBalancer: {addresses, bgp}"),
		r(`node_ntp_servers|ntp_servers`, "write a file for systemd-timesyncd below guest.files"),
		r(`enable_(cuda|ceph|gpu_passthrough)`, "+the settings that it turns on decide"),
		r(`.*enable_gateway_api`, "write ingress: gateway"),
		r(`lb_nodes_.*|.*(maintenance|bastion|jump|load_?balancer|haproxy)_(mac|ip|vmid|vm_id).*`, "a VM that is not a node: write it below vms, with an image"),
		r(`storage_(mac|ip)`, "an NFS server of homelab's own is storage.nfs.vm, with a size"),
		r(`nfs_(server|path)`, "storage.nfs needs both, an address and a path"),
		r(`.*igpu`, "integrated graphics: write their address below devices"),
		r(`.*(gpu_device_meta|gpu_node_exclusive).*`, "+homelab reads the cards' IDs and groups from the host, and keeps other pods off by a taint"),
		r(`.*disks_.*_(device|unit_number|type|interface)`, "+the guest finds disks by serial, which is their name"),
		r(`.*proxmox_ssh_user|.*proxmox_host`, "host:prep and host:check take -ssh=USER@HOST"),
	}
}

var secretName = regexp.MustCompile(`(?i)(passw|secret|token|credential|private_?key|api_?key|_key$|^key$|kubeconfig|hash$|salt|passphrase)`)
var publicName = regexp.MustCompile(`(?i)(public|_pub_|pub_key|token_id|authorized|ssh_keys?$|key_?path|key_file|_ssh_key$)`)

// isSecret reports whether the value of a setting may be a secret, by its name.
func isSecret(name string) bool {
	return secretName.MatchString(name) && !publicName.MatchString(name)
}

// normal is a name as the tables have it.
func normal(name string) string {
	return strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(strings.ToLower(name))
}

var notName = regexp.MustCompile(`[^a-z0-9-]+`)

func asName(v value) (string, string) {
	n := strings.Trim(notName.ReplaceAllString(strings.ToLower(v.text), "-"), "-")
	if v.kind != text || n == "" || n[0] < 'a' || len(n) > 32 {
		return "", "it cannot be the name of a cluster"
	}
	return scalar(n), ""
}
