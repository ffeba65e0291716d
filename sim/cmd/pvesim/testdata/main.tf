terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}
provider "proxmox" {}
variable "memory" { default = 4096 }
variable "started" { default = false }
variable "number" { default = 2 }
resource "proxmox_virtual_environment_vm" "node" {
  count     = var.number
  name      = "node${count.index}"
  node_name = "pve1"
  vm_id     = 200 + count.index
  started   = var.started
  on_boot   = false
  stop_on_destroy = true
  tags      = ["k3s"]
  clone {
    vm_id = 9000
    full  = false
  }
  machine = "q35"
  agent {
    enabled = false
  }
  cpu {
    cores = 2
    type  = "x86-64-v2-AES"
  }
  memory {
    dedicated = count.index == 0 ? var.memory : 4096
  }
  network_device {
    bridge = "vmbr0"
  }
  initialization {
    datastore_id = "vmdata"
    ip_config {
      ipv4 {
        address = "10.0.0.${20 + count.index}/24"
        gateway = "10.0.0.1"
      }
    }
    user_account {
      username = "ubuntu"
      keys     = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL0lN6v1Bq0xkzKqyqg3B9vQ8rVt3Zr1sY7pW2mXq5Tn"]
    }
  }
  dynamic "hostpci" {
    for_each = count.index < 4 ? [1] : []
    content {
      device  = "hostpci0"
      mapping = "gpu${count.index}"
      pcie    = true
    }
  }
}
