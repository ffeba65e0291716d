package pvesim

// interfaces is what /etc/network/interfaces says: properties by interface.
type interfaces map[string]map[string]string
