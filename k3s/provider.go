package k3s

import "strings"

const providerArg = "provider-id="

// addProviderID adds the node's ID to kubelet's arguments in keys of K3s. A node gets it when it
// registers: K3s' cloud controller sets k3s://NAME only where there is none (InstanceMetadata,
// pkg/cloudprovider/instances.go), a kubelet whose Node has another one leaves that
// (tryRegisterWithAPIServer, pkg/kubelet/kubelet_node_status.go), and the API refuses a change.
func (n Node) addProviderID(keys map[string]any) {
	if n.ProviderID == "" {
		return
	}
	var args []string
	for _, a := range kubeletArgs(keys) {
		args = append(args, plain(a))
	}
	keys["kubelet-arg"] = append(args, providerArg+n.ProviderID)
}

// ProviderID is the ID that this K3s' configuration gives its node, empty for K3s' own.
func (s State) ProviderID() string {
	for _, a := range kubeletArgs(s.Config) {
		if id, ok := strings.CutPrefix(plain(a), providerArg); ok {
			return id
		}
	}
	return ""
}
