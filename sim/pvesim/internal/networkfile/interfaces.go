package networkfile

// Interfaces is what /etc/network/interfaces says: properties by interface.
type Interfaces map[string]map[string]string
