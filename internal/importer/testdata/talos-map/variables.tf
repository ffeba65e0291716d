variable "proxmox" {
  type = object({
    name      = string
    endpoint  = string
    insecure  = bool
    username  = string
    api_token = string
  })
  sensitive = true
}
variable "storage_pool" {
  type    = string
  default = "local-lvm"
}
variable "cilium" {
  type    = any
  default = null
}
