package pvesim

// nodeSettings is what has been set on a node over the API; a zero value is what its
// model says.
type nodeSettings struct {
	config   map[string]string // PVE/NodeConfig.pm
	dns      map[string]string
	hosts    string
	timezone string
}
