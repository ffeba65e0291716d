package cluster

// profilesFit holds each profile against the nodes.
func (r *resolver) profilesFit() {
}
