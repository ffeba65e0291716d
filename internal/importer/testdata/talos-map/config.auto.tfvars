cluster_name   = "talos"
cluster_domain = "kube.home.example"

network = {
  gateway     = "10.25.150.1"
  vip         = "10.25.150.10"
  cidr_prefix = 24
  dns_servers = ["10.25.150.1"]
  bridge      = "vmbr0"
  vlan_id     = 150
}

defaults_controlplane = {
  cpu           = 4
  ram_dedicated = 8192
  disk_size     = 40
}
defaults_worker = {
  cpu           = 8
  ram_dedicated = 16384
  disk_size     = 80
  igpu          = false
}

versions = {
  talos      = "v1.11.6"
  kubernetes = "1.34.3"
}

oidc = {
  issuer_url = "https://sso.home.example/application/o/kubectl/"
  client_id  = "kubectl"
}
