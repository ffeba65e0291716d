provider "proxmox" {
  pm_api_url = var.pm_api_url
}

resource "proxmox_vm_qemu" "control_plane" {
  count       = 3
  name        = "cp${count.index + 1}"
  target_node = var.proxmox_node
  clone       = var.vm_template
  cores       = 4
  sockets     = 1
  memory      = 16384
  bios        = "ovmf"
  machine     = "q35"
  agent       = 1
  onboot      = true
  tags        = "k3s,control-plane"
  ciuser      = var.vm_user
  cipassword  = var.vm_password
  sshkeys     = var.ssh_public_key
  nameserver  = "${var.nameserver} ${var.nameserver_secondary}"
  ipconfig0   = "ip=${var.control_plane_ips[count.index]},gw=${var.gateway}"

  disk {
    slot    = "scsi0"
    size    = "100G"
    storage = var.storage_pool
  }
  disk {
    slot    = "ide2"
    type    = "cloudinit"
    storage = var.storage_pool
  }
  network {
    model   = "virtio"
    bridge  = var.network_bridge
    macaddr = var.control_plane_macs[count.index]
  }
}

resource "proxmox_vm_qemu" "gpu_worker" {
  count       = 4
  name        = "wk-gpu${count.index + 1}"
  target_node = var.proxmox_node
  clone       = var.vm_template
  cores       = 16
  memory      = 131072
  bios        = "ovmf"
  machine     = "q35"
  agent       = 1
  ipconfig0   = "ip=${var.worker_ips[count.index]},gw=${var.gateway}"

  disk {
    slot    = "scsi0"
    size    = "500G"
    storage = var.storage_pool
  }
  disk {
    slot    = "scsi1"
    size    = "1000G"
    storage = var.nvme_storage_pool
  }
  network {
    model  = "virtio"
    bridge = var.network_bridge
  }
}

resource "proxmox_vm_qemu" "maintenance" {
  count  = var.maintenance_ip != "" ? 1 : 0
  name   = "maintenance"
  cores  = 2
  memory = 4096
}
