proxmox_url       = "https://192.168.1.4:8006/api2/json"
proxmox_username  = "terraform@pve"
proxmox_api_token = "terraform@pve!one=aaaaaaaa-bbbb-cccc-dddd-9999deadbeef"
proxmox_node      = "pve"

cluster_name       = "homelab"
talos_version      = "v1.11.4"
kubernetes_version = "v1.31.0"
talos_schematic_id = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

node_name      = "talos-01"
node_ip        = "192.168.1.100"
node_gateway   = "192.168.1.1"
node_netmask   = 24
node_cpu_cores = 8
node_memory    = 32768
node_disk_size = 200
node_storage   = "local-lvm"
dns_servers    = ["192.168.1.1"]

enable_gpu_passthrough = true
gpu_pci_id             = "01:00"
gpu_pcie               = true
gpu_rombar             = false
