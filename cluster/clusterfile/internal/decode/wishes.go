package decode

import (
	"reflect"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// wish is what people look for and cluster.yaml cannot say yet: a true answer, and what to write
// or to do instead. What is set by hand on a VM stays, if proxmox.VMSpec does not model it.
type wish struct {
	in       string // sections, see sectionOf
	keys     string // as suggest.Normalize writes them
	contains string // if set: only if the value contains it
	why      string
	instead  string
}

const (
	byHand = "homelab keeps that until it recreates the VM"
	noVGPU = "homelab passes whole devices through, and a vGPU needs a guest driver that only NVIDIA's licensees can download"
	alone  = "homelab leaves it alone, and a recreated VM lacks it"
)

const vgpuInstead = "remove it; sharing: (time-slicing, mps, mig) divides a GPU among pods; with a licence, see docs/gpus.md#vgpus"

// wishes are in order: the first that fits answers.
var wishes = []wish{
	{in: "node", keys: "nics interfaces networkinterfaces extranetworks additionalnetworks secondnetwork storagenetwork net1 networkdevices",
		why:     "further network cards are called networks",
		instead: "write networks: {storage: {bridge: vmbr1, prefix: 10.10.0.0/24, address: 10.10.0.21}}"},
	{in: "network", keys: "networks nics interfaces additional extra second secondary storage",
		why:     "this is the first card, which Kubernetes uses",
		instead: "write further cards beside network: in defaults, a pool or a node, networks: {storage: {bridge: vmbr1, prefix: 10.10.0.0/24}}"},
	{in: "network", keys: "bond bonds routes staticroutes",
		why:     "the first card has one route, to the gateway",
		instead: "let the gateway route to other networks, or write routes: below a card of networks:; bonds and further bridges belong to the host, and bridge: names one of its bridges"},
	{in: "network", keys: "ipv6 ipv4 prefixes gateways address6 dualstack ip6 cidr6", why: "IPv6 beside IPv4 has keys of its own",
		instead: "write prefix6 and gateway6 here, and addresses6 in a pool or address6 in a node"},
	{in: "network", keys: "model rate trunks linkdown", why: "homelab sets a card's bridge, VLAN, MTU and queues, and its model is virtio",
		instead: "remove it; rate, trunks and link_down may be set by hand, and " + byHand},
	{in: "node", keys: "ipv6 ip6 secondaryaddress dualstack nodeip externalip", why: "a node has one address, or one of each family",
		instead: "write address, and address6 for IPv6 beside IPv4"},
	{in: "node proxmox file", keys: "firewall", why: "each network card is behind Proxmox's firewall or not",
		instead: "write network: {firewall: true}, and securityGroups: [NAME] in defaults, a pool or a node; nodes must reach each other on all ports"},
	{in: "node", keys: "securitygroup firewallgroup firewallgroups firewallrules rules", why: "rules of Proxmox's firewall are in its security groups",
		instead: "write securityGroups: [NAME], and network: {firewall: true}"},
	{in: "network card", keys: "securitygroup securitygroups firewallgroup firewallrules rules", why: "rules of Proxmox's firewall are in its security groups, which a VM has",
		instead: "write securityGroups: [NAME] in defaults, a pool or a node, and network: {firewall: true}"},
	{in: "proxmox", keys: "apitoken apitokenid tokenname pmapitokenid apitokensecret pmapitokensecret tokenvalue", why: "a token has an ID and a secret",
		instead: "write token: user@realm!name, and secret: env:NAME, file:PATH or sops:FILE#path"},
	{in: "proxmox", keys: "username pmuser login", why: "homelab logs in with an API token", instead: "write token: and secret: (docs/real-host.md); user: root@pam is for settings that no token may make"},
	{in: "proxmox", keys: "verify verifyssl sslverify verifytls tlsverify validatecerts insecureskipverify pmtlsinsecure skiptlsverify tls ssl", why: "the host's certificate is checked",
		instead: "write fingerprint: as pvenode cert info shows it, or ca:; insecure: true checks nothing"},
	{in: "proxmox", keys: "node nodes targetnode cluster", why: "Proxmox's nodes are called hosts", instead: "write host: pve1 for the one of nodes that name none, and hosts: {pve1: {}, pve2: {}} for several"},
	{in: "proxmox", keys: "storage storages datastore vmstorage", why: "storages are those of nodes' disks", instead: "write defaults: {storage: NAME} at the outermost level"},
	{in: "proxmox", keys: "port", why: "the port is a part of endpoint", instead: "write it there, endpoint: https://10.0.0.5:8006"},
	{in: "proxmox", keys: "pool resourcepool poolid", why: "VMs are in resource pools, each in one",
		instead: "write resourcePool: in defaults, a pool or a node"},
	{in: "node", keys: "proxmoxpool poolid pool", why: "a pool of this file is a group of nodes", instead: "write resourcePool: for the resource pool of Proxmox that the VM is in"},
	{in: "node proxmox", keys: "ha hagroup hastate haresource highavailability", why: "homelab does not set up Proxmox's HA: the token would need Sys.Console on /, and the file names each node's host",
		instead: "remove it; 3 servers on 3 hosts survive the loss of one; a VM that you add by hand stays in HA (docs/nodes.md#high-availability)"},
	{in: "node", keys: "pcidevices hostpci hostpci0 hostpci1 hostdevices passthrough pcipassthrough", why: "devices that are passed through have names",
		instead: "write gpus: for NVIDIA GPUs, and devices: {nvme: {pci: \"0000:03:00.0\"}} for others"},
	{in: "node", keys: "usb usbdevices usb0 usb1", why: "devices that are passed through have names", instead: "write devices: {stick: {usb: \"10c4:ea60\"}}, with vendor and product as lsusb shows them on the host, or a resource mapping's name"},
	{in: "node", keys: "ballooning minmemory memorymin floating floatingmemory balloonmin", why: "a node's memory is fixed: Proxmox starts a VM that has a minimum with that, and kubelet counts on what it finds then",
		instead: "write balloon: true, with which the guest returns memory that it does not use"},
	{in: "node", keys: "sockets", why: "a node has one socket", instead: "write cores: with all of them; numaNodes: shows the guest several NUMA nodes"},
	{in: "node", keys: "machine machinetype", why: "homelab chooses the machine type: the newest q35", instead: "remove it; a pinned q35, such as pc-q35-9.2, may be set by hand, and " + byHand},
	{in: "node", keys: "scsihw scsicontroller ostype kvm acpi tablet hotplug boot bootorder agent qemuagent guestagent", why: "homelab chooses this itself", instead: "remove it"},
	{in: "node", keys: "cpushares rng rng0 watchdog smbios smbios1 audio spice migratedowntime", why: "homelab does not set it",
		instead: "remove it; it may be set by hand (qm set VMID), and " + byHand},
	{in: "node", contains: "provider-id", keys: nodeConfig, why: "K3s' settings are the same on all nodes, so none can name one node's provider-id",
		instead: "remove it: each VM's node gets proxmox://REGION/VMID when it joins, with proxmox.region as REGION"},
	{in: "node", keys: nodeConfig, why: "K3s' settings are the same on all nodes",
		instead: "write k3s: {agent: …} for every node, or {server: …} for servers; labels:, taints: and address: are a node's own"},
	{in: "node", keys: "vga bios efi efidisk uefi ovmf secureboot", why: "homelab chooses the firmware and the console", instead: "remove it; image: {secureBoot: true} switches Secure Boot on for all"},
	{in: "node", keys: "os distribution distro template imageurl cloudimage", why: "one image is for all nodes", instead: "write image: at the outermost level; an external machine keeps its own system"},
	{in: "node", keys: "architecture platform", why: "VMs are x86-64, and an external machine says which it is", instead: "remove it"},
	{in: "node", keys: "size disksize rootdisk osdisk systemdisk", why: "a node's disks have names", instead: "write disks: {os: {size: 100GiB}}"},
	{in: "node", keys: "become becomepassword becomepass sudo sudopass password user", why: "logins use keys, and an existing machine's user becomes root with sudo",
		instead: "write external: user@address:port, and sudoPassword: env:NAME if sudo asks there"},
	{in: "node", keys: "ip ips ipaddress ipaddresses cidr ipconfig ipconfig0", why: "it has another name",
		instead: "write addresses: in a pool and address: in a node, without a prefix length, which is network.prefix's"},
	{in: "node", keys: "node target targetnode proxmoxnode pvenode", why: "it has another name", instead: "write host: and the name of a Proxmox host"},
	{in: "network", keys: "domain searchdomain searchdomains dnssearch", why: "it has another name", instead: "write search: [home.arpa]"},
	{in: "network", keys: "interface nic device iface ifname", why: "the first card is eth0, by its MAC address", instead: "remove it"},
	{in: "node", keys: "annotations", why: "homelab sets no annotations of nodes", instead: "write labels:, or use kubectl annotate node, which homelab leaves alone"},
	{in: "node", keys: "ssh sshkey sshport sshuser sshhost privatekey identityfile keyfile jump jumphost proxyjump bastion port", why: "one section ssh: is for all machines",
		instead: "an existing machine has external: user@address:port, and beside it privateKey: and jump: user@host:port of its own"},
	{in: "node", keys: "cloudinit userdata cicustom ciuser sshkeys guest", why: "what is in the machines is the same for all",
		instead: "write guest: and ssh: at the outermost level"},
	{in: "vm", keys: "role labels taints pool", why: "a VM of vms is not a node of Kubernetes", instead: "remove it, or write the machine under nodes"},
	{in: "vm", keys: "external adopt privatekey jump sudopassword", why: "a VM of vms is made by homelab, which does not log in to it", instead: "remove it; existing machines can be nodes"},
	{in: "vm", keys: "cdrom disc discs", why: "only Windows is installed from discs", instead: "for Windows write iso:; install another system once by hand, make that a template, and write template: and its name"},
	{in: "vm", keys: "answerfile unattend autounattend", why: "homelab writes the answer file of Windows Setup", instead: "remove it, and write iso: with edition: and language:"},
	{in: "vm", keys: "windows os", why: "its system is that of its image or template", instead: "for Windows write system: windows beside template: or iso:"},
	{in: "vm", keys: "cloudinit userdata cicustom packages files guest user sshkeys ssh", why: "the first boot makes the login of ssh:, the network and the guest agent",
		instead: "remove it, and set up the rest in the guest"},
	{in: "disk", contains: "/dev/", keys: "path device raw passthrough byid disk", why: "only root@pam may give a VM a disk of its host",
		instead: "write storage: and size:, or add it by hand, as root on the host: qm set VMID -scsi12 /dev/disk/by-id/NAME; homelab neither formats nor mounts it, and leaves it alone"},
	{in: "disk", keys: "aio iops mbps bandwidth mbpsrd mbpswr queues", why: "homelab sets ssd, discard, iothread, cache, backup and replicate of a disk",
		instead: "remove it; other options may be set by hand, e.g. qm set VMID -scsi1 STORAGE:VOLUME,aio=native, and " + byHand},
	{in: "disk", keys: "format bus interface type controller serial slot", why: "disks are SCSI disks in the storage's own format, with their names as serials", instead: "remove it"},
	{in: "disk", keys: "options mountoptions label", why: "homelab chooses how a disk is mounted", instead: "remove it, or leave out mount: and write a unit with guest.files"},
	{in: "gpus", keys: "primary xvga primarygpu vga display", why: "a node's GPUs compute: none is its display", instead: "remove it"},
	{in: "gpus", keys: "id ids deviceid vendor vendorid name type card cards memory vram", why: "cards are filtered by model", instead: "write model: with words of the name that lspci shows, e.g. RTX 3090 or A100 80GB"},
	{in: "gpus", keys: "uuid uuids index indices indexes device devices address addresses bus busid slot hostpci pciaddress pciid gpuids", why: "a card is named by its PCI address on the host",
		instead: "write pci: [\"01:00\"], as lspci shows it; or count: and homelab chooses"},
	{in: "gpus", keys: "rom vbios", why: "the card's own ROM is used", instead: "remove it; rombar: false hides it from the guest"},
	{in: "gpus", keys: "replicas share shares timeslicing timeslice mps mig migprofile migstrategy profile profiles partitions slices layouts", why: "how GPUs are divided among pods has a section of its own",
		instead: "write sharing: {strategy: time-slicing, replicas: 4}, or {strategy: mig, layouts: [{profiles: {1g.5gb: 7}}]}"},
	{in: "gpus nvidia", keys: "power powerlimit powercap clocks clocklimit applicationclocks ecc computemode persistence persistencemode fan fans overclock",
		why:     "homelab sets no clocks, power limits or modes of cards",
		instead: "remove it; for all nodes, write a unit that runs nvidia-smi with guest.files, e.g. nvidia-smi -pl 250; the driver stays initialised anyway"},
	{in: "nvidia", keys: "driverversion version cuda cudaversion drivers", why: "the driver follows from the cards, and CUDA comes with a container's image",
		instead: "remove it, or pin a branch: driver: {branch: 580}"},
	{in: "nvidia", keys: "timeslicing timeslice mps mig migstrategy shares replicas", why: "how GPUs are shared has a section of its own",
		instead: "write sharing: {strategy: time-slicing, replicas: 4}, or strategy: mps or mig"},
	{in: "nvidia", keys: "operator gpuoperator deviceplugin plugin dra", why: "one stack makes GPUs allocatable", instead: "write stack: device-plugin (the default), operator, dra or none"},
	{in: "nvidia", keys: "toolkit containertoolkit runtimeclass runtime fabricmanager nouveau open openkernelmodules opensource", why: "homelab sets it up as the cards need it",
		instead: "remove it; driver: {flavour: open} pins the open kernel modules"},
	{in: "nvidia", keys: "dcgm dcgmexporter exporter metrics", why: "metrics of GPUs are part of monitoring", instead: "write monitoring: true at the outermost level"},
	{in: "nvidia", keys: "vgpu vgpumanager license licenseserver licensetoken clientconfigtoken gridd", why: noVGPU, instead: vgpuInstead},
	{in: "sharing", keys: "profile profiles config mig migstrategy partitions instances slices", why: "instances are written by GPU", instead: "write layouts: [{profiles: {1g.5gb: 7}}]; {gpus: [0], profiles: …} is for single ones"},
	{in: "sharing", keys: "timeslicing mps resources renamebydefault failrequestsgreaterthanone", why: "the device plugin's configuration is made from two keys", instead: "write strategy: time-slicing and replicas: 4"},
	{in: "ssh", keys: "password becomepassword becomepass sudopass sudo become", why: "logins use keys, and the user of an existing machine becomes root with sudo",
		instead: "let your key in with ssh-copy-id, and write sudoPassword: env:NAME if sudo asks there"},
	{in: "ssh", keys: "port ports", why: "ports are those of single machines", instead: "write external: user@address:port; VMs listen on 22"},
	{in: "ssh", keys: "stricthostkeychecking hostkeychecking knownhosts knownhostsfile insecure insecureignorehostkey fingerprint", why: "host keys are always compared",
		instead: "remove it; log in once with ssh, which adds an external machine's key to ~/.ssh/known_hosts"},
	{in: "ssh", keys: "options config configfile extraargs commonargs", why: "homelab logs in by itself and reads no ssh_config", instead: "write user:, privateKey: or agent:, and jump: or proxy:"},
	{in: "gpus device", keys: "mdev vgpu vgputype vgpuprofile mdevtype mediated sriov", why: noVGPU, instead: vgpuInstead},
	{in: "device", keys: "function functions multifunction allfunctions", why: "an address without the function is the device with all of them",
		instead: "write pci: \"0000:03:00\", or name several, each by its address: {a: {pci: \"0000:03:00.0\"}, b: {pci: \"0000:03:00.2\"}}"},
	{in: "gpus", keys: "driver driverversion branch", why: "one driver is for all nodes", instead: "write nvidia: {driver: {branch: …}}"},
	{in: "gpus", keys: "host", why: "GPUs are of their node's host", instead: "write host: in the node or pool"},
	{in: "balancer", keys: "peers asn myasn peerasn bgppeers", why: "routers are those of bgp",
		instead: "write bgp: {asn: 64512, peers: [{address: 10.0.0.1, asn: 64500}]}"},
	{in: "balancer", keys: "pools ippools pool range ranges ip ips address", why: "the load balancer has one list of addresses", instead: "write addresses: [10.0.0.200-10.0.0.219]"},
	{in: "nfs", keys: "path share folder directory exportpath", why: "the server's folder is its export", instead: "write export: and that path"},
	{in: "nfs", keys: "options opts mountopts mountoption", why: "it has another name", instead: "write mountOptions: [nfsvers=4.1, hard, noatime]"},
	{in: "nfs", keys: "version nfsversion nfsvers vers protocol protocolversion", why: "the version is a mount option",
		instead: "write mountOptions: [nfsvers=4.1, hard, noatime], or nfsvers=3 for a server without NFS 4"},
	{in: "profile", keys: "imagechoices choices profileoptions options imageoptions", why: "people choose an image and a size",
		instead: "write images: {NAME: IMAGE} and sizes: {NAME: {cpu: 2, memory: 8GiB}}"},
	{in: "profile", keys: "storage disk localstorage ephemeral", why: "it has another name", instead: "write ephemeralStorage: 20GiB; hub.scratch gives each server a volume for temporary files"},
	{in: "profile", keys: "extraresources extraresourcelimits resources limits requests guarantees", why: "a profile limits CPU, memory, disk and GPUs",
		instead: "write cpu:, memory: {guarantee: …, limit: …}, ephemeralStorage: and gpus:; further resources belong in charts.values.jupyterhub.singleuser.extraResource"},
	{in: "profile", keys: "nodeselector affinity tolerations node nodes nodename gputype gpumodel", why: "a profile runs on the nodes of a pool", instead: "write pool: and its name"},
	{in: "profile", keys: "volumes extravolumes volumemounts extravolumemounts mounts", why: "volumes are the same for all profiles", instead: "write hub.shared, or charts.values.jupyterhub.singleuser.storage.extraVolumes"},
	{in: "profile", keys: "command cmd args initcontainers sidecars extracontainers containers ports extraports securitycontext uid gid serviceaccount timeout starttimeout kubespawneroverride",
		why:     "a profile has no such setting",
		instead: "write it for all profiles in charts.values.jupyterhub.singleuser: cmd, initContainers, extraContainers, uid, startTimeout and others"},
	{in: "profile", keys: "lifecycle lifecyclehooks starthook startscript poststart startupscript script setup hooks beforenotebook", why: "what runs before a server is called start",
		instead: "write start: and a shell script"},
	{in: "profile", keys: "pip pippackages requirements pythonpackages conda condapackages environmentyml modules", why: "Python packages are called packages",
		instead: "write packages: [torchmetrics==1.8.2]; large ones belong in an image"},
	{in: "profile", keys: "cpulimit cpuguarantee cpus memlimit memguarantee memorylimit memoryguarantee", why: "a profile has cpu and memory, each with guarantee and limit",
		instead: "write cpu: {guarantee: 1, limit: 4} and memory: {guarantee: 4GiB, limit: 16GiB}, or one value for both"},
	{in: "profile", keys: "displayname label slug", why: "a profile's name is its key, and title is what people see", instead: "write title:"},
	{in: "profile", keys: "timeslicing replicas sharing", why: "how GPUs are shared is the nodes' matter", instead: "write nvidia: {sharing: …} or gpus.sharing of a pool; gpus: 1 is then one share"},
	{in: "hub", keys: "image images", why: "images belong to profiles", instead: "write image: in a profile"},
	{in: "hub", keys: "allowedusers users allowed", why: "who may use the hub is in auth", instead: "write auth: {users: [ann, bob]}"},
	{in: "hub", keys: "adminusers admins admin", why: "who administers the hub is in auth", instead: "write auth: {admins: [ann]}"},
	{in: "hub", keys: "sharedfolders sharedvolumes datasets volumes extravolumes shareddata", why: "what every notebook mounts is a share of the NFS server",
		instead: "write storage: {nfs: {shares: {datasets: /export/datasets}}} and hub: {shared: {datasets: /data}}"},
	{in: "hub", keys: "storage volume homedir homedirectory persistence pvc userstorage", why: "users' folders are called home", instead: "write home: {size: 20GiB, class: nfs}"},
	{in: "hub", keys: "defaulturl url env environment lab", why: "it belongs to profiles", instead: "write profiles: {NAME: {defaultURL: /lab, env: {A: b}}}"},
	{in: "hub", keys: "proxy services loadroles roles tokens starttimeout concurrentspawnlimit namedservers allownamedservers activeserverlimit scheduling placeholder podpriority", why: "it is a value of the hub's chart",
		instead: "write it in charts: {values: {jupyterhub: {…}}} as JupyterHub's chart has it"},
	{in: "hubauth", keys: "allowedusers allowlist whitelist allowed", why: "people who may use the hub are called users", instead: "write users: [ann, bob]"},
	{in: "hubauth", keys: "adminusers adminlist", why: "people who administer the hub are called admins", instead: "write admins: [ann]"},
	{in: "hubauth", keys: "google gitlab azure azuread entra keycloak authentik okta auth0 generic oauth oauth2 genericoauth", why: "such providers speak OpenID Connect",
		instead: "write oidc: {issuer: …, clientID: …, clientSecret: …}"},
	{in: "hubcull", keys: "timeout idletimeout after", why: "the time without activity is called idle", instead: "write idle: 1h, with its unit"},
	{in: "hub", keys: "values extraconfig config helmvalues chartvalues singleuser extraenv", why: "values of the hub's chart have a place of their own", instead: "write charts: {values: {jupyterhub: {…}}}"},
	{in: "hub", keys: "tls https certificate letsencrypt ingress", why: "one section is for all parts", instead: "write tls: and ingress: at the outermost level"},
	{in: "image", keys: "arch architecture platform", why: "VMs are x86-64, as Proxmox VE's hosts are", instead: "remove it; an external machine may be arm64"},
	{in: "k3s", keys: "dualstack ipv6 podcidr6 servicecidr6 podcidrs servicecidrs", why: "the networks of both families are a list",
		instead: "write podCIDR: [10.42.0.0/16, fd00:42::/56], and serviceCIDR: in the same way"},
	{in: "k3s", keys: "datadir", why: "K3s' data stay in /var/lib/rancher/k3s", instead: DataDisk},
	{in: "k3s", keys: "kubelet kubeletarg kubeletargs kubeletextraargs kubeletconfig", why: "kubelet's arguments are keys of K3s' config.yaml", instead: "write agent: {kubelet-arg: [max-pods=150]}"},
	{in: "k3s", keys: "config extraargs args extraconfig serverargs", why: "keys of K3s' config.yaml have two places", instead: "write server: {…} for servers, or agent: {…} for every node"},
	{in: "k3s", keys: "token datastore datastoreendpoint", why: "homelab makes the token, and the servers keep etcd themselves", instead: "remove it"},
	{in: "file", keys: "gpuoperator deviceplugin gpus gpu drivers driver", why: "GPUs are of nodes, and their driver is in nvidia", instead: "write gpus: in a pool or node; nvidia: {stack: operator} is the GPU operator"},
	{in: "file", keys: "traefik nginx ingressnginx haproxy gatewayapi", why: "how HTTP enters the cluster is called ingress", instead: "write ingress: traefik, gateway or none; another controller can be installed by hand with none"},
	{in: "file", keys: "nodepools nodegroups workers worker agents masters master servers controlplane controlplanes machines hosts inventory", why: "nodes are in pools, or one by one in nodes",
		instead: "write pools: {cp: {role: server, count: 3, …}, gpu: {count: 2, gpus: 1, …}}"},
	{in: "file", keys: "kubernetes k8sversion k3sversion", why: "the version is one of what installs Kubernetes", instead: "write k3s: {version: …}, or kubeadm: or talos: with distribution:"},
	{in: "file", keys: "rke2 k0s microk8s", why: "homelab installs Kubernetes with K3s, kubeadm or Talos", instead: "write distribution: k3s, kubeadm or talos"},
	{in: "file", keys: "cloudinit users user packages sysctls", why: "what is in the machines is in guest, and who may log in is in ssh", instead: "write guest: {packages: […], files: […]} and ssh: {user: …, publicKeys: […]}"},
	{in: "file", keys: "storageclass storageclasses csi nfs ceph cephfs localpath", why: "storage classes are in storage", instead: "write storage: {nfs: 10.0.0.30:/export}, or its other keys; default: names the default class"},
	{in: "file", keys: "registry registries mirrors proxy httpproxy", why: "image registries and proxies have places of their own", instead: "write mirror: {registry: …} or k3s: {registries: {…}} for images, and guest: {apt: {httpsProxy: …}} for downloads"},
	{in: "file", keys: "addons apps applications helm helmcharts manifests harbor gitlab slurm ray kubeflow kubevirt keda mlflow ollama vllm", why: "homelab installs the parts that it has a section for",
		instead: "remove it; install others by hand or with fleet: {repo: …}, and homelab leaves them alone"},
	{in: "file", keys: "fluxcd argo gitops", why: "GitOps is by Fleet, Flux or Argo CD", instead: "write fleet: {repo: …}, flux: {repo: …} or argocd: {repo: …}; another operator can be installed by hand, and homelab leaves it alone"},
}

const (
	nodeConfig = "maxpods reserved systemreserved kubereserved k3s k3sconfig kubelet kubeletarg kubeletargs kubeletextraargs kubeletconfig server config nodeconfig providerid"
)

// DataDisk is the cure for those who look for another folder of K3s' data.
const DataDisk = "give new nodes a disk that is mounted there: disks: {k3s: {size: 200GiB, mount: /var/lib/rancher}}, or with mount: /var/lib/kubelet for pods' ephemeral storage"

// sectionOf names a section for wishes, "" for those that have none.
func sectionOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[spec.Spec]():
		return "file"
	case reflect.TypeFor[spec.Shape](), reflect.TypeFor[spec.Pool](), reflect.TypeFor[spec.Node]():
		return "node"
	case reflect.TypeFor[spec.GPURequest]():
		return "gpus"
	case reflect.TypeFor[spec.LoadBalancer]():
		return "balancer"
	case reflect.TypeFor[spec.HubProfile]():
		return "profile"
	}
	return strings.ToLower(Name(t))
}

// answer returns the answer to a wish.
func answer(t reflect.Type, f yamlnode.Field) (wish, bool) {
	section, key := sectionOf(t), suggest.Normalize(f.Name)
	for _, w := range wishes {
		if slices.Contains(strings.Fields(w.in), section) && slices.Contains(strings.Fields(w.keys), key) && holds(f.Value, w.contains) {
			return w, true
		}
	}
	return wish{}, false
}

// holds reports whether some text of a tree contains s.
func holds(t *yamlnode.Node, s string) bool {
	return strings.Contains(t.Text, s) ||
		slices.ContainsFunc(t.Items, func(i *yamlnode.Node) bool { return holds(i, s) }) ||
		slices.ContainsFunc(t.Fields, func(f yamlnode.Field) bool { return strings.Contains(f.Name, s) || holds(f.Value, s) })
}
