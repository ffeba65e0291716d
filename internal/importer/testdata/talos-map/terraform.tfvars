proxmox = {
  name      = "host1"
  endpoint  = "https://10.25.150.2:8006"
  insecure  = true
  username  = "root"
  api_token = "tofu@pve!talos=aaaaaaaa-bbbb-cccc-dddd-ffffdeadbeef"
}
