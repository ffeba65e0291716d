variable "pm_api_url" { type = string }
variable "pm_api_token_id" { type = string }
variable "pm_api_token_secret" {
  type      = string
  sensitive = true
}
variable "pm_tls_insecure" {
  type    = bool
  default = true
}
variable "proxmox_node" { type = string }
variable "proxmox_ssh_user" {
  type    = string
  default = "root"
}
variable "vm_template" {
  type    = string
  default = "noble-cloud"
}
variable "storage_pool" {
  type    = string
  default = "local-lvm"
}
variable "nvme_storage_pool" {
  type    = string
  default = "nvme"
}
variable "network_bridge" {
  type    = string
  default = "vmbr0"
}
variable "gateway" {
  type    = string
  default = "10.0.0.1"
}
variable "nameserver" {
  type    = string
  default = "10.0.0.2"
}
variable "nameserver_secondary" {
  type    = string
  default = "10.0.0.3"
}
variable "control_plane_macs" {
  type    = list(string)
  default = ["00:16:3e:00:00:11", "00:16:3e:00:00:12", "00:16:3e:00:00:13"]
}
variable "control_plane_ips" {
  type    = list(string)
  default = ["10.0.0.11/24", "10.0.0.12/24", "10.0.0.13/24"]
}
variable "worker_ips" {
  type    = list(string)
  default = ["10.0.0.21/24", "10.0.0.22/24", "10.0.0.23/24", "10.0.0.24/24"]
}
variable "maintenance_ip" {
  type    = string
  default = ""
}
variable "storage_ip" {
  type    = string
  default = ""
}
variable "vm_user" {
  type    = string
  default = "ubuntu"
}
variable "ssh_public_key" { type = string }
variable "vm_password" {
  type      = string
  sensitive = true
}
variable "gpu_pci_addresses" {
  type = list(string)
  default = [
    "0000:41:00.0", "0000:42:00.0",
    "0000:81:00.0", "0000:82:00.0",
    "0000:c1:00.0", "0000:c2:00.0",
    "0000:e1:00.0", "0000:e2:00.0",
  ]
}
