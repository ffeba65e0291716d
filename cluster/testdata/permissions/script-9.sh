# The minimal privileges of cluster least (cluster.yaml) on Proxmox VE 9.
# Run it as root on any host of the Proxmox cluster, and again after a change of the file.

# The user, without a password, and its API token. If the token is new, this prints
# the token's secret, and only this once. The token is privilege-separated:
# it may do only what both it and its user may do, so both get every role below.
# Use both only for this: a grant on a path replaces what the user
# inherits there from above, and a token with all of its user's privileges loses them.
pveum user list --output-format json | grep -qF '"homelab@pve"' || pveum user add homelab@pve --comment homelab
pveum user token modify homelab@pve least --privsep 1 2>/dev/null || pveum user token add homelab@pve least --privsep 1

# On /vms and the paths below:
#   VM.Audit: see the machines and their settings; without it Proxmox answers with empty lists
#   VM.Allocate: create and destroy machines, and turn one into the template
#   VM.Clone: clone machines from the template
#   VM.PowerMgmt: start and stop machines
#   VM.Config.CPU, VM.Config.Memory, VM.Config.Disk, VM.Config.Network: give machines their cores, memory, disks and network
#   VM.Config.HWType, VM.Config.Options: firmware, machine type, console, UUID and the guest agent's channel; tags, which with the UUID identify the owner of a machine
#   VM.Config.CDROM: insert and eject the first-boot ISO
#   VM.GuestAgent.Unrestricted: read SSH host keys and fill the template through the guest agent
pveum role add homelab-least-vms 2>/dev/null; pveum role modify homelab-least-vms --privs VM.Allocate,VM.Audit,VM.Clone,VM.Config.CDROM,VM.Config.CPU,VM.Config.Disk,VM.Config.HWType,VM.Config.Memory,VM.Config.Network,VM.Config.Options,VM.GuestAgent.Unrestricted,VM.PowerMgmt
pveum acl modify /vms --users homelab@pve --roles homelab-least-vms --propagate 1
pveum acl modify /vms --tokens 'homelab@pve!least' --roles homelab-least-vms --propagate 1

# On /storage/bulk alone:
#   Datastore.AllocateSpace: create disks of machines and templates, and grow them
pveum role add homelab-least-storage-bulk 2>/dev/null; pveum role modify homelab-least-storage-bulk --privs Datastore.AllocateSpace
pveum acl modify /storage/bulk --users homelab@pve --roles homelab-least-storage-bulk --propagate 0
pveum acl modify /storage/bulk --tokens 'homelab@pve!least' --roles homelab-least-storage-bulk --propagate 0

# On /storage/images alone:
#   Datastore.Audit: see whether cloud images are there; without it Proxmox omits the storage
#   Datastore.AllocateTemplate: put cloud images there
#   Datastore.Allocate: remove cloud images that are no longer used: Proxmox has no smaller privilege for that, and this one reaches everything on the storage
pveum role add homelab-least-storage-images 2>/dev/null; pveum role modify homelab-least-storage-images --privs Datastore.Allocate,Datastore.AllocateTemplate,Datastore.Audit
pveum acl modify /storage/images --users homelab@pve --roles homelab-least-storage-images --propagate 0
pveum acl modify /storage/images --tokens 'homelab@pve!least' --roles homelab-least-storage-images --propagate 0

# On /storage/isos alone:
#   Datastore.Audit: see whether first-boot ISOs are there; without it Proxmox omits the storage
#   Datastore.AllocateTemplate: put first-boot ISOs there
#   Datastore.Allocate: remove first-boot ISOs that are no longer used: Proxmox has no smaller privilege for that, and this one reaches everything on the storage
pveum role add homelab-least-storage-isos 2>/dev/null; pveum role modify homelab-least-storage-isos --privs Datastore.Allocate,Datastore.AllocateTemplate,Datastore.Audit
pveum acl modify /storage/isos --users homelab@pve --roles homelab-least-storage-isos --propagate 0
pveum acl modify /storage/isos --tokens 'homelab@pve!least' --roles homelab-least-storage-isos --propagate 0

# On /storage/vmdata alone:
#   Datastore.AllocateSpace: create disks of machines and templates, and grow them
#   Datastore.Audit: see which machines' disks are linked clones of a template's; without it Proxmox omits them from the list
pveum role add homelab-least-storage-vmdata 2>/dev/null; pveum role modify homelab-least-storage-vmdata --privs Datastore.AllocateSpace,Datastore.Audit
pveum acl modify /storage/vmdata --users homelab@pve --roles homelab-least-storage-vmdata --propagate 0
pveum acl modify /storage/vmdata --tokens 'homelab@pve!least' --roles homelab-least-storage-vmdata --propagate 0

# On /sdn/zones/localnetwork/vmbr0 and the paths below:
#   SDN.Use: plug machines into it, with or without a VLAN
pveum role add homelab-least-sdn-zones-localnetwork-vmbr0 2>/dev/null; pveum role modify homelab-least-sdn-zones-localnetwork-vmbr0 --privs SDN.Use
pveum acl modify /sdn/zones/localnetwork/vmbr0 --users homelab@pve --roles homelab-least-sdn-zones-localnetwork-vmbr0 --propagate 1
pveum acl modify /sdn/zones/localnetwork/vmbr0 --tokens 'homelab@pve!least' --roles homelab-least-sdn-zones-localnetwork-vmbr0 --propagate 1

# On /pool/lab alone:
#   Pool.Allocate, Pool.Audit: put machines into it, and see which are in it
pveum role add homelab-least-pool-lab 2>/dev/null; pveum role modify homelab-least-pool-lab --privs Pool.Allocate,Pool.Audit
pveum acl modify /pool/lab --users homelab@pve --roles homelab-least-pool-lab --propagate 0
pveum acl modify /pool/lab --tokens 'homelab@pve!least' --roles homelab-least-pool-lab --propagate 0

# On /nodes/pve1 alone:
#   Sys.AccessNetwork: let the host download the cloud image
#   Sys.Audit: let cluster:init and host:check see the host's CPUs, memory, clock and kernel; nothing else needs it
pveum role add homelab-least-nodes-pve1 2>/dev/null; pveum role modify homelab-least-nodes-pve1 --privs Sys.AccessNetwork,Sys.Audit
pveum acl modify /nodes/pve1 --users homelab@pve --roles homelab-least-nodes-pve1 --propagate 0
pveum acl modify /nodes/pve1 --tokens 'homelab@pve!least' --roles homelab-least-nodes-pve1 --propagate 0

# On / alone:
#   Sys.Audit: read which PCI devices the hosts have
pveum role add homelab-least-root 2>/dev/null; pveum role modify homelab-least-root --privs Sys.Audit
pveum acl modify / --users homelab@pve --roles homelab-least-root --propagate 0
pveum acl modify / --tokens 'homelab@pve!least' --roles homelab-least-root --propagate 0

# On /mapping/pci and the paths below:
#   Mapping.Modify, Mapping.Use: create a mapping for the cards of each node, and give machines the cards in it
pveum role add homelab-least-mapping-pci 2>/dev/null; pveum role modify homelab-least-mapping-pci --privs Mapping.Modify,Mapping.Use
pveum acl modify /mapping/pci --users homelab@pve --roles homelab-least-mapping-pci --propagate 1
pveum acl modify /mapping/pci --tokens 'homelab@pve!least' --roles homelab-least-mapping-pci --propagate 1

# On /mapping/pci/lent alone:
#   Mapping.Use: give machines the cards in the mapping lent
pveum role add homelab-least-mapping-pci-lent 2>/dev/null; pveum role modify homelab-least-mapping-pci-lent --privs Mapping.Use
pveum acl modify /mapping/pci/lent --users homelab@pve --roles homelab-least-mapping-pci-lent --propagate 0
pveum acl modify /mapping/pci/lent --tokens 'homelab@pve!least' --roles homelab-least-mapping-pci-lent --propagate 0

# To check: pveum user token permissions homelab@pve least
# To undo it, once nothing uses the token (a deleted role takes its grants along):
#   pveum user token delete homelab@pve least
#   pveum role delete homelab-least-vms
#   pveum role delete homelab-least-storage-bulk
#   pveum role delete homelab-least-storage-images
#   pveum role delete homelab-least-storage-isos
#   pveum role delete homelab-least-storage-vmdata
#   pveum role delete homelab-least-sdn-zones-localnetwork-vmbr0
#   pveum role delete homelab-least-pool-lab
#   pveum role delete homelab-least-nodes-pve1
#   pveum role delete homelab-least-root
#   pveum role delete homelab-least-mapping-pci
#   pveum role delete homelab-least-mapping-pci-lent
# and, if it has no other token: pveum user delete homelab@pve
