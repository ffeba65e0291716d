proxmox_endpoint   = "https://192.168.10.5:8006/"
proxmox_api_token  = "tofu@pve!lab=11111111-2222-3333-4444-5555deadbeef"
proxmox_node       = "pve"
ubuntu_template_id = "9000"
name_prefix        = "gpu-lab"
ssh_public_keys    = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJdhpzqmrJHGkKWoSVXmkwvOVhGjB2yBgkqSBTWJ1/F ops"]
k3s_server_ip_cidr = "192.168.10.11/24"
gateway            = "192.168.10.1"

gpu_workers = {
  gpu1 = {
    ip_cidr    = "192.168.10.21/24"
    gpu_pci_id = "0000:01:00.0"
  }
  gpu2 = {
    ip_cidr    = "192.168.10.22/24"
    gpu_pci_id = "0000:41:00.0"
  }
}
