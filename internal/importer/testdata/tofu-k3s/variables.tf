variable "proxmox_endpoint" { type = string }
variable "proxmox_api_token" {
  type      = string
  sensitive = true
}
variable "proxmox_insecure" {
  type    = bool
  default = true
}
variable "proxmox_node" { type = string }
variable "ubuntu_template_id" { type = string }
variable "vm_network_bridge" {
  type    = string
  default = "vmbr0"
}
variable "name_prefix" { type = string }
variable "ssh_public_keys" { type = list(string) }
variable "k3s_version" {
  type    = string
  default = "v1.30.5+k3s1"
}
variable "k3s_server_ip_cidr" { type = string }
variable "gateway" { type = string }
variable "nvidia_driver_branch" {
  type    = string
  default = "580"
}
variable "gpu_all_functions" {
  type    = bool
  default = true
}
variable "gpu_workers" {
  type = map(object({
    ip_cidr    = string
    gpu_pci_id = string
  }))
}
