pm_api_url          = "https://10.0.0.5:8006/api2/json"
pm_api_token_id     = "terraform@pve!cluster"
pm_api_token_secret = "aaaaaaaa-bbbb-cccc-dddd-eeeedeadbeef"
proxmox_node        = "pve"
vm_password         = "deadbeef-console"
ssh_public_key      = <<EOF
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJdhpzqmrJHGkKWoSVXmkwvOVhGjB2yBgkqSBTWJ1/F admin
EOF
