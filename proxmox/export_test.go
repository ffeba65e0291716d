package proxmox

// Rules is the table of what changes take.
func Rules() []rule { return rules() }
