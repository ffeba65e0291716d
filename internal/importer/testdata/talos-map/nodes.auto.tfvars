nodes_config = {
  "ctrl-00" = {
    machine_type = "controlplane"
    ip           = "10.25.150.11"
    mac_address  = "bc:24:11:00:00:11"
    vm_id        = 8101
  }
  "ctrl-01" = {
    machine_type = "controlplane"
    ip           = "10.25.150.12"
    mac_address  = "bc:24:11:00:00:12"
    vm_id        = 8102
  }
  "ctrl-02" = {
    machine_type = "controlplane"
    ip           = "10.25.150.13"
    mac_address  = "bc:24:11:00:00:13"
    vm_id        = 8103
  }
  "work-00" = {
    machine_type  = "worker"
    ip            = "10.25.150.21"
    mac_address   = "bc:24:11:00:00:21"
    vm_id         = 8201
    ram_dedicated = 12240
  }
  "work-02" = {
    machine_type = "worker"
    ip           = "10.25.150.23"
    mac_address  = "bc:24:11:00:00:23"
    vm_id        = 8203
    disks = {
      longhorn = {
        device      = "/dev/sdb"
        size        = "500G"
        type        = "scsi"
        mountpoint  = "/var/lib/longhorn"
        unit_number = 1
      }
    }
  }
  "work-03" = {
    machine_type = "worker"
    ip           = "10.25.150.24"
    mac_address  = "bc:24:11:00:00:24"
    vm_id        = 8204
    igpu         = true
    gpu_devices  = ["0000:01:00.0", "0000:01:00.1"]
  }
  "work-04" = {
    host_node    = "nuc"
    machine_type = "worker"
    ip           = "10.25.150.25"
    mac_address  = "bc:24:11:00:00:25"
    vm_id        = 8205
  }
}
