package world

// nodeSettings is what has been set on a node over the API; a zero value is what its
// model says.
type nodeSettings struct {
	Config   map[string]string // PVE/NodeConfig.pm
	DNS      map[string]string
	Hosts    string
	Timezone string
}
